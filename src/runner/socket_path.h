#pragma once

#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace mosaic::runner {

// A socket file held by an O_PATH descriptor. Connecting goes through /proc/self/fd, to the very
// file that was there when it was taken: a session that rebuilds the path with a socket of its own
// gets no connection, and the path's length doesn't matter.
class SocketPath {
  public:
    explicit SocketPath(std::string path) : path_(std::move(path)) {}

    // Takes the descriptor unless it is held already. To be called before any turn runs.
    [[nodiscard]] Result<void> take();

    [[nodiscard]] const std::string& path() const { return path_; }

    // A connected, non-blocking stream. Code::unavailable when nobody listens, and with EAGAIN as
    // `sys` when the queue is full.
    [[nodiscard]] Result<UniqueFd> connect() const;

  private:
    std::string path_;
    UniqueFd handle_;
};

// connect(2) to a path of at most 107 bytes: a non-blocking stream, at once or not at all.
[[nodiscard]] Result<UniqueFd> connect_to(const std::string& path);

// The same for programs without a loop: a blocking stream, after a wait for room in the queue.
[[nodiscard]] Result<UniqueFd> connect_blocking(const std::string& path);

// A listening, non-blocking socket `name` (mode 0600) in an open directory; a file of that name is
// removed first.
[[nodiscard]] Result<UniqueFd> listen_in(int directory, const std::string& name, int backlog);

}  // namespace mosaic::runner
