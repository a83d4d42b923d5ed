#include "runner/poll_set.h"

#include <algorithm>

namespace mosaic::runner {

void PollSet::wait(std::optional<Instant> until) {
    int timeout_ms = -1;
    if (until) {
        constexpr int64_t kLongestMs = 3'600'000;
        const int64_t left_ns = std::max<int64_t>((*until - monotonic_now()).ns, 0);
        timeout_ms = static_cast<int>(std::min((left_ns + 999'999) / 1'000'000, kLongestMs));
    }
    if (::poll(polls_.data(), polls_.size(), timeout_ms) < 0) {
        for (pollfd& one : polls_) {
            one.revents = 0;
        }
    }
}

std::optional<Instant> earlier(std::optional<Instant> a, std::optional<Instant> b) {
    if (!a || !b) {
        return a ? a : b;
    }
    return std::min(*a, *b);
}

}  // namespace mosaic::runner
