#pragma once

#include <sys/epoll.h>
#include <sys/poll.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

// Which descriptors the loop waits for. epoll(7) watches them; those that it doesn't take because
// its user has no watches left (fs.epoll.max_user_watches counts what all processes of a user
// watch, so that one session can use them up) are polled beside it, which costs time for each and
// works as well. Level-triggered either way.

namespace mosaic::broker {

class Watches {
  public:
    [[nodiscard]] Result<void> open();

    // `known`: it is watched already, perhaps for other events. Hang-ups and errors are always
    // told.
    [[nodiscard]] Result<void> set(int fd, uint64_t token, uint32_t events, bool known);

    // Before a descriptor that is watched is closed.
    void remove(int fd);

    // Waits until something is ready, at most that long (-1: without an end), and tells at most
    // `out.size()` (2 or more), each descriptor once. 0 when a signal or the time came first. With
    // many ready none is left out for ever.
    [[nodiscard]] Result<size_t> wait(int timeout_ms, std::span<epoll_event> out);

    // How many are polled now.
    [[nodiscard]] size_t polled() const { return polled_.size(); }

  private:
    struct Polled {
        int fd = -1;
        uint64_t token = 0;
        uint32_t events = 0;
    };

    UniqueFd epoll_;
    std::vector<Polled> polled_;
    std::vector<pollfd> asked_;
    size_t first_ = 0;  // whose turn it is to be told first
};

}  // namespace mosaic::broker
