// The human's verbs.

#include <algorithm>

#include "base/instant.h"
#include "broker/core.h"
#include "wire/limits.h"
#include "wire/task_messages.h"

namespace mosaic::broker {
namespace {

// What a reply needs around its events.
constexpr size_t kReplyFrameBytes = 4096;

std::string_view state_text(DecisionState state) {
    switch (state) {
        case DecisionState::pending:
            return "pending";
        case DecisionState::allowed:
            return "allowed";
        case DecisionState::refused:
            return "refused";
        case DecisionState::used:
            break;
    }
    return "used";
}

wire::ShownDecision shown(const Decision& decision) {
    wire::ShownDecision out;
    out.id = numbered('d', decision.number);
    out.instance = decision.seat.instance;
    out.thread = decision.seat.thread;
    out.verb = decision.verb;
    out.state = state_text(decision.state);
    out.at = iso8601(decision.at);
    return out;
}

}  // namespace

Result<Outcome> Core::handle_human(Caller& caller, const wire::Request& request, int64_t now) {
    const Seat mailbox{config_.human, ""};
    if (request.verb == "launch") {
        const auto args = wire::HumanLaunchArgs::from(request.args);
        return args ? forward(request.verb, request.args)
                    : error(request.id, BusError::bad_request, args.error().text);
    }
    if (request.verb == "stop") {
        const auto args = wire::StopArgs::from(request.args);
        return args ? forward(request.verb, request.args)
                    : error(request.id, BusError::bad_request, args.error().text);
    }
    if (request.verb == "routes" || request.verb == "reload" || request.verb == "metrics") {
        return ask_host(request);
    }
    if (const auto verb = wire::config_verb_from(request.verb)) {
        return change_config(request, *verb);
    }
    if (request.verb == "launches.allow" || request.verb == "launches.revoke") {
        return switch_launches(request, request.verb == "launches.allow", now);
    }
    if (request.verb == "decisions") {
        return decisions(request);
    }
    if (request.verb == "decide") {
        return decide(request, now);
    }
    if (request.verb == "task.list") {
        return list_tasks(request);
    }
    if (request.verb == "sessions") {
        return sessions(request);
    }
    if (request.verb == "events") {
        return events(request);
    }
    if (request.verb == "message.send") {
        return send(request, {mailbox, ""}, now);
    }
    if (request.verb == "message.receive") {
        return receive(request, caller, mailbox, now);
    }
    if (request.verb == "message.ack") {
        return ack(request, caller, mailbox, now);
    }
    return error(request.id, BusError::unknown_verb, "no such verb: " + clip(request.verb, 64));
}

Result<Outcome> Core::switch_launches(const wire::Request& request, bool allowed, int64_t now) {
    json::Reader r(request.args, "args");
    if (const auto shape = r.done(); !shape) {
        return error(request.id, BusError::bad_request, shape.error().text);
    }
    Outcome out = answer(request.id, json::Object{{"allowed", allowed}});
    MOSAIC_TRY_ASSIGN(const auto last, store_.launches_switch());
    if (last && last->allowed == allowed) {
        return out;
    }
    MOSAIC_TRY(store_.add_switch({allowed, now}, config_.human));
    json::Value event;
    event.set("allowed", allowed);
    event.set("by", config_.human);
    MOSAIC_TRY(store_.add_event("launches.switched", event, now));
    out.events_grew = true;
    return out;
}

Result<Outcome> Core::sessions(const wire::Request& request) {
    json::Reader r(request.args, "args");
    if (const auto shape = r.done(); !shape) {
        return error(request.id, BusError::bad_request, shape.error().text);
    }
    MOSAIC_TRY_ASSIGN(const auto live, store_.live_runs());
    json::Array list;
    for (const Run& run : live) {
        json::Value entry = seat_fields(run.seat);
        entry.set("run", run.run);
        entry.set("harness", run.harness);
        entry.set("provider", run.provider);
        entry.set("model", run.model);
        entry.set("launchedBy", run.launched_by);
        entry.set("claimed", run.holds());
        entry.set("boundAt", iso8601(run.bound_at.value_or(0)));
        list.push_back(std::move(entry));
    }
    return answer(request.id, json::Object{{"sessions", std::move(list)}});
}

Result<Outcome> Core::events(const wire::Request& request) {
    const auto args = wire::EventsArgs::from(request.args);
    if (!args) {
        return error(request.id, BusError::bad_request, args.error().text);
    }
    int64_t since = args->since;
    if (args->last > 0) {
        MOSAIC_TRY_ASSIGN(const int64_t newest, store_.last_event());
        since = std::max(since, newest - args->last);
    }
    MOSAIC_TRY_ASSIGN(const auto texts, store_.events(since, int64_t{limits::kEventsPerReplyMax}));
    if (texts.empty() && args->follow) {
        Outcome out;
        out.kind = Outcome::Kind::wait;
        return out;
    }
    json::Array page;
    size_t bytes = kReplyFrameBytes;
    for (const std::string& text : texts) {
        bytes += text.size() + 1;
        if (bytes > limits::kFrameBytesMax && !page.empty()) {
            break;
        }
        MOSAIC_TRY_ASSIGN(json::Value event, json::parse(text));
        page.push_back(std::move(event));
    }
    // Numbered without gaps: the last one's number needs no look into it.
    const int64_t next = page.empty() ? since : since + static_cast<int64_t>(page.size());
    return answer(request.id, json::Object{{"events", std::move(page)}, {"next", next}});
}

Result<Outcome> Core::decisions(const wire::Request& request) {
    const auto args = wire::DecisionsArgs::from(request.args);
    if (!args) {
        return error(request.id, BusError::bad_request, args.error().text);
    }
    wire::DecisionsResult result;
    if (!args->id.empty()) {
        MOSAIC_TRY_ASSIGN(const auto one, store_.find_decision(parse_number('d', args->id)));
        if (!one) {
            return error(request.id, BusError::not_found, "no decision " + clip(args->id, 64));
        }
        MOSAIC_TRY_ASSIGN(json::Value call, json::parse(one->args));
        result.decisions.push_back(shown(*one));
        result.decisions.back().args = std::move(call);
        return answer(request.id, result.to_value());
    }
    const int64_t after = args->after.empty() ? 0 : parse_number('d', args->after);
    if (!args->after.empty() && after == 0) {
        return error(request.id, BusError::not_found, "no decision " + clip(args->after, 64));
    }
    const auto page = int64_t{limits::kDecisionsPerReplyMax};
    MOSAIC_TRY_ASSIGN(const auto found, store_.answerable_decisions(after, page + 1));
    for (const Decision& one : found) {
        if (result.decisions.size() == limits::kDecisionsPerReplyMax) {
            result.next = result.decisions.back().id;
            break;
        }
        result.decisions.push_back(shown(one));
    }
    return answer(request.id, result.to_value());
}

Result<Outcome> Core::decide(const wire::Request& request, int64_t now) {
    const auto args = wire::DecideArgs::from(request.args);
    if (!args) {
        return error(request.id, BusError::bad_request, args.error().text);
    }
    MOSAIC_TRY_ASSIGN(const auto decision, store_.find_decision(parse_number('d', args->id)));
    if (!decision) {
        return error(request.id, BusError::not_found, "no decision " + clip(args->id, 64));
    }
    if (decision->state == DecisionState::used) {
        return error(request.id,
                     BusError::refused,
                     "decision " + args->id + " was allowed, and the call has passed");
    }
    const bool asked = decision->verb == "decision.request";
    if (!asked && !args->note.empty()) {
        return error(request.id,
                     BusError::bad_request,
                     "decision " + args->id + " is about a call; nobody would read the note");
    }
    Outcome out = answer(request.id, json::Object{{"id", args->id}, {"allowed", args->allow}});
    const DecisionState state = args->allow ? DecisionState::allowed : DecisionState::refused;
    if (decision->state == state && args->note.empty()) {
        return out;
    }
    if (asked && decision->state != DecisionState::pending) {
        return error(request.id,
                     BusError::refused,
                     "decision " + args->id + " was answered, and who asked has been told");
    }
    MOSAIC_TRY(store_.set_decision(decision->number, state, now));
    json::Value event;
    event.set("id", args->id);
    event.set("by", config_.human);
    event.set("verb", decision->verb);
    event.set("decision", args->allow ? "allowed" : "refused");
    MOSAIC_TRY(store_.add_event("decision.made", event, now));
    out.events_grew = true;
    if (asked) {
        MOSAIC_TRY_ASSIGN(const auto mailbox, tell_decision(*decision, *args, now));
        if (mailbox) {
            out.mailboxes.push_back(*mailbox);
        }
    }
    return out;
}

}  // namespace mosaic::broker
