#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "sandbox/control_groups.h"

// What protects the machine from a session and the runner from its own turns, level by level, on or
// off with the reason: one list for a run's manifest and for `mosaic doctor`.

namespace mosaic::sandbox {

struct Level {
    std::string name;
    bool on = false;
    std::string reason;  // what it does; when it is off, why it is
    std::string remedy;  // for a level that is off and needn't be; one line, else empty

    bool operator==(const Level&) const = default;
};

struct HardeningFacts {
    std::optional<bool> network_none{};  // the instance's; nothing: of no instance in particular
    bool nested = false;                 // sandbox.nested
    int landlock_abi = 0;                // landlock_abi()
    GroupLevel groups{};                 // of the host's run groups
};

// Pure. The names and their order stay the same whatever is on.
[[nodiscard]] std::vector<Level> hardening(const HardeningFacts& facts);

// Whether sandbox.nested would let a session kill a host whose runs have no control group of their
// own: a nested namespace can mount the group that the session shares with the host, and may write
// there what their user may. Code::unsafe says so. `own_groups` is the content of
// /proc/self/cgroup; `root` is where cgroup2 is mounted.
[[nodiscard]] Result<void> check_nested(std::string_view own_groups,
                                        const std::string& root = "/sys/fs/cgroup");

// What this kernel knows of Landlock; 0: nothing, or it is switched off.
[[nodiscard]] int landlock_abi();

}  // namespace mosaic::sandbox
