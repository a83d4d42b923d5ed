#include "sandbox/hardening.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

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

Result<void> check_nested(std::string_view own_groups, const std::string& root) {
    // "0::/path", the line of cgroup2; others are of the older kind, which namespaces can't mount.
    constexpr std::string_view kUnified = "0::";
    size_t at = 0;
    while (at < own_groups.size() && !own_groups.substr(at).starts_with(kUnified)) {
        const size_t end = own_groups.find('\n', at);
        at = end == std::string_view::npos ? own_groups.size() : end + 1;
    }
    if (at >= own_groups.size()) {
        return {};
    }
    at += kUnified.size();
    const std::string group(own_groups.substr(at, own_groups.find('\n', at) - at));
    for (const char* name : {"/cgroup.kill", "/cgroup.procs"}) {
        const std::string path = root + group + name;
        if (::access(path.c_str(), W_OK) == 0) {
            return fail(Code::unsafe,
                        "sandbox.nested: a session could write " + path +
                            " from a namespace of its own, and so kill the host");
        }
    }
    return {};
}

int landlock_abi() {
    const long abi =
        ::syscall(SYS_landlock_create_ruleset, nullptr, std::size_t{0}, kCreateRulesetVersion);
    return abi > 0 ? static_cast<int>(abi) : 0;
}

}  // namespace mosaic::sandbox
