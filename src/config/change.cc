#include "config/change.h"

#include <algorithm>
#include <array>

#include "config/fields.h"
#include "wire/limits.h"

namespace mosaic::config {
namespace {

using json::Array;
using json::Member;
using json::Object;
using json::Value;

Result<Value> parse_document(std::string_view text, const std::string& path) {
    auto value = json::parse(text, json::ParseOptions{.depth_max = limits::kFileDepthMax});
    if (!value) {
        return fail(value.error().code, path + ": " + value.error().text);
    }
    return value;
}

// The document as text, no longer than what is read back.
Result<std::string> to_text(const Value& document, const std::string& path) {
    std::string text = json::dump_pretty(document);
    if (text.size() > kFileBytesMax) {
        return fail(Code::invalid,
                    path + ": would have more than " + std::to_string(kFileBytesMax) + " bytes");
    }
    return text;
}

// The same, once it is a business file that holds.
Result<std::string> checked_business(const Value& document, const std::string& path) {
    MOSAIC_TRY_ASSIGN(std::string text, to_text(document, path));
    MOSAIC_TRY(parse_business(text, path));
    return text;
}

Value string_array(const std::vector<std::string>& strings) {
    Array out;
    for (const std::string& s : strings) {
        out.emplace_back(s);
    }
    return Value(std::move(out));
}

// The `vars` of an instance, made when it has none.
Result<Value*> vars_of(Value& document, const std::string& instance) {
    Value* roles = document.find("roles");
    Value* role = roles != nullptr ? roles->find(instance) : nullptr;
    if (role == nullptr || role->object() == nullptr) {
        return fail(Code::missing, "no role is named " + in_quotes(instance));
    }
    if (role->find("vars") == nullptr) {
        role->set("vars", Object{});
    }
    return role->find("vars");
}

void set_parts(Value& vars, const std::string& prefix, const wire::RouteParts& parts) {
    const std::array<std::pair<const char*, const std::optional<std::string>*>, 4> all = {{
        {"harness", &parts.harness},
        {"provider", &parts.provider},
        {"model", &parts.model},
        {"thinking", &parts.thinking},
    }};
    for (const auto& [name, part] : all) {
        if (*part) {
            vars.set(prefix + name, **part);
        }
    }
}

// launch, which must be there: these changes have no meaning without it.
Result<Value*> launch_of(Value& document, const std::string& path) {
    Value* launch = document.find("launch");
    if (launch == nullptr || launch->object() == nullptr) {
        return fail(Code::invalid, path + ": /launch: is missing; expected an object");
    }
    return launch;
}

void set_max(Array& models, const wire::ModelMax& change) {
    const auto same = [&](Value& one) {
        const Value* provider = one.find("provider");
        const Value* model = one.find("model");
        return provider != nullptr && model != nullptr && *provider == Value(change.provider) &&
               *model == Value(change.model);
    };
    const auto found = std::find_if(models.begin(), models.end(), same);
    if (found != models.end()) {
        found->set("max", change.max);
        return;
    }
    models.emplace_back(
        Object{{"provider", change.provider}, {"model", change.model}, {"max", change.max}});
}

Result<void> set_capacity(Value& document,
                          const std::string& path,
                          const wire::LimitsSetArgs& change) {
    MOSAIC_TRY_ASSIGN(Value* const launch, launch_of(document, path));
    Value* models = launch->find("models");
    if (models != nullptr && models->array() != nullptr) {
        for (const wire::ModelMax& one : change.models) {
            set_max(*models->array(), one);
        }
    }
    if (!change.account_max) {
        return {};
    }
    if (*change.account_max > 0) {
        launch->set("accountMax", *change.account_max);
    } else {
        std::erase_if(*launch->object(),
                      [](const Member& member) { return member.first == "accountMax"; });
    }
    return {};
}

}  // namespace

Result<std::string> change_routes(std::string_view text,
                                  const std::string& path,
                                  const wire::RoutesSetArgs& change) {
    MOSAIC_TRY_ASSIGN(Value document, parse_document(text, path));
    MOSAIC_TRY_ASSIGN(Value* const vars, vars_of(document, change.instance));
    if (vars->object() != nullptr) {
        set_parts(*vars, "", change.route);
        set_parts(*vars, "fallback.", change.fallback);
        if (change.no_fallback) {
            std::erase_if(*vars->object(), [](const Member& member) {
                return member.first.starts_with("fallback.");
            });
        }
    }
    return checked_business(document, path);
}

Result<std::string> change_limits(std::string_view text,
                                  const std::string& path,
                                  const wire::LimitsSetArgs& change) {
    MOSAIC_TRY_ASSIGN(Value document, parse_document(text, path));
    if (!change.instance.empty()) {
        MOSAIC_TRY_ASSIGN(Value* const vars, vars_of(document, change.instance));
        set_parts(*vars, "", {.model = change.model, .thinking = change.thinking});
        if (change.tools) {
            vars->set("limits.tools", string_array(*change.tools));
        }
        if (change.typed) {
            vars->set("limits.typed", string_array(*change.typed));
        }
    }
    if (!change.models.empty() || change.account_max) {
        MOSAIC_TRY(set_capacity(document, path, change));
    }
    return checked_business(document, path);
}

Result<std::string> change_instances(std::string_view text,
                                     const std::string& path,
                                     const wire::InstancesSetArgs& change) {
    MOSAIC_TRY_ASSIGN(Value document, parse_document(text, path));
    MOSAIC_TRY_ASSIGN(Value* const launch, launch_of(document, path));
    launch->set("instances", string_array(change.instances));
    return checked_business(document, path);
}

Result<std::string> change_plugins(std::string_view text,
                                   const std::string& path,
                                   const Environment& env,
                                   const wire::PluginsSetArgs& change) {
    Value document(Object{});
    if (!text.empty()) {
        MOSAIC_TRY_ASSIGN(document, parse_document(text, path));
    }
    if (document.object() != nullptr) {
        Value* plugins = document.find("plugins");
        if (plugins == nullptr) {
            document.set("plugins", Object{});
            plugins = document.find("plugins");
        }
        if (plugins->object() != nullptr) {
            plugins->set("harness", string_array(change.harness));
        }
    }
    MOSAIC_TRY_ASSIGN(std::string out, to_text(document, path));
    MOSAIC_TRY(parse_system(out, path, env));
    return out;
}

std::vector<ChangedRoute> changed_routes(const Business& before, const Business& after) {
    std::vector<ChangedRoute> out;
    for (const auto& [name, instance] : after.roles) {
        const Instance* old = before.find(name);
        const bool fresh =
            old == nullptr || (after.is_launchable(name) && !before.is_launchable(name));
        if (fresh || old->route != instance.route) {
            out.push_back({&instance, instance.route ? &*instance.route : nullptr, false});
        }
        if (instance.fallback && (fresh || old->fallback != instance.fallback)) {
            out.push_back({&instance, &*instance.fallback, true});
        }
    }
    return out;
}

}  // namespace mosaic::config
