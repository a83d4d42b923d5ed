// Tasks, and decisions that a session asks the human for.

#include "base/instant.h"
#include "broker/core.h"
#include "wire/limits.h"
#include "wire/task_messages.h"

namespace mosaic::broker {
namespace {

constexpr size_t kShownBytes = 256;

std::string task_id(int64_t number) {
    return numbered('t', number);
}

wire::Task to_wire(const StoredTask& stored) {
    wire::Task out;
    out.id = task_id(stored.number);
    out.role = stored.role;
    out.state = stored.state;
    out.title = stored.title;
    out.body = stored.body;
    out.note = stored.note;
    out.by = stored.by;
    out.at = iso8601(stored.at);
    if (stored.updated_at) {
        out.updated_by = stored.updated_by;
        out.updated_at = iso8601(*stored.updated_at);
    }
    return out;
}

Outcome no_task(int64_t id, const std::string& task) {
    return error(
        id, BusError::not_found, "no task " + clip(task, 64) + "; task.list has the ids, as t1");
}

// What the asking session reads of the answer.
std::string told(const Decision& decision,
                 const std::string& question,
                 const wire::DecideArgs& args) {
    std::string out = "Decision " + numbered('d', decision.number) + ": " +
                      (args.allow ? "allowed" : "denied") + ".\n";
    if (!args.note.empty()) {
        out += args.note + "\n";
    }
    return out + "\nThe question was: " + question + "\n";
}

}  // namespace

Result<std::optional<Outcome>> Core::permit(const wire::Request& request,
                                            const Sender& sender,
                                            std::string what,
                                            int64_t now,
                                            int64_t* allowance) {
    const Permission permission = permission_of(config_, sender.seat.instance, request.verb);
    if (permission == Permission::absent) {
        return std::optional(
            error(request.id,
                  BusError::not_authorized,
                  request.verb + " isn't in the authority of " + sender.seat.instance));
    }
    if (permission == Permission::free) {
        return std::optional<Outcome>();
    }
    const GatedCall call{sender.seat, request.verb, json::dump(request.args), std::move(what)};
    MOSAIC_TRY_ASSIGN(auto gated, gate(request.id, call, now, allowance));
    if (!gated) {
        return std::optional<Outcome>();
    }
    Outcome out;
    if (!gated->decision.empty()) {
        out.note = need(wire::NeedArgs::What::decision, gated->decision, sender.seat);
    }
    out.reply = std::move(*gated);
    out.events_grew = true;
    return std::optional(std::move(out));
}

Result<Outcome> Core::create_task(const wire::Request& request, const Sender& sender, int64_t now) {
    const auto args = wire::TaskCreateArgs::from(request.args);
    if (!args) {
        return error(request.id, BusError::bad_request, args.error().text);
    }
    StoredTask task;
    task.role = args->to.empty() ? sender.seat.instance : args->to;
    task.title = args->title;
    task.body = args->body;
    task.by = describe(sender.seat);
    task.by_run = sender.run;
    task.at = now;
    if (!has_mailbox(config_, {task.role, ""})) {
        return error(request.id, BusError::not_found, "no role " + task.role);
    }
    // A runner asks again when it lost the broker before the reply.
    MOSAIC_TRY_ASSIGN(const auto same, store_.unfinished_task_like(task));
    if (same) {
        return answer(request.id, json::Object{{"id", task_id(*same)}});
    }
    MOSAIC_TRY_ASSIGN(const int64_t ours, store_.count_tasks_by(sender.run));
    MOSAIC_TRY_ASSIGN(const int64_t all, store_.count_unfinished_tasks());
    if (ours >= int64_t{limits::kTasksPerRunMax} || all >= int64_t{limits::kTasksUnfinishedMax}) {
        return error(request.id,
                     BusError::quota_exceeded,
                     "this run has made " + std::to_string(ours) + " tasks (at most " +
                         std::to_string(limits::kTasksPerRunMax) + "), and " + std::to_string(all) +
                         " are unfinished (at most " + std::to_string(limits::kTasksUnfinishedMax) +
                         ")");
    }
    MOSAIC_TRY_ASSIGN(
        auto refused,
        permit(
            request, sender, "task for " + task.role + ": " + clip(task.title, kShownBytes), now));
    if (refused) {
        return std::move(*refused);
    }
    MOSAIC_TRY_ASSIGN(const int64_t number, store_.add_task(task));
    json::Value event;
    event.set("id", task_id(number));
    event.set("by", task.by);
    event.set("role", task.role);
    event.set("title", task.title);
    MOSAIC_TRY(store_.add_event("task.created", event, now));
    Outcome out = answer(request.id, json::Object{{"id", task_id(number)}});
    out.events_grew = true;
    return out;
}

Result<Outcome> Core::list_tasks(const wire::Request& request) {
    const auto args = wire::TaskListArgs::from(request.args);
    if (!args) {
        return error(request.id, BusError::bad_request, args.error().text);
    }
    const int64_t after = args->after.empty() ? 0 : parse_number('t', args->after);
    if (!args->after.empty() && after == 0) {
        return no_task(request.id, args->after);
    }
    MOSAIC_TRY_ASSIGN(const auto found,
                      store_.tasks({.role = args->to,
                                    .state = args->state,
                                    .after = after,
                                    .max = int64_t{limits::kTasksPerReplyMax} + 1}));
    // The tasks of a role that left the business are still there to be listed.
    if (found.empty() && after == 0 && !args->to.empty() && !has_mailbox(config_, {args->to, ""})) {
        return error(request.id, BusError::not_found, "no role " + args->to);
    }
    wire::TaskListResult result;
    size_t bytes = 0;
    for (const StoredTask& task : found) {
        wire::Task one = to_wire(task);
        bytes += json::dump(one.to_value()).size();
        const bool full = result.tasks.size() == limits::kTasksPerReplyMax ||
                          (bytes > limits::kTasksReplyBytesMax && !result.tasks.empty());
        if (full) {
            result.next = result.tasks.back().id;
            break;
        }
        result.tasks.push_back(std::move(one));
    }
    return answer(request.id, result.to_value());
}

Result<Outcome> Core::update_task(const wire::Request& request, const Sender& sender, int64_t now) {
    const auto args = wire::TaskUpdateArgs::from(request.args);
    if (!args) {
        return error(request.id, BusError::bad_request, args.error().text);
    }
    MOSAIC_TRY_ASSIGN(auto task, store_.find_task(parse_number('t', args->id)));
    if (!task) {
        return no_task(request.id, args->id);
    }
    const wire::TaskState state = args->state.value_or(task->state);
    const std::string& note = args->note.empty() ? task->note : args->note;
    if (state == task->state && note == task->note) {
        return answer(request.id, to_wire(*task).to_value());
    }
    MOSAIC_TRY_ASSIGN(auto refused,
                      permit(request,
                             sender,
                             args->id + " " + std::string(to_string(state)) + ": " +
                                 clip(task->title, kShownBytes),
                             now));
    if (refused) {
        return std::move(*refused);
    }
    task->state = state;
    task->note = note;
    task->updated_by = describe(sender.seat);
    task->updated_at = now;
    MOSAIC_TRY(store_.update_task(*task));
    json::Value event;
    event.set("id", args->id);
    event.set("by", task->updated_by);
    event.set("role", task->role);
    event.set("state", to_string(state));
    if (!args->note.empty()) {
        event.set("note", clip(args->note, kShownBytes));
    }
    MOSAIC_TRY(store_.add_event("task.updated", event, now));
    Outcome out = answer(request.id, to_wire(*task).to_value());
    out.events_grew = true;
    return out;
}

Result<Outcome> Core::request_decision(const wire::Request& request,
                                       const Sender& sender,
                                       int64_t now) {
    const auto args = wire::DecisionRequestArgs::from(request.args);
    if (!args) {
        return error(request.id, BusError::bad_request, args.error().text);
    }
    // Asking is what a gated call comes to, so gated is as good as free here.
    if (permission_of(config_, sender.seat.instance, request.verb) == Permission::absent) {
        return error(request.id,
                     BusError::not_authorized,
                     request.verb + " isn't in the authority of " + sender.seat.instance);
    }
    Decision decision;
    decision.seat = sender.seat;
    decision.verb = request.verb;
    decision.args = json::dump(args->to_value());
    MOSAIC_TRY_ASSIGN(const auto same, store_.pending_decision(decision));
    if (same) {
        return answer(request.id, json::Object{{"id", numbered('d', same->number)}});
    }
    MOSAIC_TRY_ASSIGN(auto full, too_many_decisions(sender.seat));
    if (full) {
        return error(request.id, BusError::quota_exceeded, std::move(*full));
    }
    MOSAIC_TRY_ASSIGN(const int64_t number, store_.add_decision(decision, now));
    json::Value event;
    event.set("id", numbered('d', number));
    event.set("by", describe(sender.seat));
    event.set("verb", request.verb);
    event.set("what", args->question);
    if (!args->context.empty()) {
        event.set("context", args->context);
    }
    if (!args->options.empty()) {
        event.set("options", *args->to_value().find("options"));
    }
    MOSAIC_TRY(store_.add_event("decision.requested", event, now));
    Outcome out = answer(request.id, json::Object{{"id", numbered('d', number)}});
    out.note = need(wire::NeedArgs::What::decision, numbered('d', number), sender.seat);
    out.events_grew = true;
    return out;
}

Result<std::optional<Seat>> Core::tell_decision(const Decision& decision,
                                                const wire::DecideArgs& args,
                                                int64_t now) {
    // A role that the configuration has no more gets nothing; the event tells the rest.
    if (!has_mailbox(config_, decision.seat)) {
        return std::optional<Seat>();
    }
    MOSAIC_TRY_ASSIGN(const json::Value asked, json::parse(decision.args));
    MOSAIC_TRY_ASSIGN(const auto question, wire::DecisionRequestArgs::from(asked));
    StoredMessage message;
    message.to = decision.seat;
    message.from = {config_.human, ""};
    message.message_class = wire::MessageClass::note;
    message.body = told(decision, question.question, args);
    message.at = now;
    MOSAIC_TRY_ASSIGN(const int64_t number, store_.add_message(message));
    json::Value event;
    event.set("id", numbered('m', number));
    event.set("from", config_.human);
    event.set("to", decision.seat.instance);
    if (!decision.seat.thread.empty()) {
        event.set("thread", decision.seat.thread);
    }
    event.set("class", to_string(message.message_class));
    MOSAIC_TRY(store_.add_event("message.sent", event, now));
    return std::optional(decision.seat);
}

}  // namespace mosaic::broker
