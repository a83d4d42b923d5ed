#include "runner/process_limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"

namespace mosaic::runner {
namespace {

// What the kernel counts together for all of a user's processes. Pinned pages are the host's ring,
// too: a session that has pinned as much as a ring's owner may lock keeps the next host from its
// ring. Enough for programs that lock secrets.
constexpr int64_t kLockedBytes = int64_t{64} * 1024;
constexpr int64_t kPendingSignals = 1024;  // and timers of timer_create(2)

constexpr std::string_view kOomScore = "500";  // as the host writes for the sandbox

// Soft and hard.
void limit(__rlimit_resource_t resource, int64_t most) {
    rlimit current{};
    if (::getrlimit(resource, &current) != 0) {
        return;
    }
    const auto wanted = static_cast<rlim_t>(most);
    current.rlim_max = std::min(current.rlim_max, wanted);
    current.rlim_cur = current.rlim_max;
    ignore(::setrlimit(resource, &current), "lowering is always allowed");
}

}  // namespace

void set_process_limits(const wire::SessionLimits& limits) {
    limit(RLIMIT_NPROC, limits.processes);
    limit(RLIMIT_NOFILE, limits.open_files);
    limit(RLIMIT_MEMLOCK, kLockedBytes);
    limit(RLIMIT_SIGPENDING, kPendingSignals);
    // 1 and not 0: to the kernel 1 also means no core for a program that the machine's core_pattern
    // pipes to, which would put a session's memory, credentials included, where others collect it.
    limit(RLIMIT_CORE, 1);
}

void go_first_when_memory_runs_out() {
    const UniqueFd file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
    if (!file.valid()) {
        return;
    }
    ignore(::write(file.get(), kOomScore.data(), kOomScore.size()),
           "refused where a higher score was inherited, which will do");
}

}  // namespace mosaic::runner
