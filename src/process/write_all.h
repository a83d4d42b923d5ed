#pragma once

#include <string_view>

#include "base/error.h"

namespace mosaic::process {

// Writes all of `bytes` to `fd`, which stays the caller's: goes on after a short write and after a
// signal's EINTR, and blocks while a pipe or terminal is full, so nothing for a loop. The error is
// that of write(2), with `what` naming the file; part may have been written by then. A full
// descriptor with O_NONBLOCK is an error too (EAGAIN). SIGPIPE is the caller's to ignore or not.
[[nodiscard]] Result<void> write_all(int fd, std::string_view bytes, std::string_view what);

}  // namespace mosaic::process
