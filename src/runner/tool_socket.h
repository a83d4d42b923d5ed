#pragma once

#include "base/error.h"
#include "base/unique_fd.h"

// tools.sock from the side of a turn's programs. They find the session by MOSAIC_RUN_DIR and reach
// the socket by a relative path, because a run directory may lie too deep for a socket's address.

namespace mosaic::runner {

// Makes rw/io of the session the working directory. Once, before the connects.
[[nodiscard]] Result<void> enter_tool_directory();

// A blocking stream; waits in the queue when the session has as many clients as it takes.
[[nodiscard]] Result<UniqueFd> connect_tool_socket();

// A non-blocking stream at once; the error's errno is EAGAIN when the queue is full.
[[nodiscard]] Result<UniqueFd> try_tool_socket();

}  // namespace mosaic::runner
