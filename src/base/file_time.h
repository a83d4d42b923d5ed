#pragma once

#include <algorithm>
#include <cstdint>

namespace mosaic {

// A file's time in nanoseconds since the epoch, brought within the years 1970 to 2261: its owner
// sets what he likes (utimensat(2)), also what these can't hold.
[[nodiscard]] constexpr int64_t file_time_ns(int64_t seconds, int64_t nanoseconds) {
    constexpr int64_t kNsPerSecond = 1'000'000'000;
    return std::clamp<int64_t>(seconds, 0, INT64_MAX / kNsPerSecond - 1) * kNsPerSecond +
           nanoseconds;
}

}  // namespace mosaic
