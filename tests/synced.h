#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

// What the code under test has made durable by fsync(2), which no test can see on the disk. This
// file defines fsync() in libc's place, so that one source of a test program includes it: the real
// call is made, and remembered. Calls that go through io_uring don't come here.

namespace mosaic::test {

// The paths that were synced, in their order, each as it was then.
inline std::vector<std::string>& synced() {
    static std::vector<std::string> paths;
    return paths;
}

inline bool was_synced(const std::string& path) {
    return std::find(synced().begin(), synced().end(), path) != synced().end();
}

}  // namespace mosaic::test

extern "C" int fsync(int fd) {
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    std::array<char, 4096> path{};
    const ssize_t n = ::readlink(link.c_str(), path.data(), path.size());
    if (n > 0) {
        mosaic::test::synced().emplace_back(path.data(), static_cast<size_t>(n));
    }
    return static_cast<int>(::syscall(SYS_fsync, fd));
}
