#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/instant.h"
#include "registry/sessions.h"
#include "wire/json.h"
#include "wire/messages.h"

// Stopping a session when no host runs: the same checks and the same signals as the host's, from
// sessions.json. The entry stays: the next host records the end (`host-lost`) and frees the seat.

namespace mosaic::cli {

// The entry that a run id or an instance (with its thread) names, or null. An instance never names
// a warm seat.
[[nodiscard]] const registry::SessionEntry* find_entry(const registry::SessionsFile& file,
                                                       const std::string& target,
                                                       const std::string& thread);

// Whether a command line is a session runner of this run directory: `mosaic-runner <run dir>`, or a
// bubblewrap with it among its arguments. Pure.
[[nodiscard]] bool is_runner_of(const std::vector<std::string>& cmdline,
                                const std::string& run_dir);
[[nodiscard]] bool is_bwrap_of(const std::vector<std::string>& cmdline, const std::string& run_dir);

// SIGTERM through the runner's pidfd, again each second until it exits, SIGKILL at `timeout` (the
// runner first, then the outer bwrap). Returns what the stop verb would: {"stopped":true,...} or
// {"stopped":false,"reason"}. Errors: Code::missing for an unknown target, Code::unsafe for a
// process that isn't a session runner (nothing was signalled then), others when a kill had no
// effect.
[[nodiscard]] Result<json::Value> stop_locally(const registry::SessionsFile& file,
                                               const wire::StopArgs& args);

}  // namespace mosaic::cli
