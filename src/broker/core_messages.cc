// Messages: sent to a seat's queue, delivered from its front until they are acked.

#include "base/instant.h"
#include "broker/core.h"
#include "wire/limits.h"

namespace mosaic::broker {
namespace {

constexpr size_t kShownBodyBytes = 256;

std::string message_id(int64_t number) {
    return numbered('m', number);
}

Outcome waiting() {
    Outcome out;
    out.kind = Outcome::Kind::wait;
    return out;
}

wire::Message to_wire(const StoredMessage& stored) {
    wire::Message out;
    out.id = message_id(stored.number);
    out.from = stored.from.instance;
    out.from_thread = stored.from.thread;
    out.message_class = stored.message_class;
    out.body = stored.body;
    out.at = iso8601(stored.at);
    if (stored.in_reply_to != 0) {
        out.in_reply_to = message_id(stored.in_reply_to);
    }
    return out;
}

// What a human is shown of a message that waits for a decision.
std::string describe_send(const wire::MessageSendArgs& args) {
    return "send " + std::string(to_string(args.message_class)) + " of " +
           std::to_string(args.body.size()) + " bytes to " + describe(args.to) + ": " +
           clip(args.body, kShownBodyBytes);
}

}  // namespace

Result<wire::StateFacts> Core::facts(const Seat& seat, int64_t now) {
    MOSAIC_TRY_ASSIGN(const auto last, store_.launches_switch());
    wire::StateFacts out;
    out.read_at = iso8601(now);
    MOSAIC_TRY_ASSIGN(out.open_tasks, store_.count_unfinished_tasks_of(seat.instance));
    if (last) {
        out.launches_allowed = last->allowed;
        out.launches_switched_at = iso8601(last->at);
    }
    return out;
}

Result<std::optional<Outcome>> Core::check_quota(const wire::Request& request,
                                                 const wire::MessageSendArgs& args,
                                                 const Sender& sender) {
    const auto size = static_cast<int64_t>(args.body.size());
    MOSAIC_TRY_ASSIGN(const Queued ours, store_.queued_by(sender.run));
    MOSAIC_TRY_ASSIGN(const Queued theirs, store_.queued_for(args.to));
    if (ours.messages >= int64_t{limits::kQueuedPerSenderMax} ||
        ours.bytes + size > int64_t{limits::kQueuedBytesPerSenderMax}) {
        return std::optional(error(request.id,
                                   BusError::quota_exceeded,
                                   std::to_string(ours.messages) + " messages (" +
                                       std::to_string(ours.bytes) +
                                       " bytes) of this run aren't acked yet"));
    }
    if (theirs.messages >= int64_t{limits::kQueuedPerReceiverMax} ||
        theirs.bytes + size > int64_t{limits::kQueuedBytesPerReceiverMax}) {
        return std::optional(error(request.id,
                                   BusError::quota_exceeded,
                                   std::to_string(theirs.messages) + " messages (" +
                                       std::to_string(theirs.bytes) + " bytes) wait for " +
                                       describe(args.to) + " already"));
    }
    return std::optional<Outcome>();
}

// The answer to a message that this run has sent with this key before: a runner whose broker died
// before it could answer sends again. Nothing when it is a new one.
Result<std::optional<Outcome>> Core::sent_before(const wire::Request& request,
                                                 const wire::MessageSendArgs& args,
                                                 const Sender& sender) {
    if (args.key.empty() || sender.run.empty()) {
        return std::optional<Outcome>();
    }
    MOSAIC_TRY_ASSIGN(const auto before, store_.sent_with(sender.run, args.key));
    if (!before) {
        return std::optional<Outcome>();
    }
    if (before->to != args.to || before->body != args.body ||
        before->message_class != args.message_class ||
        before->in_reply_to != parse_number('m', args.in_reply_to)) {
        return std::optional(error(request.id,
                                   BusError::bad_request,
                                   "the key " + clip(args.key, 64) +
                                       " is that of another message, " +
                                       message_id(before->number)));
    }
    return std::optional(answer(request.id, json::Object{{"id", message_id(before->number)}}));
}

// Why the message isn't taken; nothing when it is.
Result<std::optional<Outcome>> Core::check_send(const wire::Request& request,
                                                const wire::MessageSendArgs& args,
                                                const Sender& sender,
                                                int64_t now) {
    if (!has_mailbox(config_, args.to)) {
        return std::optional(
            error(request.id, BusError::not_found, "no role " + describe(args.to)));
    }
    if (args.body.size() > limits::kMessageBodyBytesMax) {
        return std::optional(error(request.id,
                                   BusError::too_large,
                                   "a body of " + std::to_string(args.body.size()) +
                                       " bytes; at most " +
                                       std::to_string(limits::kMessageBodyBytesMax)));
    }
    bool answers_its_asker = false;
    bool first_answer = false;
    if (!args.in_reply_to.empty()) {
        MOSAIC_TRY_ASSIGN(const auto answered,
                          store_.find_message(parse_number('m', args.in_reply_to)));
        if (!answered || answered->to != sender.seat) {
            return std::optional(error(
                request.id,
                BusError::not_found,
                describe(sender.seat) + " received no message " + clip(args.in_reply_to, 64)));
        }
        answers_its_asker =
            args.message_class == wire::MessageClass::reply && answered->from == args.to;
        MOSAIC_TRY_ASSIGN(const auto earlier, store_.reply_to(args.to, answered->number));
        first_answer = answers_its_asker && !earlier;
    }
    if (sender.run.empty()) {
        return std::optional<Outcome>();  // the human may, always
    }
    // Who was asked may answer who asked, whatever its authority to speak up by itself.
    const Permission permission =
        answers_its_asker ? Permission::free
                          : permission_of(config_, sender.seat.instance, "message.send");
    if (permission == Permission::absent) {
        return std::optional(
            error(request.id,
                  BusError::not_authorized,
                  "message.send isn't in the authority of " + sender.seat.instance));
    }
    // The first answer to a question has its place whatever else is queued: there are no more of
    // these than questions, and a run that may not answer could never go on.
    if (first_answer) {
        return std::optional<Outcome>();
    }
    // Before the gate: a call that fails on its quota must not use an allowance up.
    MOSAIC_TRY_ASSIGN(auto full, check_quota(request, args, sender));
    if (full || permission == Permission::free) {
        return full;
    }
    wire::MessageSendArgs decided = args;
    decided.key.clear();  // the same message of another try is the same call
    const GatedCall call{
        sender.seat, "message.send", json::dump(decided.to_value()), describe_send(args)};
    MOSAIC_TRY_ASSIGN(auto gated, gate(request.id, call, now));
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

Result<Outcome> Core::send(const wire::Request& request, const Sender& sender, int64_t now) {
    const auto args = wire::MessageSendArgs::from(request.args);
    if (!args) {
        return error(request.id, BusError::bad_request, args.error().text);
    }
    // Before the checks: its quota and its allowance were used the first time.
    MOSAIC_TRY_ASSIGN(auto before, sent_before(request, *args, sender));
    if (before) {
        return std::move(*before);
    }
    MOSAIC_TRY_ASSIGN(auto refused, check_send(request, *args, sender, now));
    if (refused) {
        return std::move(*refused);
    }
    StoredMessage message;
    message.to = args->to;
    message.from = sender.seat;
    message.from_run = sender.run;
    message.message_class = args->message_class;
    message.body = args->body;
    message.in_reply_to = parse_number('m', args->in_reply_to);
    message.at = now;
    message.key = sender.run.empty() ? "" : args->key;
    // One turn gives one reply, whoever asks for it to be sent.
    MOSAIC_TRY_ASSIGN(const auto same, store_.same_reply(message));
    if (same) {
        return answer(request.id, json::Object{{"id", message_id(*same)}});
    }
    MOSAIC_TRY_ASSIGN(const int64_t number, store_.add_message(message));
    json::Value event;
    event.set("id", message_id(number));
    event.set("from", describe(sender.seat));
    event.set("to", args->to.instance);
    if (!args->to.thread.empty()) {
        event.set("thread", args->to.thread);
    }
    event.set("class", to_string(args->message_class));
    MOSAIC_TRY(store_.add_event("message.sent", event, now));
    const bool to_human = args->to.instance == config_.human;
    json::Object result{{"id", message_id(number)}};
    if (to_human && sender.run.empty()) {
        result.emplace_back("inbox", true);
    }
    Outcome out = answer(request.id, std::move(result));
    if (to_human) {
        out.note = need(wire::NeedArgs::What::message, message_id(number), sender.seat);
    }
    out.events_grew = true;
    out.mailboxes.push_back(args->to);
    return out;
}

Result<Outcome> Core::receive(const wire::Request& request,
                              Caller& caller,
                              const Seat& seat,
                              int64_t now) {
    const auto args = wire::MessageReceiveArgs::from(request.args);
    if (!args) {
        return error(request.id, BusError::bad_request, args.error().text);
    }
    if (!args->in_reply_to.empty()) {
        return receive_reply(request, *args, seat, now);
    }
    if (args->wait && caller.delivered != 0) {
        return waiting();
    }
    MOSAIC_TRY_ASSIGN(const auto next, store_.front(seat));
    if (!next && args->wait) {
        return waiting();
    }
    wire::MessageReceiveResult result;
    MOSAIC_TRY_ASSIGN(result.state, facts(seat, now));
    if (next) {
        result.message = to_wire(*next);
        caller.delivered = next->number;
    }
    return answer(request.id, result.to_value());
}

Result<Outcome> Core::receive_reply(const wire::Request& request,
                                    const wire::MessageReceiveArgs& args,
                                    const Seat& seat,
                                    int64_t now) {
    const int64_t number = parse_number('m', args.in_reply_to);
    MOSAIC_TRY_ASSIGN(const auto sent, store_.find_message(number));
    if (!sent || sent->from != seat) {
        return error(request.id,
                     BusError::not_found,
                     describe(seat) + " sent no message " + clip(args.in_reply_to, 64));
    }
    MOSAIC_TRY_ASSIGN(const auto reply, store_.reply_to(seat, number));
    if (!reply && args.wait) {
        return waiting();
    }
    wire::MessageReceiveResult result;
    MOSAIC_TRY_ASSIGN(result.state, facts(seat, now));
    if (!reply) {
        return answer(request.id, result.to_value());
    }
    result.message = to_wire(*reply);
    Outcome out = answer(request.id, result.to_value());
    if (!reply->acked) {
        MOSAIC_TRY(store_.ack(reply->number, now));
        out.mailboxes.push_back(seat);
    }
    return out;
}

Result<Outcome> Core::ack(const wire::Request& request,
                          Caller& caller,
                          const Seat& seat,
                          int64_t now) {
    const auto args = wire::MessageAckArgs::from(request.args);
    if (!args) {
        return error(request.id, BusError::bad_request, args.error().text);
    }
    MOSAIC_TRY_ASSIGN(const auto message, store_.find_message(parse_number('m', args->id)));
    if (!message || message->to != seat) {
        return error(request.id,
                     BusError::not_found,
                     describe(seat) + " received no message " + clip(args->id, 64));
    }
    Outcome out = answer(request.id, json::Object{});
    if (!message->acked) {
        // In order: what lies further back was never delivered.
        MOSAIC_TRY_ASSIGN(const auto front, store_.front(seat));
        if (!front || front->number != message->number) {
            return error(request.id,
                         BusError::not_found,
                         "message " + args->id + " hasn't been delivered yet");
        }
        MOSAIC_TRY(store_.ack(message->number, now));
    }
    if (caller.delivered == message->number) {
        caller.delivered = 0;
    }
    out.mailboxes.push_back(seat);
    return out;
}

}  // namespace mosaic::broker
