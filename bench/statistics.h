#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

// Order statistics of a list of measurements, whatever their unit, and what else is made of
// figures. Pure.

namespace mosaic::bench {

// The value that `percent` of the values don't exceed (nearest rank: always one that was measured);
// 0 for an empty list. `percent` is in 1..100.
[[nodiscard]] int64_t percentile(std::vector<int64_t> values, int percent);

struct Summary {
    int64_t count = 0;
    int64_t p10 = 0;
    int64_t p50 = 0;
    int64_t p90 = 0;
    int64_t p99 = 0;
};

[[nodiscard]] Summary summarize(std::vector<int64_t> values);

// a / b, 0 where b is 0.
[[nodiscard]] double ratio(int64_t a, int64_t b);

// How often the threads of a process have been woken, by how often each had slept before and after.
// One that ended in between was woken for that.
[[nodiscard]] int64_t wakeups_between(const std::map<std::string, int64_t>& before,
                                      const std::map<std::string, int64_t>& after);

}  // namespace mosaic::bench
