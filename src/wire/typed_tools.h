#pragma once

#include <array>
#include <string_view>

// The typed tools: what a session may ask its runner for on tools.sock, when its role's
// limits.typed grants them. The names are fixed here for configuration, bundle and runner.

namespace mosaic::wire {

constexpr std::array<std::string_view, 6> kTypedTools = {
    "launch", "message_send", "task_create", "task_list", "task_update", "decision_request"};

[[nodiscard]] constexpr bool is_typed_tool(std::string_view name) {
    for (const std::string_view known : kTypedTools) {
        if (known == name) {
            return true;
        }
    }
    return false;
}

}  // namespace mosaic::wire
