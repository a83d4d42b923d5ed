#include "process/write_all.h"

#include <unistd.h>

#include <cerrno>

namespace mosaic::process {

Result<void> write_all(int fd, std::string_view bytes, std::string_view what) {
    while (!bytes.empty()) {
        const ssize_t put = ::write(fd, bytes.data(), bytes.size());
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            return fail_sys(errno, what);
        }
        bytes.remove_prefix(static_cast<size_t>(put));
    }
    return {};
}

}  // namespace mosaic::process
