#pragma once

#include <cstdint>

namespace mosaic::process {

// What this process has of the machine. 0 where the kernel doesn't tell.
struct Usage {
    uint64_t open_fds = 0;
    uint64_t max_fds = 0;  // RLIMIT_NOFILE
    uint64_t resident_bytes = 0;
};

// Blocking looks at /proc/self, some microseconds; before Linux 6.2, which doesn't tell the number
// of open descriptors, some more for each thousand of them.
[[nodiscard]] Usage usage_of_self();

}  // namespace mosaic::process
