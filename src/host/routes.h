#pragma once

#include <optional>
#include <string>

#include "config/config.h"
#include "host/runs.h"
#include "host/settings.h"
#include "wire/codes.h"
#include "wire/config_messages.h"

// What launches would say to the routes of the configuration now. Looks for programs; starts none.

namespace mosaic::host {

struct RouteProblem {
    Refusal code = Refusal::no_route;
    std::string reason;
};

// The first problem of the routes that `after` has and `before` hadn't, by the checks of a launch
// that are about a route: its module, thinking level, credential and program, and launch.models.
// Each route is checked by itself: a primary that doesn't work is refused whatever its fallback is.
// The route of `touched` counts as another even while it is incomplete.
[[nodiscard]] std::optional<RouteProblem> first_bad_change(const Settings& before,
                                                           const Settings& after,
                                                           const std::string& touched);

// All routes, what a launch would take, and how much of each model is in use.
[[nodiscard]] wire::RoutesResult routes_now(const Settings& settings, const Runs& runs);

// "coder: harness-off (...)" for each instance that `after` refuses for its route and `before`
// didn't.
[[nodiscard]] std::vector<std::string> newly_refused(const Settings& before, const Settings& after);

}  // namespace mosaic::host
