#include "reactor/timers.h"

#include <algorithm>

#include "base/assert.h"

namespace mosaic::reactor {

bool TimerQueue::later(const Entry& a, const Entry& b) {
    if (a.timer.deadline != b.timer.deadline) {
        return a.timer.deadline > b.timer.deadline;
    }
    return a.sequence > b.sequence;
}

void TimerQueue::set(const Timer& timer) {
    heap_.push_back(Entry{timer, sequence_});
    ++sequence_;
    std::push_heap(heap_.begin(), heap_.end(), later);
}

std::optional<Instant> TimerQueue::next() const {
    if (heap_.empty()) {
        return std::nullopt;
    }
    return heap_.front().timer.deadline;
}

std::optional<Timer> TimerQueue::take_due(Instant now) {
    if (heap_.empty() || heap_.front().timer.deadline > now) {
        return std::nullopt;
    }
    return take_front();
}

Timer TimerQueue::take_front() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Timer nearest = heap_.back().timer;
    heap_.pop_back();
    return nearest;
}

void TimerQueue::extend_all(Duration delay) {
    MOSAIC_ASSERT(delay.ns >= 0);
    // Two deadlines that both reach the end of time become equal and then fire in the order they
    // were set, so the heap has to be made anew.
    for (Entry& entry : heap_) {
        const bool fits = entry.timer.deadline.ns <= INT64_MAX - delay.ns;
        entry.timer.deadline = fits ? entry.timer.deadline + delay : Instant{INT64_MAX};
    }
    std::make_heap(heap_.begin(), heap_.end(), later);
}

}  // namespace mosaic::reactor
