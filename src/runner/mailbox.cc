#include "runner/mailbox.h"

#include <algorithm>
#include <utility>

#include "runner/log.h"
#include "wire/codes.h"

namespace mosaic::runner {
namespace {

// Between two askings when the broker had an answer that wasn't a message.
constexpr Duration kReceiveAgain = seconds(1);
constexpr Duration kReplyAgainMost = seconds(30);

bool is(const wire::Reply& reply, BusError code) {
    return !reply.ok && reply.error == to_string(code);
}

std::string describe(const wire::Reply& reply) {
    return reply.error + (reply.message.empty() ? "" : " (" + reply.message + ")");
}

}  // namespace

void Mailbox::work(Instant now) {
    if (reply_at_ && *reply_at_ <= now) {
        reply_at_.reset();
        send_reply();
    }
    if (receive_at_ && *receive_at_ <= now) {
        receive_at_.reset();
    }
    if (receive_id_ == 0 && !receive_at_ && !delivered_) {
        receive_id_ =
            bus_.request("message.receive", wire::MessageReceiveArgs{true, ""}.to_value());
    }
}

std::optional<Instant> Mailbox::deadline() const {
    return earlier(receive_at_, reply_at_);
}

bool Mailbox::take(const wire::Reply& reply, Instant now) {
    if (closed_) {
        return reply.id == receive_id_ || reply.id == reply_id_ || reply.id == ack_id_;
    }
    if (reply.id == receive_id_) {
        receive_id_ = 0;
        take_received(reply, now);
    } else if (reply.id == reply_id_) {
        reply_id_ = 0;
        take_replied(reply, now);
    } else if (reply.id == ack_id_) {
        ack_id_ = 0;
        if (!reply.ok) {
            log_line("acking message " + current_->message.id + ": " + describe(reply));
            receive_at_ = now + kReceiveAgain;
        }
        settle();
    } else {
        return false;
    }
    dead_ = dead_ || is(reply, BusError::unknown_capability);
    return true;
}

void Mailbox::take_received(const wire::Reply& reply, Instant now) {
    receive_at_ = now + kReceiveAgain;
    if (!reply.ok) {
        log_line("receiving messages: " + describe(reply) + "; asking again");
        return;
    }
    auto received = wire::MessageReceiveResult::from(reply.result);
    if (!received) {
        log_line("receiving messages: " + received.error().text + "; asking again");
        return;
    }
    if (!received->message) {
        return;
    }
    receive_at_.reset();
    delivered_ = true;
    queue_.push_back({std::move(*received->message), std::move(received->state), false});
}

void Mailbox::add_late(wire::MessageReceiveResult late) {
    if (late.message) {
        queue_.push_back({std::move(*late.message), std::move(late.state), true});
    }
}

std::optional<Mailbox::Incoming> Mailbox::take_next() {
    if (stage_ != Stage::free || queue_.empty()) {
        return std::nullopt;
    }
    current_ = std::move(queue_.front());
    queue_.pop_front();
    if (!current_->acked && current_->message.id == last_finished_) {
        acknowledge();
        return std::nullopt;
    }
    stage_ = Stage::turn;
    return Incoming{current_->message, current_->state};
}

void Mailbox::finished(std::string body) {
    if (!current_->acked) {
        last_finished_ = current_->message.id;
    }
    if (current_->message.message_class != wire::MessageClass::request) {
        acknowledge();
        return;
    }
    reply_ = std::move(body);
    reply_wait_ = seconds(1);
    send_reply();
}

void Mailbox::send_reply() {
    const wire::Message& message = current_->message;
    wire::MessageSendArgs args;
    args.to = {message.from, message.from_thread};
    args.message_class = wire::MessageClass::reply;
    args.body = reply_;
    args.in_reply_to = message.id;
    stage_ = Stage::replying;
    reply_id_ = bus_.request("message.send", args.to_value());
}

void Mailbox::take_replied(const wire::Reply& reply, Instant now) {
    if (is(reply, BusError::quota_exceeded) || is(reply, BusError::decision_required) ||
        is(reply, BusError::storage_unavailable)) {
        // These pass with time; the message stays unacked until then.
        log_line("the reply to message " + current_->message.id +
                 " has to wait: " + describe(reply));
        reply_at_ = now + reply_wait_;
        reply_wait_ = std::min(Duration{reply_wait_.ns * 2}, kReplyAgainMost);
        return;
    }
    if (!reply.ok) {
        log_line("the reply to message " + current_->message.id +
                 " was refused: " + describe(reply));
    }
    acknowledge();
}

void Mailbox::acknowledge() {
    reply_.clear();
    if (current_->acked) {
        settle();
        return;
    }
    stage_ = Stage::acking;
    ack_id_ = bus_.request("message.ack", wire::MessageAckArgs{current_->message.id}.to_value());
}

void Mailbox::settle() {
    delivered_ = delivered_ && current_->acked;
    current_.reset();
    stage_ = Stage::free;
}

}  // namespace mosaic::runner
