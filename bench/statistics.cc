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

}  // namespace mosaic::bench
