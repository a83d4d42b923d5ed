// Goal: each time falls into the first bucket whose bound isn't below it. Method: every bound and
// its neighbours.

#include "metrics/histogram.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

using namespace mosaic;
using metrics::Counter;
using metrics::Histogram;

namespace {

// The one bucket that a time falls into.
size_t bucket_of(Duration time) {
    Histogram histogram;
    histogram.observe(time);
    const auto buckets = histogram.buckets();
    CHECK(std::accumulate(buckets.begin(), buckets.end(), uint64_t{0}) == 1);
    return static_cast<size_t>(std::find(buckets.begin(), buckets.end(), 1) - buckets.begin());
}

}  // namespace

TEST_CASE("a counter adds one, or what it is told") {
    Counter counter;
    counter.add();
    counter.add(41);
    CHECK(counter.value == 42);
}

TEST_CASE("the bounds of a histogram ascend") {
    CHECK(std::adjacent_find(
              Histogram::kBoundsUs.begin(), Histogram::kBoundsUs.end(), [](int64_t a, int64_t b) {
                  return a >= b;
              }) == Histogram::kBoundsUs.end());
}

TEST_CASE("a time counts in the bucket of the first bound that it doesn't pass") {
    for (size_t i = 0; i < Histogram::kBoundsUs.size(); ++i) {
        const int64_t bound_ns = Histogram::kBoundsUs[i] * 1000;
        CAPTURE(bound_ns);
        CHECK(bucket_of(Duration{bound_ns - 1}) == i);
        CHECK(bucket_of(Duration{bound_ns}) == i);
        CHECK(bucket_of(Duration{bound_ns + 1}) == i + 1);
    }
    CHECK(bucket_of(Duration{0}) == 0);
    CHECK(bucket_of(seconds(1'000'000)) == Histogram::kBuckets - 1);
}

TEST_CASE("a time below zero counts as none") {
    Histogram histogram;
    histogram.observe(Duration{-5});
    histogram.observe(milliseconds(2));
    CHECK(histogram.count() == 2);
    CHECK(histogram.sum() == milliseconds(2));
    CHECK(histogram.buckets()[0] == 1);
}

TEST_CASE("merging adds bucket by bucket") {
    Histogram a;
    Histogram b;
    Histogram both;
    for (const int64_t ms : {1, 2, 40, 90'000}) {
        (ms % 2 == 0 ? a : b).observe(milliseconds(ms));
        both.observe(milliseconds(ms));
    }
    a.merge(b);
    CHECK(a == both);
}
