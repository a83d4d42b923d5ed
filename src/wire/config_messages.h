#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "wire/json.h"

// The messages about the configuration: what a caller wants changed, and which routes would be
// taken now. Like those of messages.h. What the values may be is the configuration's to judge
// (config/change.h); here only shapes and bounds are.

namespace mosaic::wire {

// The parts of a route that are to become something else; nothing: stays as it is.
struct RouteParts {
    std::optional<std::string> harness{};
    std::optional<std::string> provider{};
    std::optional<std::string> model{};
    std::optional<std::string> thinking{};

    bool operator==(const RouteParts&) const = default;

    [[nodiscard]] bool empty() const { return *this == RouteParts{}; }
};

// routes.set {"instance","route"?,"fallback"?}: `fallback` null takes the fallback away.
struct RoutesSetArgs {
    std::string instance;
    RouteParts route;
    RouteParts fallback;
    bool no_fallback = false;

    bool operator==(const RoutesSetArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<RoutesSetArgs> from(const json::Value& value);
};

// One of launch.models.
struct ModelMax {
    std::string provider;
    std::string model;
    int64_t max = 0;

    bool operator==(const ModelMax&) const = default;
};

// limits.set {"instance"?,"vars"?,"models"?,"accountMax"?}. Vars are of that instance: model,
// thinking, limits.tools, limits.typed; only those that are given change. A pair of `models` that
// launch.models has gets the new max, another is added. accountMax 0: no such limit.
struct LimitsSetArgs {
    std::string instance;  // empty: no vars
    std::optional<std::string> model;
    std::optional<std::string> thinking;
    std::optional<std::vector<std::string>> tools;
    std::optional<std::vector<std::string>> typed;
    std::vector<ModelMax> models;
    std::optional<int64_t> account_max;

    bool operator==(const LimitsSetArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<LimitsSetArgs> from(const json::Value& value);
};

// instances.set {"instances":[…]}: what launch.instances is from now on.
struct InstancesSetArgs {
    std::vector<std::string> instances;

    bool operator==(const InstancesSetArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<InstancesSetArgs> from(const json::Value& value);
};

// plugins.set {"harness":[…]}: the modules that are switched on from now on.
struct PluginsSetArgs {
    std::vector<std::string> harness;

    bool operator==(const PluginsSetArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<PluginsSetArgs> from(const json::Value& value);
};

enum class ConfigVerb {
    routes_set,
    limits_set,
    instances_set,
    plugins_set,
};

[[nodiscard]] std::string_view to_string(ConfigVerb verb);  // "routes.set", ...
[[nodiscard]] std::optional<ConfigVerb> config_verb_from(std::string_view text);

// Broker to host: configChange. `args` have the verb's shape: check_config_args said so.
struct ConfigChangeArgs {
    ConfigVerb verb = ConfigVerb::routes_set;
    std::string by;           // the human, or a session's seat
    bool by_session = false;  // gets codes, not the host's paths and variables
    json::Value args;

    bool operator==(const ConfigChangeArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<ConfigChangeArgs> from(const json::Value& value);
};

[[nodiscard]] Result<void> check_config_args(ConfigVerb verb, const json::Value& args);

// The answer to configChange and to reload. Nothing is written when nothing would be another value.
struct ConfigChangeResult {
    bool changed = false;
    std::vector<std::string> warnings;  // what works less now, or only at the next start

    bool operator==(const ConfigChangeResult&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<ConfigChangeResult> from(const json::Value& value);
};

// ---- checkRoutes: broker to host, the human's `routes` ----

// One route and what a launch would say to it now.
struct CheckedRoute {
    std::string harness;
    std::string provider;
    std::string model;
    std::string thinking;
    std::string refusal;  // a code; empty: it can be used
    std::string reason;

    bool operator==(const CheckedRoute&) const = default;
};

struct InstanceRoutes {
    std::string instance;
    bool listed = false;  // in launch.instances, or launch.by
    std::optional<CheckedRoute> route;
    std::optional<CheckedRoute> fallback;
    std::string uses;     // "route" or "fallback": which a launch would take; empty: it is refused
    std::string refusal;  // with which code
    std::string reason;   // why the route isn't taken, or the refusal's

    bool operator==(const InstanceRoutes&) const = default;
};

struct ModelUse {
    std::string provider;
    std::string model;
    int64_t max = 0;
    int64_t used = 0;

    bool operator==(const ModelUse&) const = default;
};

struct AccountUse {
    std::string account;  // the variables of the credential in use
    int64_t max = 0;
    int64_t used = 0;

    bool operator==(const AccountUse&) const = default;
};

struct ModuleState {
    std::string name;
    bool on = false;
    std::string problem;  // why one that is on can't be used

    bool operator==(const ModuleState&) const = default;
};

struct RoutesResult {
    std::vector<InstanceRoutes> instances;
    std::vector<ModelUse> models;
    std::vector<AccountUse> accounts;  // only with launch.accountMax
    std::vector<ModuleState> modules;

    bool operator==(const RoutesResult&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<RoutesResult> from(const json::Value& value);
};

}  // namespace mosaic::wire
