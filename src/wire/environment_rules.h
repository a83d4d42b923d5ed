#pragma once

#include <string_view>

// Which variables of the host a session must never see: they act as the human, or tell where the
// configuration lies. Host, runner and configuration share this one table.

namespace mosaic::wire {

// GITEA_TOKEN, GH_TOKEN, GITHUB_TOKEN, SSH_AUTH_SOCK, MOSAIC_CONFIG, and every name that starts
// with VIKUNJA_ or AWS_. A runner that finds one in its environment exits 20.
[[nodiscard]] bool is_forbidden_variable(std::string_view name);

// ^[A-Za-z_][A-Za-z0-9_]*$, at most 256 bytes.
[[nodiscard]] bool is_variable_name(std::string_view name);

}  // namespace mosaic::wire
