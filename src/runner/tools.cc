#include "runner/tools.h"

#include <algorithm>
#include <utility>

#include "wire/limits.h"

namespace mosaic::runner {
namespace {

using json::Object;
using json::Value;

// Replies awaited at once, those that nobody waits for any more among them: each is an open request
// at the broker.
constexpr size_t kWaitsMax = 32;
static_assert(kWaitsMax + limits::kToolClientsMax + 8 <= limits::kBusOutstandingMax);

std::string error_text(const wire::Reply& reply) {
    std::string out = reply.error;
    out += reply.decision.empty() ? "" : ": " + reply.decision;
    out += reply.message.empty() ? "" : ": " + reply.message;
    return out;
}

std::string sent_line(const std::string& id) {
    return encode_tool_result(Object{{"id", id}});
}

std::string replied_line(const std::string& id, const wire::Message* reply) {
    Value told;
    if (reply != nullptr) {
        told = Object{{"from", reply->from}, {"body", reply->body}};
    }
    return encode_tool_result(Object{{"id", id}, {"reply", std::move(told)}});
}

}  // namespace

void Tools::start(const ToolServer::Pending& call) {
    if (const auto* send = std::get_if<SendCall>(&call.call)) {
        start_send(call.token, *send);
        return;
    }
    if (const auto* broker = std::get_if<BrokerCall>(&call.call)) {
        const int64_t id = bus_.request(broker->verb, broker->args);
        steps_.emplace(id, Step{call.token, 0, "", std::nullopt, true});
        return;
    }
    if (!launches_.allowed()) {
        server_.answer(call.token, encode_tool_error("refused: not-authorized"));
        return;
    }
    launches_.request(call.token, std::get<LaunchCall>(call.call).seat);
}

void Tools::start_send(uint64_t token, const SendCall& call) {
    if (call.wait_seconds > 0 && waits() >= kWaitsMax) {
        server_.answer(token,
                       encode_tool_error("quota-exceeded: too many replies are awaited already; "
                                         "send without wait"));
        return;
    }
    const int64_t id = bus_.request("message.send", call.message.to_value());
    steps_.emplace(id, Step{token, call.wait_seconds, "", std::nullopt, false});
}

bool Tools::take(const wire::Reply& reply, Instant now) {
    const auto hit = steps_.find(reply.id);
    if (hit == steps_.end()) {
        return false;
    }
    const Step step = std::move(hit->second);
    steps_.erase(hit);
    if (!reply.ok) {
        server_.answer(step.token, encode_tool_error(error_text(reply)));
    } else if (step.plain) {
        server_.answer(step.token, encode_tool_result(reply.result));
    } else if (step.message.empty()) {
        take_sent(step, reply, now);
    } else {
        take_received(step, reply);
    }
    return true;
}

void Tools::take_sent(const Step& step, const wire::Reply& reply, Instant now) {
    const Value* const member = reply.result.find("id");
    const std::string* const id = member != nullptr ? member->string() : nullptr;
    if (id == nullptr || id->empty()) {
        server_.answer(step.token, encode_tool_error("bad-reply: the broker gave no message id"));
        return;
    }
    if (step.wait_seconds == 0) {
        server_.answer(step.token, sent_line(*id));
        return;
    }
    if (!server_.waits(step.token)) {
        return;  // its reply will come as an ordinary message
    }
    const int64_t request =
        bus_.request("message.receive", wire::MessageReceiveArgs{true, *id}.to_value());
    steps_.emplace(request, Step{step.token, 0, *id, now + seconds(step.wait_seconds), false});
}

void Tools::take_received(const Step& step, const wire::Reply& reply) {
    auto received = wire::MessageReceiveResult::from(reply.result);
    if (!received) {
        server_.answer(step.token, encode_tool_error("bad-reply: " + received.error().text));
        return;
    }
    if (step.token != 0 && server_.waits(step.token)) {
        const wire::Message* const message = received->message ? &*received->message : nullptr;
        server_.answer(step.token, replied_line(step.message, message));
    } else if (received->message) {
        late_.push_back(std::move(*received));
    }
}

void Tools::take_launches() {
    for (const LaunchLink::Answer& answer : launches_.take_answers()) {
        server_.answer(
            answer.token,
            answer.ok ? encode_tool_result(answer.result) : encode_tool_error(answer.error));
    }
}

void Tools::expire(Instant now) {
    for (auto& [id, step] : steps_) {
        if (step.until && *step.until <= now) {
            server_.answer(step.token, replied_line(step.message, nullptr));
            step.token = 0;
            step.until.reset();
        }
    }
}

std::optional<Instant> Tools::deadline() const {
    std::optional<Instant> first;
    for (const auto& [id, step] : steps_) {
        first = earlier(first, step.until);
    }
    return first;
}

std::vector<wire::MessageReceiveResult> Tools::take_late() {
    return std::exchange(late_, {});
}

size_t Tools::waits() const {
    return static_cast<size_t>(std::count_if(steps_.begin(), steps_.end(), [](const auto& entry) {
        return !entry.second.message.empty() || entry.second.wait_seconds > 0;
    }));
}

}  // namespace mosaic::runner
