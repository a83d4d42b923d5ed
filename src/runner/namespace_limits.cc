#include "runner/namespace_limits.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace mosaic::runner {
namespace {

constexpr std::string_view kNamespacesMax = "256";
constexpr std::array kKinds = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"};
constexpr std::array kCapabilities = {CAP_SYS_RESOURCE, CAP_SETPCAP};

using Sets = std::array<__user_cap_data_struct, 2>;

Result<void> bound(const char* kind) {
    const std::string path = std::string("/proc/sys/user/max_") + kind + "_namespaces";
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.valid()) {
        // A kind that this kernel doesn't know.
        return errno == ENOENT ? Result<void>() : Result<void>(fail_sys(errno, path));
    }
    if (::write(file.get(), kNamespacesMax.data(), kNamespacesMax.size()) < 0) {
        return fail_sys(errno, path);
    }
    return {};
}

Result<void> give_up(__user_cap_header_struct& header) {
    for (const int capability : kCapabilities) {
        if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
            return fail_sys(errno, "the capability bounding set");
        }
    }
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) {
        return fail_sys(errno, "ambient capabilities");
    }
    const Sets none{};
    if (::syscall(SYS_capset, &header, none.data()) != 0) {
        return fail_sys(errno, "capset");
    }
    return {};
}

}  // namespace

Result<void> bound_namespaces() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    Sets sets{};
    if (::syscall(SYS_capget, &header, sets.data()) != 0) {
        return fail_sys(errno, "capget");
    }
    if ((sets[0].effective & (1U << CAP_SYS_RESOURCE)) == 0) {
        return {};
    }
    for (const char* kind : kKinds) {
        MOSAIC_TRY(bound(kind));
    }
    return give_up(header);
}

}  // namespace mosaic::runner
