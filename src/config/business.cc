#include <algorithm>
#include <array>
#include <set>

#include "base/ids.h"
#include "config/config.h"
#include "config/fields.h"
#include "wire/limits.h"
#include "wire/typed_tools.h"

namespace mosaic::config {
namespace {

using json::Member;
using json::Reader;
using json::Value;

// What an authority can speak of: the verbs of sessions, and role.launch.
constexpr std::array<std::string_view, 12> kVerbs = {"role.launch",
                                                     "role.claim",
                                                     "role.release",
                                                     "message.send",
                                                     "message.receive",
                                                     "message.ack",
                                                     "task.create",
                                                     "task.list",
                                                     "task.update",
                                                     "decision.request",
                                                     "limits.set",
                                                     "instances.set"};

constexpr std::array<std::string_view, 4> kRouteVars = {"harness", "provider", "model", "thinking"};
constexpr std::string_view kVarHelp =
    "unknown key; expected harness, provider, model, thinking, one of these behind fallback., "
    "limits.tools, limits.typed, network, or <module>.<key>";

constexpr size_t kVarBytesMax = size_t{64} * 1024;
constexpr size_t kVarKeyBytesMax = 64;
constexpr int64_t kWarmMax = 256;

template <class Range>
bool holds(const Range& words, std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

// ---- vars ----

// One of a route's four: empty when it isn't given or is an empty string.
std::string read_route_var(Reader& vars, const std::string& key, std::string_view part) {
    std::string text = vars.string_or(key, "");
    if (text.empty()) {
        return text;
    }
    if (part == "harness" ? !is_id(text) : !is_name_text(text)) {
        vars.problem(
            key,
            part == "harness"
                ? "expected a module's name (an id), found " + in_quotes(text)
                : "expected 1 to 256 bytes without control characters, found " + in_quotes(text));
    }
    return text;
}

// A route whose parts stand behind `prefix`; `given` says which of them do.
Route read_route(Reader& vars, const std::string& prefix) {
    Route out;
    out.harness = read_route_var(vars, prefix + "harness", "harness");
    out.provider = read_route_var(vars, prefix + "provider", "provider");
    out.model = read_route_var(vars, prefix + "model", "model");
    out.thinking = read_route_var(vars, prefix + "thinking", "thinking");
    return out;
}

// How many of the four are given; `missing` is set to the first that isn't.
int parts_given(const Route& route, std::string_view& missing) {
    const std::array<const std::string*, 4> parts = {
        &route.harness, &route.provider, &route.model, &route.thinking};
    int given = 0;
    missing = {};
    for (size_t i = 0; i < parts.size(); ++i) {
        if (!parts[i]->empty()) {
            ++given;
        } else if (missing.empty()) {
            missing = kRouteVars[i];
        }
    }
    return given;
}

void read_routes(Reader& vars, Instance& out) {
    std::string_view missing;
    const Route primary = read_route(vars, "");
    // An incomplete primary is no error of the file: its launch is refused with no-route.
    if (parts_given(primary, missing) == 4) {
        out.route = primary;
    }
    const Route fallback = read_route(vars, "fallback.");
    const int given = parts_given(fallback, missing);
    if (given == 4) {
        out.fallback = fallback;
    } else if (given > 0) {
        vars.problem("fallback." + std::string(missing),
                     "is missing; a fallback needs all of harness, provider, model, thinking");
    }
}

void read_tools(Reader& vars, Instance& out) {
    out.tools = vars.strings_or_none("limits.tools");
    for (size_t i = 0; i < out.tools.size(); ++i) {
        if (!is_name_text(out.tools[i])) {
            vars.problem_in(
                "limits.tools", i, "expected a tool's name, found " + in_quotes(out.tools[i]));
        }
    }
    refuse_twice(vars, "limits.tools", out.tools);
    out.typed = vars.strings_or_none("limits.typed");
    for (size_t i = 0; i < out.typed.size(); ++i) {
        if (!wire::is_typed_tool(out.typed[i])) {
            vars.problem_in(
                "limits.typed",
                i,
                "expected " + one_of(wire::kTypedTools) + ", found " + in_quotes(out.typed[i]));
        }
    }
    refuse_twice(vars, "limits.typed", out.typed);
}

Network read_network(Reader& vars) {
    const std::string text = vars.string_or("network", "host");
    if (text != to_string(Network::host) && text != to_string(Network::none)) {
        vars.problem("network", "expected host or none, found " + in_quotes(text));
    }
    return text == to_string(Network::none) ? Network::none : Network::host;
}

bool is_module_var(std::string_view key) {
    const size_t dot = key.find('.');
    if (dot == std::string_view::npos || !is_id(key.substr(0, dot))) {
        return false;
    }
    const std::string_view module = key.substr(0, dot);
    const std::string_view rest = key.substr(dot + 1);
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_' || c == '.';
    };
    return module != "fallback" && module != "limits" && !rest.empty() &&
           rest.size() <= kVarKeyBytesMax && std::all_of(rest.begin(), rest.end(), allowed);
}

bool is_core_var(std::string_view key) {
    if (key.starts_with("fallback.")) {
        return holds(kRouteVars, key.substr(9));
    }
    return holds(kRouteVars, key) || key == "limits.tools" || key == "limits.typed" ||
           key == "network";
}

// The modules' own vars: the core hands them on and knows nothing of them.
void read_module_vars(Reader& vars, const Value& object, Instance& out) {
    std::map<std::string, std::string> seen;  // variable name -> key
    for (const Member& member : *object.object()) {
        const std::string& key = member.first;
        if (is_core_var(key)) {
            continue;
        }
        if (!is_module_var(key)) {
            vars.problem(key, kVarHelp);
            return;
        }
        std::string text = vars.string(key);
        if (text.size() > kVarBytesMax || text.find('\0') != std::string::npos) {
            vars.problem(key, "expected at most 65536 bytes without a NUL character");
        }
        // Module names hold no '_' and no '.', so only keys of one module can meet.
        const auto [other, fresh] =
            seen.emplace(key.substr(0, key.find('.')) + " " + variable_name(key), key);
        if (!fresh) {
            vars.problem(
                key, "becomes the same variable as " + other->second + ", " + variable_name(key));
        }
        out.vars.emplace(key, std::move(text));
    }
}

// ---- roles ----

std::vector<std::string> read_verbs(Reader& authority, std::string_view key) {
    std::vector<std::string> out = authority.strings_or_none(key);
    for (size_t i = 0; i < out.size(); ++i) {
        if (!holds(kVerbs, out[i])) {
            authority.problem_in(
                key, i, "expected " + one_of(kVerbs) + ", found " + in_quotes(out[i]));
        }
    }
    refuse_twice(authority, key, out);
    return out;
}

Authority read_authority(Reader& role) {
    Authority out;
    if (const Value* value = role.object_or_none("authority")) {
        Reader a(*value, role.where(), role.pointer_of("authority"));
        out.within_role = read_verbs(a, "withinRole");
        out.cross_role = read_verbs(a, "crossRole");
        out.gated = read_verbs(a, "gated");
        role.absorb(a.done());
    }
    return out;
}

Instance read_instance(Reader& roles,
                       const std::string& name,
                       const Value& value,
                       const std::string& directory) {
    Instance out;
    out.name = name;
    Reader r(value, roles.where(), roles.pointer_of(name));
    out.definition = r.id("definition");
    out.workspace = read_any_path(r, "workspace", directory);
    out.shared_workspace = r.boolean_or("sharedWorkspace", false);
    out.warm = r.integer_or("warm", 0, kWarmMax, 0);
    if (const Value* object = r.object_or_none("vars")) {
        Reader vars(*object, r.where(), r.pointer_of("vars"));
        read_routes(vars, out);
        read_tools(vars, out);
        out.network = read_network(vars);
        read_module_vars(vars, *object, out);
        r.absorb(vars.done());
    }
    out.authority = read_authority(r);
    roles.absorb(r.done());
    return out;
}

void read_roles(Reader& r, Business& out) {
    const Value* value = r.object("roles");
    if (value == nullptr) {
        return;
    }
    Reader roles(*value, r.where(), r.pointer_of("roles"));
    const std::string directory = directory_of(out.file);
    for (const Member& member : *value->object()) {
        const std::string& name = member.first;
        ignore(roles.any(name), "its kind is read_instance's to judge");
        if (!is_id(name)) {
            roles.problem(name,
                          "expected a role's name (an id: a-z, 0-9 and -, 1 to 64 characters, not "
                          "starting with -)");
        } else if (name == out.human) {
            roles.problem(name, "a role may not be named like the human");
        }
        out.roles.emplace(name, read_instance(roles, name, member.second, directory));
    }
    r.absorb(roles.done());
}

// ---- the rest ----

void read_arbiters(Reader& r, Business& out) {
    const Value* value = r.object_or_none("arbiters");
    if (value == nullptr) {
        return;
    }
    Reader arbiters(*value, r.where(), r.pointer_of("arbiters"));
    for (const Member& member : *value->object()) {
        const std::string who = arbiters.string(member.first);
        if (!is_id(member.first)) {
            arbiters.problem(member.first, "expected an id as the kind of question");
        }
        if (!out.roles.contains(who) && who != out.human) {
            arbiters.problem(member.first, "expected a role or the human, found " + in_quotes(who));
        }
        out.arbiters.emplace(member.first, who);
    }
    r.absorb(arbiters.done());
}

std::vector<ModelLimit> read_models(Reader& launch) {
    std::vector<ModelLimit> out;
    const Value* value = launch.array("models");
    if (value == nullptr) {
        return out;
    }
    for (const Value& element : *value->array()) {
        const size_t i = out.size();
        Reader m(element, launch.where(), launch.pointer_of("models") + "/" + std::to_string(i));
        ModelLimit limit;
        limit.provider = read_name(m, "provider");
        limit.model = read_name(m, "model");
        limit.max = m.integer("max", 0, static_cast<int64_t>(limits::kRunsMax));
        launch.absorb(m.done());
        const bool twice = std::any_of(out.begin(), out.end(), [&](const ModelLimit& other) {
            return other.provider == limit.provider && other.model == limit.model;
        });
        if (twice) {
            launch.problem_in("models",
                              i,
                              "provider " + in_quotes(limit.provider) + " with model " +
                                  in_quotes(limit.model) + " stands twice");
        }
        out.push_back(std::move(limit));
    }
    return out;
}

void read_launch(Reader& r, Business& out) {
    const Value* value = r.object_or_none("launch");
    if (value == nullptr) {
        return;
    }
    Reader l(*value, r.where(), r.pointer_of("launch"));
    LaunchConfig launch;
    launch.by = l.string("by");
    if (!out.roles.contains(launch.by)) {
        l.problem("by", "expected a role, found " + in_quotes(launch.by));
    }
    launch.instances = l.strings("instances");
    for (size_t i = 0; i < launch.instances.size(); ++i) {
        if (!out.roles.contains(launch.instances[i])) {
            l.problem_in(
                "instances", i, "expected a role, found " + in_quotes(launch.instances[i]));
        }
    }
    refuse_twice(l, "instances", launch.instances);
    launch.models = read_models(l);
    launch.account_max = l.integer_or("accountMax", 1, static_cast<int64_t>(limits::kRunsMax), 0);
    r.absorb(l.done());
    out.launch = std::move(launch);
}

// Each is a sandbox with processes and descriptors of its own, which the sessions may need.
void limit_warm(Reader& r, const Business& out) {
    int64_t warm = 0;
    for (const auto& [name, instance] : out.roles) {
        warm += instance.warm;
    }
    if (warm > kWarmMax) {
        r.problem("roles",
                  "expected at most " + std::to_string(kWarmMax) +
                      " warm seats of all roles together, found " + std::to_string(warm));
    }
}

}  // namespace

Result<Business> parse_business(std::string_view text, const std::string& path) {
    const Result<Value> value =
        json::parse(text, json::ParseOptions{.depth_max = limits::kFileDepthMax});
    if (!value) {
        return fail(value.error().code, path + ": " + value.error().text);
    }
    Business out;
    out.file = path;
    Reader r(*value, path);
    out.id = r.id("id");
    out.human = r.id("human");
    read_roles(r, out);
    read_arbiters(r, out);
    read_launch(r, out);
    limit_warm(r, out);
    MOSAIC_TRY(r.done());
    return out;
}

}  // namespace mosaic::config
