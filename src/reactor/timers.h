#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/instant.h"

namespace mosaic::reactor {

// Deadlines, nearest first, for one loop. Pure: time comes in. A timer belongs to (kind, owner) and
// carries a generation that the owner compares, so that a timer which was superseded is recognised
// when it fires. Equal deadlines fire in the order they were set.
struct Timer {
    Instant deadline;
    uint16_t kind = 0;
    uint32_t owner = 0;
    uint32_t generation = 0;
};

class TimerQueue {
  public:
    void set(const Timer& timer);

    // The nearest deadline, nothing when there is no timer.
    [[nodiscard]] std::optional<Instant> next() const;

    // Takes one timer that is due at `now`, nothing when none is.
    [[nodiscard]] std::optional<Timer> take_due(Instant now);

    // Drops timers from the nearest on, up to the first for which `counts` is true: nobody needs to
    // be woken for one that was superseded.
    template <class Counts>
    void drop_until(const Counts& counts) {
        while (!heap_.empty() && !counts(heap_.front().timer)) {
            take_front();
        }
    }

    // Moves every deadline by `delay`, which is not negative: after the process was stopped or the
    // machine suspended, nobody had a chance to meet them.
    void extend_all(Duration delay);

    [[nodiscard]] size_t size() const { return heap_.size(); }

  private:
    struct Entry {
        Timer timer;
        uint64_t sequence = 0;
    };

    static bool later(const Entry& a, const Entry& b);
    Timer take_front();

    std::vector<Entry> heap_;
    uint64_t sequence_ = 0;
};

}  // namespace mosaic::reactor
