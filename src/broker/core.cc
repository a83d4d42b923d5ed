#include "broker/core.h"

#include <charconv>

#include "base/assert.h"
#include "base/utf8.h"
#include "broker/capability.h"
#include "wire/limits.h"

namespace mosaic::broker {

int64_t parse_number(char prefix, std::string_view text) {
    int64_t number = 0;
    if (text.size() < 2 || text[0] != prefix || text[1] == '0') {
        return 0;
    }
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + 1, end, number);
    return parsed.ec == std::errc() && parsed.ptr == end && number > 0 ? number : 0;
}

std::string numbered(char prefix, int64_t number) {
    std::string out(1, prefix);
    out += std::to_string(number);
    return out;
}

std::string clip(const std::string& text, size_t bytes_max) {
    if (text.size() <= bytes_max) {
        return text;
    }
    const std::string_view head(text.data(), bytes_max);
    return std::string(head.substr(0, valid_utf8_prefix(head))) + "...";
}

Outcome answer(int64_t id, json::Value result) {
    Outcome out;
    out.reply = wire::reply_ok(id, std::move(result));
    return out;
}

Outcome error(int64_t id, BusError code, std::string message) {
    Outcome out;
    out.reply = wire::reply_error(id, to_string(code), std::move(message));
    return out;
}

Outcome forward(std::string verb, json::Value args) {
    Outcome out;
    out.kind = Outcome::Kind::forward;
    out.ask = {std::move(verb), std::move(args)};
    return out;
}

json::Value seat_fields(const Seat& seat) {
    json::Value out;
    out.set("instance", seat.instance);
    if (!seat.thread.empty()) {
        out.set("thread", seat.thread);
    }
    return out;
}

Result<Outcome> Core::handle(Caller& caller, const wire::Request& request, int64_t now) {
    if (caller.kind != Caller::Kind::session && !request.cap.empty()) {
        return error(request.id, BusError::bad_request, "only sessions have a capability");
    }
    switch (caller.kind) {
        case Caller::Kind::host:
            return handle_host(request, now);
        case Caller::Kind::human:
            return handle_human(caller, request, now);
        case Caller::Kind::session:
            return handle_session(caller, request, now);
    }
    MOSAIC_ASSERT(false);
}

Result<Outcome> Core::resume(Caller& caller, const wire::Request& request, int64_t now) {
    if (caller.kind != Caller::Kind::session) {
        return handle(caller, request, now);
    }
    MOSAIC_TRY_ASSIGN(const auto run, store_.find_run(caller.run));
    if (!run || !run->live()) {
        return error(request.id, BusError::unknown_capability, "the run has ended");
    }
    return handle_run(caller, *run, request, now);
}

Result<void> Core::give_back(int64_t allowance, int64_t now) {
    MOSAIC_TRY_ASSIGN(const auto decision, store_.find_decision(allowance));
    if (!decision || decision->state != DecisionState::used) {
        return {};
    }
    // The same call may have been asked for again meanwhile: then that decision is the one.
    MOSAIC_TRY_ASSIGN(const auto open,
                      store_.open_decision(decision->seat, decision->verb, decision->args));
    if (open) {
        return {};
    }
    return store_.set_decision(allowance, DecisionState::allowed, now);
}

Result<std::optional<wire::Reply>> Core::gate(int64_t id,
                                              const GatedCall& call,
                                              int64_t now,
                                              int64_t* allowance) {
    if (call.args.size() > limits::kCallArgsBytesMax) {
        return std::optional(
            wire::reply_error(id,
                              to_string(BusError::too_large),
                              "arguments of " + std::to_string(call.args.size()) +
                                  " bytes, more than a human can be shown; at most " +
                                  std::to_string(limits::kCallArgsBytesMax)));
    }
    const auto required = [&](int64_t number, std::string message) {
        wire::Reply out =
            wire::reply_error(id, to_string(BusError::decision_required), std::move(message));
        out.decision = numbered('d', number);
        return std::optional<wire::Reply>(std::move(out));
    };
    MOSAIC_TRY_ASSIGN(const auto open, store_.open_decision(call.seat, call.verb, call.args));
    if (open) {
        switch (open->state) {
            case DecisionState::pending:
                return required(open->number, "a human has to decide, and hasn't yet");
            case DecisionState::refused:
                return std::optional(wire::reply_error(
                    id,
                    to_string(BusError::not_authorized),
                    "a human refused it in decision " + numbered('d', open->number)));
            case DecisionState::allowed:
            case DecisionState::used:
                break;
        }
        MOSAIC_TRY(store_.set_decision(open->number, DecisionState::used, now));
        if (allowance != nullptr) {
            *allowance = open->number;
        }
        return std::optional<wire::Reply>();
    }
    MOSAIC_TRY_ASSIGN(auto full, too_many_decisions(call.seat));
    if (full) {
        return std::optional(
            wire::reply_error(id, to_string(BusError::quota_exceeded), std::move(*full)));
    }
    Decision decision;
    decision.seat = call.seat;
    decision.verb = call.verb;
    decision.args = call.args;
    MOSAIC_TRY_ASSIGN(const int64_t number, store_.add_decision(decision, now));
    json::Value event;
    event.set("id", numbered('d', number));
    event.set("by", describe(call.seat));
    event.set("verb", call.verb);
    event.set("what", call.what);
    MOSAIC_TRY(store_.add_event("decision.requested", event, now));
    return required(number, "a human has to decide");
}

HostNote Core::need(wire::NeedArgs::What what, std::string id, const Seat& by) {
    return HostNote{"needed", wire::NeedArgs{what, std::move(id), describe(by)}.to_value()};
}

Result<std::optional<std::string>> Core::too_many_decisions(const Seat& seat) {
    MOSAIC_TRY_ASSIGN(const int64_t pending, store_.count_pending_decisions(seat));
    if (pending < int64_t{limits::kDecisionsPendingMax}) {
        return std::optional<std::string>();
    }
    return std::optional(std::to_string(pending) + " decisions of " + describe(seat) +
                         " are pending");
}

Result<void> Core::record_refusal(const wire::RefuseArgs& args, int64_t now) {
    json::Value event = seat_fields(args.seat);
    event.set("code", clip(args.code, limits::kNameBytesMax));
    event.set("reason", clip(args.reason, limits::kReasonBytesMax));
    event.set("by", clip(args.by, limits::kNameBytesMax));
    return store_.add_event("action.refused", event, now);
}

}  // namespace mosaic::broker
