#pragma once

#include <poll.h>

#include <vector>

#include "base/error.h"
#include "base/instant.h"
#include "base/unique_fd.h"

namespace mosaic::bench {

// poll(2) that also sees SIGINT and SIGTERM, so that an interrupted run ends what it started. One a
// program: it blocks both signals for the process (spawned children get an empty mask).
class Waiter {
  public:
    [[nodiscard]] static Result<Waiter> make();

    // Waits until one of `polls` is ready and fills their revents. Code::unavailable when
    // `deadline` passes first, Code::held when a signal came; `what` says in the error what was
    // waited for.
    [[nodiscard]] Result<void> wait(std::vector<pollfd>& polls, Instant deadline, const char* what);

    // After an interruption: waits again as if none had come.
    void forget_signal();

  private:
    UniqueFd signals_;
};

}  // namespace mosaic::bench
