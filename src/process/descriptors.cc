#include "process/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/unique_fd.h"

namespace mosaic::process {

void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

bool descriptors_left(int fd, size_t reserve) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return true;
    }
    const UniqueFd next(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    const rlim_t kept = std::min<rlim_t>(reserve, limit.rlim_cur / 4);
    return next.valid() && static_cast<rlim_t>(next.get()) + kept < limit.rlim_cur;
}

}  // namespace mosaic::process
