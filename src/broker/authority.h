#pragma once

#include <string>
#include <string_view>

#include "wire/messages.h"

// What the business lets a role do. Pure: the configuration decides, nothing is looked up.

namespace mosaic::broker {

enum class Permission {
    free,    // withinRole or crossRole
    gated,   // a human decides first; stronger than free where a verb stands in both
    absent,  // not in the role's authority, or there is no such role
};

[[nodiscard]] Permission permission_of(const wire::BrokerConfig& config,
                                       const std::string& role,
                                       std::string_view verb);

[[nodiscard]] bool has_role(const wire::BrokerConfig& config, const std::string& role);

// Whether `seat` can be written to: a role, plain or with a thread, or the human, who has no
// threads.
[[nodiscard]] bool has_mailbox(const wire::BrokerConfig& config, const Seat& seat);

[[nodiscard]] bool has_module(const wire::BrokerConfig& config, const std::string& harness);

}  // namespace mosaic::broker
