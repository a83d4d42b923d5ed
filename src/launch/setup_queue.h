#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/assert.h"

namespace mosaic::launch {

// Launches set up in the order they were allowed, at most `most` at once. Pure: who grants a turn
// keeps, with the launch, that it has one, and gives each back exactly once.
//
// `Ref` names a launch and is cheap to copy. One that gave up waiting may stay in the queue: it is
// passed over when its place comes.
template <class Ref>
class SetupQueue {
  public:
    explicit SetupQueue(int64_t most) : most_(most) {}

    void enter(const Ref& launch) { queue_.push_back(launch); }

    // The next launch that may set up now, nothing when none may. `still_waits(ref)` says whether
    // it wants its turn.
    template <class StillWaits>
    [[nodiscard]] std::optional<Ref> grant(const StillWaits& still_waits) {
        while (taken_ < most_ && !queue_.empty()) {
            const Ref next = queue_.front();
            queue_.pop_front();
            if (still_waits(next)) {
                ++taken_;
                return next;
            }
        }
        return std::nullopt;
    }

    // A turn for what no launch waits for: only when one is free and no launch wants it.
    template <class StillWaits>
    [[nodiscard]] bool grant_spare(const StillWaits& still_waits) {
        while (!queue_.empty() && !still_waits(queue_.front())) {
            queue_.pop_front();
        }
        if (taken_ >= most_ || !queue_.empty()) {
            return false;
        }
        ++taken_;
        return true;
    }

    // Counts from the next grant on; turns that are out stay out.
    void set_most(int64_t most) { most_ = most; }

    void give_back() {
        MOSAIC_ASSERT(taken_ > 0);
        --taken_;
    }

    // Turns that are out.
    [[nodiscard]] int64_t taken() const { return taken_; }

  private:
    int64_t most_;
    int64_t taken_ = 0;
    std::deque<Ref> queue_;
};

}  // namespace mosaic::launch
