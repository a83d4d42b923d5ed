#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "wire/codes.h"

// The ordered checks of a launch request. The facts are gathered by the shell; which of them
// decides is decided here, and only here: the first failing check of kChecks is the answer.

namespace mosaic::launch {

// What was found out about one request. A fact that could not be gathered because an earlier check
// fails anyway stays at its passing default.
struct CheckFacts {
    bool well_formed = true;           // one JSON object of the right shape
    bool capability_alive = true;      // or the human asks
    bool launch_configured = true;     // the business has a launch block
    bool listed = true;                // in launch.instances, or launch.by and the human asks
    bool seat_free = true;             // not running, launching or ending
    bool has_contract = true;          // the definition's contract file exists
    std::optional<Refusal> route;      // no_route ... harness_missing, in the harness room's order
    std::optional<Refusal> sandbox;    // sandbox_unavailable
    std::optional<Refusal> workspace;  // workspace_missing, workspace_unsafe
    bool thread_safe = true;
    bool model_known = true;  // exactly one launch.models entry
    bool has_room = true;     // that entry's max and launch.accountMax
};

struct Check {
    std::string_view name;
    // The refusal when the check fails.
    std::optional<Refusal> (*decide)(const CheckFacts& facts);
};

constexpr size_t kChecksCount = 12;
extern const std::array<Check, kChecksCount> kChecks;

// The first failing check's code, nothing when all hold. What remains is the broker's to authorize.
[[nodiscard]] std::optional<Refusal> first_refusal(const CheckFacts& facts);

}  // namespace mosaic::launch
