#include "runner/landlock.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace mosaic::runner {
namespace {

// include/uapi/linux/landlock.h of Linux 6.12; Debian 12's headers are of 6.1 and end before
// `scoped`.
struct RulesetAttributes {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};

constexpr uint64_t kScopeAbstractUnixSocket = uint64_t{1} << 0;
constexpr uint64_t kScopeSignal = uint64_t{1} << 1;
constexpr unsigned kCreateRulesetVersion = 1U << 0;
constexpr int64_t kAbiWithScopes = 6;

}  // namespace

UniqueFd make_scope_ruleset() {
    const int64_t abi =
        ::syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, kCreateRulesetVersion);
    if (abi < kAbiWithScopes) {
        return UniqueFd();
    }
    const RulesetAttributes attributes{0, 0, kScopeAbstractUnixSocket | kScopeSignal};
    // The descriptor is CLOEXEC by itself (landlock_create_ruleset(2)).
    return UniqueFd(static_cast<int>(
        ::syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0U)));
}

}  // namespace mosaic::runner
