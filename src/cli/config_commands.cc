// routes, limits, instances, plugins and reload.

#include "cli/command.h"
#include "cli/output.h"
#include "wire/codes.h"
#include "wire/config_messages.h"

namespace mosaic::cli {
namespace {

std::optional<std::string> part(const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(text);
}

std::string route_text(const std::optional<wire::CheckedRoute>& route) {
    return route
               ? route->harness + " " + route->provider + " " + route->model + " " + route->thinking
               : std::string("-");
}

std::string use_text(const wire::InstanceRoutes& one) {
    if (!one.uses.empty()) {
        return one.uses;
    }
    return one.listed ? "refused" : "refused (not launched by sessions)";
}

// Below the table: why a route isn't taken, one line each.
void add_reasons(std::string& out, const wire::InstanceRoutes& one) {
    const auto add = [&](const std::string& what, const std::string& code, const std::string& why) {
        out +=
            one.instance + ", " + what + ": " + code + (why.empty() ? "" : " (" + why + ")") + "\n";
    };
    if (one.route && !one.route->refusal.empty()) {
        add("route", one.route->refusal, one.route->reason);
    } else if (!one.route) {
        add("route", one.refusal, one.reason);
    }
    if (one.fallback && !one.fallback->refusal.empty()) {
        add("fallback", one.fallback->refusal, one.fallback->reason);
    }
}

std::string routes_text(const wire::RoutesResult& routes) {
    Table instances({"INSTANCE", "ROUTE", "FALLBACK", "USES NOW"});
    std::string reasons;
    for (const wire::InstanceRoutes& one : routes.instances) {
        instances.add(
            {one.instance, route_text(one.route), route_text(one.fallback), use_text(one)});
        add_reasons(reasons, one);
    }
    std::string out = instances.text();
    if (!reasons.empty()) {
        out += "\n";
        // Line by line: what a line quotes may come from anywhere.
        size_t at = 0;
        while (at < reasons.size()) {
            const size_t end = reasons.find('\n', at);
            out += one_line(reasons.substr(at, end - at)) + "\n";
            at = end + 1;
        }
    }
    if (!routes.models.empty()) {
        Table models({"PROVIDER", "MODEL", "SESSIONS", "MAX"});
        for (const wire::ModelUse& one : routes.models) {
            models.add(
                {one.provider, one.model, std::to_string(one.used), std::to_string(one.max)});
        }
        out += "\n" + models.text();
    }
    if (!routes.accounts.empty()) {
        Table accounts({"ACCOUNT", "SESSIONS", "MAX"});
        for (const wire::AccountUse& one : routes.accounts) {
            accounts.add({one.account, std::to_string(one.used), std::to_string(one.max)});
        }
        out += "\n" + accounts.text();
    }
    return out;
}

// The answer to `routes`, as it came and decoded.
struct Routes {
    json::Value value;
    wire::RoutesResult result;
};

Asked<Routes> ask_routes(const Context& context) {
    auto client = connect_admin(context);
    if (!client) {
        return tl::unexpected<int>(report(context, client.error()));
    }
    auto answer = ask(context, *client, {"routes", json::Object{}});
    if (!answer) {
        return tl::unexpected<int>(answer.error());
    }
    auto result = wire::RoutesResult::from(*answer);
    if (!result) {
        return tl::unexpected<int>(report(context, result.error()));
    }
    return Routes{std::move(*answer), std::move(*result)};
}

// One request whose answer says whether something changed.
int change(const Context& context, std::string_view verb, json::Value args) {
    auto client = connect_admin(context);
    if (!client) {
        return report(context, client.error());
    }
    const auto answer = ask(context, *client, {verb, std::move(args)});
    if (!answer) {
        return answer.error();
    }
    const auto result = wire::ConfigChangeResult::from(*answer);
    if (!result) {
        return report(context, result.error());
    }
    if (context.options.json) {
        return finish(print_json(*answer));
    }
    for (const std::string& warning : result->warnings) {
        complain("warning: " + warning);
    }
    return finish(print(result->changed ? "changed\n" : "nothing to change\n"));
}

}  // namespace

int run_routes(const Context& context) {
    const auto routes = ask_routes(context);
    if (!routes) {
        return routes.error();
    }
    return finish(context.options.json ? print_json(routes->value)
                                       : print(routes_text(routes->result)));
}

int run_routes_set(const Context& context) {
    const Options& o = context.options;
    wire::RoutesSetArgs args;
    args.instance = o.target;
    args.route = {part(o.harness), part(o.provider), part(o.model), part(o.thinking)};
    args.fallback = {part(o.fallback_harness),
                     part(o.fallback_provider),
                     part(o.fallback_model),
                     part(o.fallback_thinking)};
    args.no_fallback = o.no_fallback;
    return change(context, "routes.set", args.to_value());
}

int run_limits_set(const Context& context) {
    const Options& o = context.options;
    wire::LimitsSetArgs args;
    args.instance = o.target;
    args.model = part(o.model);
    args.thinking = part(o.thinking);
    args.tools = o.tools;
    args.typed = o.typed;
    for (const ModelCapacity& one : o.capacities) {
        args.models.push_back({one.provider, one.model, one.max});
    }
    args.account_max = o.account_max;
    return change(context, "limits.set", args.to_value());
}

int run_instances_set(const Context& context) {
    return change(
        context, "instances.set", wire::InstancesSetArgs{context.options.names}.to_value());
}

int run_plugins(const Context& context) {
    const auto routes = ask_routes(context);
    if (!routes) {
        return routes.error();
    }
    if (context.options.json) {
        return finish(print_json(*routes->value.find("modules")));
    }
    Table table({"MODULE", "STATE", "PROBLEM"});
    for (const wire::ModuleState& one : routes->result.modules) {
        table.add({one.name, one.on ? "on" : "off", one.problem.empty() ? "-" : one.problem});
    }
    return finish(print(table.text()));
}

int run_plugins_set(const Context& context) {
    return change(context, "plugins.set", wire::PluginsSetArgs{context.options.names}.to_value());
}

int run_reload(const Context& context) {
    return change(context, "reload", json::Object{});
}

}  // namespace mosaic::cli
