#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/instant.h"

namespace mosaic::metrics {

// Only ever grows, from 0 at the start of its process.
struct Counter {
    uint64_t value = 0;

    void add(uint64_t by = 1) { value += by; }

    bool operator==(const Counter&) const = default;
};

// How long things took. The bounds are the same for all: close together where launches and commits
// lie, up to the longest that anything may take here.
class Histogram {
  public:
    // Upper bounds, inclusive, in microseconds, ascending. What is longer than the last counts in
    // one more bucket, whose bound is infinity.
    static constexpr std::array<int64_t, 26> kBoundsUs = {
        50,        100,       200,        500,        1'000,     2'000,   3'000,
        5'000,     7'500,     10'000,     15'000,     20'000,    30'000,  50'000,
        75'000,    100'000,   150'000,    200'000,    300'000,   500'000, 1'000'000,
        2'000'000, 5'000'000, 10'000'000, 30'000'000, 60'000'000};
    static constexpr size_t kBuckets = kBoundsUs.size() + 1;

    // A time below zero counts as none: a stage that was reached before its launch took no time.
    void observe(Duration time);
    void merge(const Histogram& other);

    [[nodiscard]] uint64_t count() const { return count_; }

    [[nodiscard]] Duration sum() const { return sum_; }

    // How many fell into each bucket alone; the last has no bound.
    [[nodiscard]] std::span<const uint64_t, kBuckets> buckets() const { return buckets_; }

    bool operator==(const Histogram&) const = default;

  private:
    std::array<uint64_t, kBuckets> buckets_{};
    uint64_t count_ = 0;
    Duration sum_;
};

}  // namespace mosaic::metrics
