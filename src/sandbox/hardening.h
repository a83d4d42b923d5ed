#pragma once

#include <sys/types.h>

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

// Why sandbox.nested would let a session do harm from its own control groups; empty: it wouldn't. A
// nested namespace can mount each group that the session shares with the process that starts it, of
// either version, with all groups below it, and may write there what their user may: kill it,
// freeze it, take its memory. Looks at each of those groups: not for a launch. `groups` are that
// process's; `apart`: sessions have a group of version 2 of their own.
[[nodiscard]] std::string nested_danger(GroupFiles& files,
                                        const std::vector<ProcessGroup>& groups,
                                        bool apart);

// The same of a process by its number.
[[nodiscard]] std::string nested_danger_of(GroupFiles& files, pid_t process, bool apart);

// What to do about it.
constexpr const char* kNestedRemedy =
    "switch sandbox.nested off, or run the host as a unit with Delegate=yes (mosaic service "
    "install writes one) where no control group of version 1 belongs to its user";

// What this kernel knows of Landlock; 0: nothing, or it is switched off.
[[nodiscard]] int landlock_abi();

}  // namespace mosaic::sandbox
