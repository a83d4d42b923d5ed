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

// What a human who has to decide reads.
std::string describe_change(wire::ConfigVerb verb, const json::Value& args) {
    constexpr size_t kShownBytes = 512;
    return std::string(to_string(verb)) + " " + clip(json::dump(args), kShownBytes);
}

}  // namespace

Outcome Core::ask_about_config(const wire::Request& request) {
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
    MOSAIC_TRY_ASSIGN(auto refused,
                      permit(request, sender, describe_change(verb, request.args), now));
    if (refused) {
        return std::move(*refused);
    }
    wire::ConfigChangeArgs change = change_of(request, verb);
    change.by = describe(sender.seat);
    change.by_session = true;
    return forward("configChange", change.to_value());
}

}  // namespace mosaic::broker
