#pragma once

#include <poll.h>

#include <optional>
#include <vector>

#include "base/instant.h"

namespace mosaic::runner {

// What one round of the loop waits for. Each part adds its descriptors, and asks afterwards what
// happened to them. There are at most a few dozen, so a look-up is a walk.
class PollSet {
  public:
    void clear() { polls_.clear(); }

    // A negative descriptor is left out.
    void add(int fd, short events) {
        if (fd >= 0) {
            polls_.push_back(pollfd{fd, events, 0});
        }
    }

    // What poll(2) said of the descriptor in this round; 0 when it wasn't asked for.
    [[nodiscard]] short ready(int fd) const {
        for (const pollfd& one : polls_) {
            if (one.fd == fd) {
                return one.revents;
            }
        }
        return 0;
    }

    // Waits until something is ready or `until` has come; none: as long as it takes. After an error
    // (only EINTR and ENOMEM can occur) nothing counts as ready.
    void wait(std::optional<Instant> until);

  private:
    std::vector<pollfd> polls_;
};

// The earlier of two deadlines, where none is later than any.
[[nodiscard]] std::optional<Instant> earlier(std::optional<Instant> a, std::optional<Instant> b);

}  // namespace mosaic::runner
