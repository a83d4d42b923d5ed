#include "bench/statistics.h"

#include <algorithm>
#include <cstddef>

namespace mosaic::bench {
namespace {

int64_t ranked(const std::vector<int64_t>& sorted, int percent) {
    if (sorted.empty()) {
        return 0;
    }
    const size_t rank = (sorted.size() * static_cast<size_t>(percent) + 99) / 100;
    return sorted[std::max<size_t>(rank, 1) - 1];
}

}  // namespace

int64_t percentile(std::vector<int64_t> values, int percent) {
    std::sort(values.begin(), values.end());
    return ranked(values, percent);
}

Summary summarize(std::vector<int64_t> values) {
    std::sort(values.begin(), values.end());
    return {static_cast<int64_t>(values.size()),
            ranked(values, 10),
            ranked(values, 50),
            ranked(values, 90),
            ranked(values, 99)};
}

double ratio(int64_t a, int64_t b) {
    return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
}

int64_t wakeups_between(const std::map<std::string, int64_t>& before,
                        const std::map<std::string, int64_t>& after) {
    int64_t out = 0;
    for (const auto& [thread, sleeps] : after) {
        const auto earlier = before.find(thread);
        out += sleeps - (earlier == before.end() ? 0 : earlier->second);
    }
    for (const auto& [thread, sleeps] : before) {
        out += after.contains(thread) ? 0 : 1;
    }
    return out;
}

}  // namespace mosaic::bench
