#include "broker/authority.h"

#include <algorithm>

namespace mosaic::broker {
namespace {

bool holds(const std::vector<std::string>& verbs, std::string_view verb) {
    return std::find(verbs.begin(), verbs.end(), verb) != verbs.end();
}

}  // namespace

Permission permission_of(const wire::BrokerConfig& config,
                         const std::string& role,
                         std::string_view verb) {
    for (const wire::RoleAuthority& authority : config.roles) {
        if (authority.role != role) {
            continue;
        }
        if (holds(authority.gated, verb)) {
            return Permission::gated;
        }
        if (holds(authority.within_role, verb) || holds(authority.cross_role, verb)) {
            return Permission::free;
        }
    }
    return Permission::absent;
}

bool has_role(const wire::BrokerConfig& config, const std::string& role) {
    return std::any_of(config.roles.begin(),
                       config.roles.end(),
                       [&](const wire::RoleAuthority& one) { return one.role == role; });
}

bool has_mailbox(const wire::BrokerConfig& config, const Seat& seat) {
    if (seat.instance == config.human) {
        return seat.thread.empty();
    }
    return has_role(config, seat.instance);
}

bool has_module(const wire::BrokerConfig& config, const std::string& harness) {
    return std::find(config.modules.begin(), config.modules.end(), harness) != config.modules.end();
}

}  // namespace mosaic::broker
