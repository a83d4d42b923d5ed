#include "metrics/histogram.h"

#include <algorithm>

namespace mosaic::metrics {

void Histogram::observe(Duration time) {
    const int64_t ns = std::max<int64_t>(time.ns, 0);
    // A bound is inclusive, so what is a fraction of a microsecond past it counts in the next.
    const int64_t us = ns / 1000 + (ns % 1000 != 0 ? 1 : 0);
    const auto* const bound = std::lower_bound(kBoundsUs.begin(), kBoundsUs.end(), us);
    ++buckets_[static_cast<size_t>(bound - kBoundsUs.begin())];
    ++count_;
    sum_.ns += ns;
}

void Histogram::merge(const Histogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) {
        buckets_[i] += other.buckets_[i];
    }
    count_ += other.count_;
    sum_.ns += other.sum_.ns;
}

}  // namespace mosaic::metrics
