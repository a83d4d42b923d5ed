#include "sandbox/hardening.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

#include "base/utf8.h"

namespace mosaic::sandbox {
namespace {

// The first that can scope abstract sockets and signals.
constexpr int kScopeAbi = 6;
constexpr unsigned kCreateRulesetVersion = 1U << 0;  // LANDLOCK_CREATE_RULESET_VERSION

Level nested_namespaces(bool nested) {
    if (nested) {
        return {"nested-user-namespaces",
                false,
                "sandbox.nested allows them: a session may make user namespaces, and mount in them",
                "switch sandbox.nested off"};
    }
    return {"nested-user-namespaces", true, "making further ones is refused", ""};
}

Level network(std::optional<bool> none) {
    if (!none) {
        return {"network",
                true,
                "of its own where a role says network: none; with host it is shared",
                ""};
    }
    if (*none) {
        return {"network", true, "a namespace of its own, with loopback only", ""};
    }
    return {"network",
            false,
            "the role's network is host: it reaches what the host's user reaches",
            "set the role's network to none"};
}

Level landlock_scope(int abi) {
    if (abi >= kScopeAbi) {
        return {"landlock-scope",
                true,
                "a turn reaches no abstract socket and signals no process outside of it",
                ""};
    }
    const std::string found =
        abi == 0 ? "this kernel has no Landlock"
                 : "this kernel has Landlock ABI " + std::to_string(abi) + ", and 6 is needed";
    return {
        "landlock-scope",
        false,
        found + ": a turn can signal its runner and, with network: host, reach abstract sockets",
        "run Linux 6.12 or later with Landlock switched on (lsm=landlock,...), or use network: "
        "none"};
}

}  // namespace

std::vector<Level> hardening(const HardeningFacts& facts) {
    return {
        {"namespaces", true, "user, pid, ipc, uts, cgroup and mount namespaces of its own", ""},
        {"capabilities", true, "all dropped, and none to be gained", ""},
        nested_namespaces(facts.nested),
        network(facts.network_none),
        {"keyring", true, "an empty session keyring of its own", ""},
        {"seccomp", true, "a filter of system calls, loaded before the runner starts", ""},
        landlock_scope(facts.landlock_abi),
        {"runner-not-dumpable", true, "a turn can neither read nor trace its runner", ""},
        {"dev-read-only", true, "nothing is made in /dev; /dev/shm has a size", ""},
        {"process-limits",
         true,
         "processes, open files and core dumps are limited inside the session",
         ""},
        {"oom-score", true, "sessions go before the host when memory runs out", ""},
        {"cgroup", facts.groups.on, facts.groups.reason, facts.groups.remedy},
    };
}

std::string nested_danger(GroupFiles& files, const std::vector<ProcessGroup>& groups, bool apart) {
    for (const ProcessGroup& group : groups) {
        if (group.hierarchy.empty() && apart) {
            continue;
        }
        const auto writable =
            group.directory.empty()
                ? Result<std::string>(fail(Code::missing, "it is mounted nowhere here"))
                : find_writable(files, group.directory);
        if (!writable) {
            const std::string of = group.hierarchy.empty() ? "" : " of " + group.hierarchy;
            return "nobody can tell what a session could write of the control group " +
                   escape_path(group.group) + of + ": " + writable.error().text;
        }
        if (!writable->empty()) {
            return "a session could write " + escape_path(*writable) +
                   " from a namespace of its own, and so harm all in that control group";
        }
    }
    return "";
}

std::string nested_danger_of(GroupFiles& files, pid_t process, bool apart) {
    const auto groups = process_groups_of(files, process);
    return groups ? nested_danger(files, *groups, apart)
                  : "nobody can tell which control groups there are: " + groups.error().text;
}

int landlock_abi() {
    const long abi =
        ::syscall(SYS_landlock_create_ruleset, nullptr, std::size_t{0}, kCreateRulesetVersion);
    return abi > 0 ? static_cast<int>(abi) : 0;
}

}  // namespace mosaic::sandbox
