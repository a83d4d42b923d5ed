#include "host/routes.h"

#include <algorithm>
#include <set>

#include "config/change.h"
#include "harness/route.h"

namespace mosaic::host {
namespace {

bool knows_model(const Settings& settings, const config::Route& route) {
    // Without a launch block nothing is launched at all; that isn't the route's fault.
    if (!settings.business.launch) {
        return true;
    }
    const auto& models = settings.business.launch->models;
    return std::any_of(models.begin(), models.end(), [&](const config::ModelLimit& one) {
        return one.provider == route.provider && one.model == route.model;
    });
}

RouteProblem unknown_model(const config::Route& route) {
    return {Refusal::unknown_model, route.provider + " " + route.model + " isn't in launch.models"};
}

RouteProblem incomplete(const std::string& instance) {
    return {Refusal::no_route,
            instance + " would have no complete route: set harness, provider, model and thinking"};
}

std::optional<RouteProblem> problem_of(const Settings& settings,
                                       const config::Instance& instance,
                                       const config::Route& route) {
    const auto choice = harness::check_route(route, instance, settings.modules, settings.env);
    if (const auto* refusal = std::get_if<harness::RouteRefusal>(&choice)) {
        return RouteProblem{refusal->code, refusal->reason};
    }
    if (!knows_model(settings, route)) {
        return unknown_model(route);
    }
    return std::nullopt;
}

// What a launch would take or be refused with.
struct Choice {
    std::optional<harness::ChosenRoute> route;
    std::optional<RouteProblem> problem;
};

Choice choose(const Settings& settings, const config::Instance& instance) {
    auto choice = harness::choose_route(instance, settings.modules, settings.env);
    if (const auto* refusal = std::get_if<harness::RouteRefusal>(&choice)) {
        return {std::nullopt, RouteProblem{refusal->code, refusal->reason}};
    }
    auto& chosen = std::get<harness::ChosenRoute>(choice);
    if (!knows_model(settings, chosen.route)) {
        return {std::nullopt, unknown_model(chosen.route)};
    }
    return {std::move(chosen), std::nullopt};
}

std::optional<wire::CheckedRoute> checked(const Settings& settings,
                                          const config::Instance& instance,
                                          const std::optional<config::Route>& route) {
    if (!route) {
        return std::nullopt;
    }
    wire::CheckedRoute out;
    out.harness = route->harness;
    out.provider = route->provider;
    out.model = route->model;
    out.thinking = route->thinking;
    if (const auto problem = problem_of(settings, instance, *route)) {
        out.refusal = to_string(problem->code);
        out.reason = problem->reason;
    }
    return out;
}

}  // namespace

std::optional<RouteProblem> first_bad_change(const Settings& before,
                                             const Settings& after,
                                             const std::string& touched) {
    const config::Instance* instance = after.business.find(touched);
    if (instance != nullptr && !instance->route) {
        return incomplete(touched);
    }
    for (const config::ChangedRoute& changed :
         config::changed_routes(before.business, after.business)) {
        const std::string& name = changed.instance->name;
        if (changed.route == nullptr) {
            return incomplete(name);
        }
        auto problem = problem_of(after, *changed.instance, *changed.route);
        if (problem) {
            problem->reason =
                name + (changed.fallback ? ", its fallback: " : ": ") + problem->reason;
            return problem;
        }
    }
    return std::nullopt;
}

wire::RoutesResult routes_now(const Settings& settings, const Runs& runs) {
    wire::RoutesResult out;
    std::set<std::string> accounts;
    for (const auto& [name, instance] : settings.business.roles) {
        wire::InstanceRoutes one;
        one.instance = name;
        one.listed = settings.business.is_launchable(name);
        one.route = checked(settings, instance, instance.route);
        one.fallback = checked(settings, instance, instance.fallback);
        const Choice choice = choose(settings, instance);
        if (choice.problem) {
            one.refusal = to_string(choice.problem->code);
            one.reason = choice.problem->reason;
        } else {
            const bool primary = choice.route->reason == "primary";
            one.uses = primary ? "route" : "fallback";
            one.reason = primary ? "" : one.route->refusal + " (" + one.route->reason + ")";
            if (!choice.route->account.empty()) {
                accounts.insert(choice.route->account);
            }
        }
        out.instances.push_back(std::move(one));
    }
    if (settings.business.launch) {
        for (const config::ModelLimit& limit : settings.business.launch->models) {
            out.models.push_back(
                {limit.provider, limit.model, limit.max, runs.count(limit.provider, limit.model)});
        }
        const int64_t account_max = settings.business.launch->account_max;
        for (const std::string& account : accounts) {
            if (account_max > 0) {
                out.accounts.push_back({account, account_max, runs.count_account(account)});
            }
        }
    }
    const auto& on = settings.system.plugins_harness;
    for (const std::string& name : on) {
        const auto problem = settings.modules.problems.find(name);
        out.modules.push_back(
            {name, true, problem == settings.modules.problems.end() ? "" : problem->second});
    }
    for (const std::string& name : harness::available_modules(settings.system, settings.shipped)) {
        if (std::find(on.begin(), on.end(), name) == on.end()) {
            out.modules.push_back({name, false, ""});
        }
    }
    return out;
}

std::vector<std::string> newly_refused(const Settings& before, const Settings& after) {
    std::vector<std::string> out;
    for (const auto& [name, instance] : after.business.roles) {
        const config::Instance* old = before.business.find(name);
        if (!after.business.is_launchable(name) ||
            (old != nullptr && choose(before, *old).problem)) {
            continue;
        }
        if (const auto problem = choose(after, instance).problem) {
            out.push_back(name + ": " + std::string(to_string(problem->code)) + " (" +
                          problem->reason + ")");
        }
    }
    return out;
}

}  // namespace mosaic::host
