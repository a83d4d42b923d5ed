#include "config/config.h"

#include <unistd.h>

#include <algorithm>
#include <set>

namespace mosaic::config {

Environment current_environment() {
    Environment out;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const size_t equals = text.find('=');
        if (equals != std::string_view::npos && equals > 0) {
            out.emplace(text.substr(0, equals), text.substr(equals + 1));
        }
    }
    return out;
}

std::string_view to_string(Network network) {
    return network == Network::host ? "host" : "none";
}

bool Instance::may_launch() const {
    const auto holds = [](const std::vector<std::string>& list, std::string_view word) {
        return std::find(list.begin(), list.end(), word) != list.end();
    };
    constexpr std::string_view kVerb = "role.launch";
    return holds(typed, "launch") &&
           (holds(authority.within_role, kVerb) || holds(authority.cross_role, kVerb) ||
            holds(authority.gated, kVerb));
}

const Instance* Business::find(const std::string& instance) const {
    const auto hit = roles.find(instance);
    return hit == roles.end() ? nullptr : &hit->second;
}

bool Business::is_launchable(const std::string& instance) const {
    if (!launch) {
        return false;
    }
    const auto& listed = launch->instances;
    return instance == launch->by ||
           std::find(listed.begin(), listed.end(), instance) != listed.end();
}

std::string variable_name(std::string_view var) {
    std::string out = "MOSAIC_VAR_";
    for (const char c : var) {
        if (c >= 'a' && c <= 'z') {
            out += static_cast<char>(c - 'a' + 'A');
        } else if ((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) {
            out += c;
        } else {
            out += '_';
        }
    }
    return out;
}

std::string contract_path(const SystemConfig& system, const Instance& instance) {
    return system.roles_dir + "/" + instance.definition + ".md";
}

std::vector<std::string> contract_paths(const SystemConfig& system, const Business& business) {
    std::set<std::string> paths;
    for (const auto& [name, instance] : business.roles) {
        paths.insert(contract_path(system, instance));
    }
    return {paths.begin(), paths.end()};
}

std::string data_root_of(const SystemConfig& system,
                         const std::string& given,
                         const std::string& business) {
    return given.empty() ? system.data_root + "/" + business : given;
}

}  // namespace mosaic::config
