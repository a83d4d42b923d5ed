#include "wire/config_messages.h"

#include <algorithm>
#include <array>

#include "base/ids.h"
#include "wire/limits.h"

namespace mosaic::wire {
namespace {

using json::Array;
using json::Object;
using json::Reader;
using json::Value;

constexpr std::array<std::string_view, 4> kVerbText = {
    "routes.set", "limits.set", "instances.set", "plugins.set"};

template <class T>
Result<T> finish(Reader& r, T value) {
    MOSAIC_TRY(r.done());
    return value;
}

void set_if(Value& object, std::string_view key, const std::string& text) {
    if (!text.empty()) {
        object.set(key, text);
    }
}

void set_if(Value& object, std::string_view key, const std::optional<std::string>& text) {
    if (text) {
        object.set(key, *text);
    }
}

Value string_array(const std::vector<std::string>& strings) {
    Array out;
    for (const std::string& s : strings) {
        out.emplace_back(s);
    }
    return Value(std::move(out));
}

std::optional<std::string> read_part(Reader& r, std::string_view key) {
    if (!r.has(key)) {
        return std::nullopt;
    }
    std::string text = r.string(key);
    if (text.empty() || text.size() > limits::kNameBytesMax) {
        r.problem(key,
                  "expected a text of 1 to " + std::to_string(limits::kNameBytesMax) + " bytes");
    }
    return text;
}

std::optional<std::vector<std::string>> read_list(Reader& r, std::string_view key) {
    if (!r.has(key)) {
        return std::nullopt;
    }
    return r.strings(key);
}

std::vector<std::string> read_ids(Reader& r, std::string_view key) {
    std::vector<std::string> out = r.strings(key);
    for (size_t i = 0; i < out.size(); ++i) {
        if (!is_id(out[i])) {
            r.problem_in(
                key, i, "expected an id (a-z, 0-9 and -, 1 to 64 characters, not starting with -)");
        }
    }
    return out;
}

Value parts_value(const RouteParts& parts) {
    Value out(Object{});
    set_if(out, "harness", parts.harness);
    set_if(out, "provider", parts.provider);
    set_if(out, "model", parts.model);
    set_if(out, "thinking", parts.thinking);
    return out;
}

RouteParts read_parts(Reader& r, std::string_view key) {
    RouteParts out;
    const Value* value = r.object_or_none(key);
    if (value == nullptr) {
        return out;
    }
    Reader parts(*value, r.where(), r.pointer_of(key));
    out.harness = read_part(parts, "harness");
    out.provider = read_part(parts, "provider");
    out.model = read_part(parts, "model");
    out.thinking = read_part(parts, "thinking");
    r.absorb(parts.done());
    if (out.empty()) {
        r.problem(key, "expected at least one of harness, provider, model, thinking");
    }
    return out;
}

Value checked_value(const std::optional<CheckedRoute>& route) {
    if (!route) {
        return {};
    }
    Value out(Object{{"harness", route->harness},
                     {"provider", route->provider},
                     {"model", route->model},
                     {"thinking", route->thinking},
                     {"ok", route->refusal.empty()}});
    set_if(out, "error", route->refusal);
    set_if(out, "reason", route->reason);
    return out;
}

std::optional<CheckedRoute> read_checked(Reader& r, std::string_view key) {
    const Value* value = r.any(key);
    if (value == nullptr || value->is_null()) {
        return std::nullopt;
    }
    Reader route(*value, r.where(), r.pointer_of(key));
    CheckedRoute out;
    out.harness = route.string("harness");
    out.provider = route.string("provider");
    out.model = route.string("model");
    out.thinking = route.string("thinking");
    out.refusal = route.string_or("error", "");
    out.reason = route.string_or("reason", "");
    if (route.boolean("ok") != out.refusal.empty()) {
        route.problem("ok", "expected true exactly without an error");
    }
    r.absorb(route.done());
    return out;
}

Value instance_value(const InstanceRoutes& one) {
    Value out;
    out.set("instance", one.instance);
    out.set("listed", one.listed);
    out.set("route", checked_value(one.route));
    out.set("fallback", checked_value(one.fallback));
    out.set("uses", one.uses.empty() ? Value() : Value(one.uses));
    set_if(out, "error", one.refusal);
    set_if(out, "reason", one.reason);
    return out;
}

InstanceRoutes read_instance(Reader& r) {
    InstanceRoutes out;
    out.instance = r.id("instance");
    out.listed = r.boolean("listed");
    out.route = read_checked(r, "route");
    out.fallback = read_checked(r, "fallback");
    out.uses = r.string_or_null("uses");
    out.refusal = r.string_or("error", "");
    out.reason = r.string_or("reason", "");
    return out;
}

// Each element of an array of objects.
template <class T, class Read>
std::vector<T> read_each(Reader& r, std::string_view key, Read read) {
    std::vector<T> out;
    const Value* list = r.array(key);
    if (list == nullptr) {
        return out;
    }
    for (const Value& element : *list->array()) {
        Reader one(element, r.where(), r.pointer_of(key) + "/" + std::to_string(out.size()));
        out.push_back(read(one));
        r.absorb(one.done());
    }
    return out;
}

ModelMax read_max(Reader& r) {
    ModelMax out;
    out.provider = read_part(r, "provider").value_or("");
    out.model = read_part(r, "model").value_or("");
    if (out.provider.empty() || out.model.empty()) {
        r.problem(out.provider.empty() ? "provider" : "model", "is missing; expected a string");
    }
    out.max = r.integer("max", 0, static_cast<int64_t>(limits::kRunsMax));
    return out;
}

}  // namespace

Value RoutesSetArgs::to_value() const {
    Value out;
    out.set("instance", instance);
    if (!route.empty()) {
        out.set("route", parts_value(route));
    }
    if (no_fallback) {
        out.set("fallback", Value());
    } else if (!fallback.empty()) {
        out.set("fallback", parts_value(fallback));
    }
    return out;
}

Result<RoutesSetArgs> RoutesSetArgs::from(const Value& value) {
    Reader r(value, "args");
    RoutesSetArgs out;
    out.instance = r.id("instance");
    out.route = read_parts(r, "route");
    const Value* fallback = r.any_or_none("fallback");
    out.no_fallback = fallback != nullptr && fallback->is_null();
    if (fallback != nullptr && !out.no_fallback) {
        out.fallback = read_parts(r, "fallback");
    }
    if (out.route.empty() && fallback == nullptr) {
        r.problem("route", "is missing; expected route, fallback or both");
    }
    return finish(r, std::move(out));
}

Value LimitsSetArgs::to_value() const {
    Value out(Object{});
    set_if(out, "instance", instance);
    Value vars;
    set_if(vars, "model", model);
    set_if(vars, "thinking", thinking);
    if (tools) {
        vars.set("limits.tools", string_array(*tools));
    }
    if (typed) {
        vars.set("limits.typed", string_array(*typed));
    }
    if (!vars.is_null()) {
        out.set("vars", std::move(vars));
    }
    if (!models.empty()) {
        Array list;
        for (const ModelMax& one : models) {
            list.emplace_back(
                Object{{"provider", one.provider}, {"model", one.model}, {"max", one.max}});
        }
        out.set("models", std::move(list));
    }
    if (account_max) {
        out.set("accountMax", *account_max);
    }
    return out;
}

Result<LimitsSetArgs> LimitsSetArgs::from(const Value& value) {
    Reader r(value, "args");
    LimitsSetArgs out;
    out.instance = r.has("instance") ? r.id("instance") : r.id_or("instance", "");
    const Value* vars = r.object_or_none("vars");
    if (vars != nullptr) {
        Reader v(*vars, r.where(), r.pointer_of("vars"));
        out.model = read_part(v, "model");
        out.thinking = read_part(v, "thinking");
        out.tools = read_list(v, "limits.tools");
        out.typed = read_list(v, "limits.typed");
        r.absorb(v.done());
    }
    const bool has_vars = out.model || out.thinking || out.tools || out.typed;
    if (has_vars == out.instance.empty()) {
        r.problem(has_vars ? "instance" : "vars", "is missing; instance and vars come together");
    }
    if (r.has("models")) {
        out.models = read_each<ModelMax>(r, "models", read_max);
    }
    if (r.has("accountMax")) {
        out.account_max = r.integer("accountMax", 0, static_cast<int64_t>(limits::kRunsMax));
    }
    if (!has_vars && out.models.empty() && !out.account_max) {
        r.problem("vars", "is missing; expected vars, models or accountMax");
    }
    return finish(r, std::move(out));
}

Value InstancesSetArgs::to_value() const {
    return Value(Object{{"instances", string_array(instances)}});
}

Result<InstancesSetArgs> InstancesSetArgs::from(const Value& value) {
    Reader r(value, "args");
    InstancesSetArgs out;
    out.instances = read_ids(r, "instances");
    return finish(r, std::move(out));
}

Value PluginsSetArgs::to_value() const {
    return Value(Object{{"harness", string_array(harness)}});
}

Result<PluginsSetArgs> PluginsSetArgs::from(const Value& value) {
    Reader r(value, "args");
    PluginsSetArgs out;
    out.harness = read_ids(r, "harness");
    return finish(r, std::move(out));
}

std::string_view to_string(ConfigVerb verb) {
    return kVerbText[static_cast<size_t>(verb)];
}

std::optional<ConfigVerb> config_verb_from(std::string_view text) {
    const auto hit = std::find(kVerbText.begin(), kVerbText.end(), text);
    if (hit == kVerbText.end()) {
        return std::nullopt;
    }
    return static_cast<ConfigVerb>(hit - kVerbText.begin());
}

Result<void> check_config_args(ConfigVerb verb, const Value& args) {
    switch (verb) {
        case ConfigVerb::routes_set:
            MOSAIC_TRY(RoutesSetArgs::from(args));
            return {};
        case ConfigVerb::limits_set:
            MOSAIC_TRY(LimitsSetArgs::from(args));
            return {};
        case ConfigVerb::instances_set:
            MOSAIC_TRY(InstancesSetArgs::from(args));
            return {};
        case ConfigVerb::plugins_set:
            MOSAIC_TRY(PluginsSetArgs::from(args));
            return {};
    }
    return fail(Code::invalid, "args: no such verb");
}

Value ConfigChangeArgs::to_value() const {
    return Value(
        Object{{"verb", to_string(verb)}, {"by", by}, {"bySession", by_session}, {"args", args}});
}

Result<ConfigChangeArgs> ConfigChangeArgs::from(const Value& value) {
    Reader r(value, "args");
    ConfigChangeArgs out;
    const auto verb = config_verb_from(r.string("verb"));
    if (!verb) {
        r.problem("verb", "expected a verb that changes the configuration");
    }
    out.by = r.string("by");
    out.by_session = r.boolean("bySession");
    if (const Value* args = r.object("args")) {
        out.args = *args;
    }
    MOSAIC_TRY(r.done());
    out.verb = *verb;
    MOSAIC_TRY(check_config_args(out.verb, out.args));
    return out;
}

Value ConfigChangeResult::to_value() const {
    return Value(Object{{"changed", changed}, {"warnings", string_array(warnings)}});
}

Result<ConfigChangeResult> ConfigChangeResult::from(const Value& value) {
    Reader r(value, "result");
    ConfigChangeResult out;
    out.changed = r.boolean("changed");
    out.warnings = r.strings("warnings");
    return finish(r, std::move(out));
}

Value RoutesResult::to_value() const {
    Array instance_list;
    for (const InstanceRoutes& one : instances) {
        instance_list.push_back(instance_value(one));
    }
    Array model_list;
    for (const ModelUse& one : models) {
        model_list.emplace_back(Object{{"provider", one.provider},
                                       {"model", one.model},
                                       {"max", one.max},
                                       {"used", one.used}});
    }
    Array account_list;
    for (const AccountUse& one : accounts) {
        account_list.emplace_back(
            Object{{"account", one.account}, {"max", one.max}, {"used", one.used}});
    }
    Array module_list;
    for (const ModuleState& one : modules) {
        Value module(Object{{"name", one.name}, {"on", one.on}});
        set_if(module, "problem", one.problem);
        module_list.push_back(std::move(module));
    }
    return Value(Object{{"instances", std::move(instance_list)},
                        {"models", std::move(model_list)},
                        {"accounts", std::move(account_list)},
                        {"modules", std::move(module_list)}});
}

Result<RoutesResult> RoutesResult::from(const Value& value) {
    Reader r(value, "result");
    RoutesResult out;
    out.instances = read_each<InstanceRoutes>(r, "instances", read_instance);
    out.models = read_each<ModelUse>(r, "models", [](Reader& one) {
        return ModelUse{one.string("provider"),
                        one.string("model"),
                        one.integer("max", 0, INT64_MAX),
                        one.integer("used", 0, INT64_MAX)};
    });
    out.accounts = read_each<AccountUse>(r, "accounts", [](Reader& one) {
        return AccountUse{one.string("account"),
                          one.integer("max", 0, INT64_MAX),
                          one.integer("used", 0, INT64_MAX)};
    });
    out.modules = read_each<ModuleState>(r, "modules", [](Reader& one) {
        return ModuleState{one.id("name"), one.boolean("on"), one.string_or("problem", "")};
    });
    return finish(r, std::move(out));
}

}  // namespace mosaic::wire
