// The configuration: the host alone writes and reads it; here is who may ask for what, and the
// event of each change.

#include "broker/core.h"
#include "wire/limits.h"

namespace mosaic::broker {
namespace {

wire::ConfigChangeArgs change_of(const wire::Request& request, wire::ConfigVerb verb) {
    wire::ConfigChangeArgs out;
    out.verb = verb;
    out.args = request.args;
    return out;
}

// What a human who has to decide reads first; `decisions` has the whole.
std::string describe_change(wire::ConfigVerb verb, const json::Value& args) {
    constexpr size_t kShownBytes = 512;
    return std::string(to_string(verb)) + " " + clip(json::dump(args), kShownBytes);
}

// The frame to the host holds more than the one that came.
std::optional<Outcome> too_large(const wire::Request& request) {
    const size_t bytes = json::dump(request.args).size();
    if (bytes <= limits::kCallArgsBytesMax) {
        return std::nullopt;
    }
    return error(request.id,
                 BusError::too_large,
                 "arguments of " + std::to_string(bytes) + " bytes; at most " +
                     std::to_string(limits::kCallArgsBytesMax));
}

}  // namespace

Outcome Core::ask_host(const wire::Request& request) {
    json::Reader r(request.args, "args");
    if (const auto shape = r.done(); !shape) {
        return error(request.id, BusError::bad_request, shape.error().text);
    }
    return forward(request.verb == "routes" ? "checkRoutes" : request.verb, request.args);
}

Outcome Core::change_config(const wire::Request& request, wire::ConfigVerb verb) {
    if (const auto shape = wire::check_config_args(verb, request.args); !shape) {
        return error(request.id, BusError::bad_request, shape.error().text);
    }
    if (auto refused = too_large(request)) {
        return std::move(*refused);
    }
    wire::ConfigChangeArgs change = change_of(request, verb);
    change.by = config_.human;
    return forward("configChange", change.to_value());
}

// A session with that authority. It doesn't set what binds itself.
Result<Outcome> Core::change_config_for(const wire::Request& request,
                                        wire::ConfigVerb verb,
                                        const Sender& sender,
                                        int64_t now) {
    if (const auto shape = wire::check_config_args(verb, request.args); !shape) {
        return error(request.id, BusError::bad_request, shape.error().text);
    }
    const json::Value* instance = request.args.find("instance");
    if (instance != nullptr && *instance == json::Value(sender.seat.instance)) {
        return error(request.id,
                     BusError::not_authorized,
                     "a role doesn't change its own vars; " + config_.human + " does");
    }
    if (auto refused = too_large(request)) {
        return std::move(*refused);
    }
    int64_t allowance = 0;
    MOSAIC_TRY_ASSIGN(
        auto refused,
        permit(request, sender, describe_change(verb, request.args), now, &allowance));
    if (refused) {
        return std::move(*refused);
    }
    wire::ConfigChangeArgs change = change_of(request, verb);
    change.by = describe(sender.seat);
    change.by_session = true;
    Outcome out = forward("configChange", change.to_value());
    out.allowance = allowance;
    return out;
}

}  // namespace mosaic::broker
