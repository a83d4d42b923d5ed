#include "bench/statistics.h"

#include <doctest/doctest.h>

#include <numeric>

namespace mosaic::bench {

TEST_CASE("a percentile is the smallest measured value that so many don't exceed") {
    std::vector<int64_t> values(200);
    std::iota(values.rbegin(), values.rend(), 1);
    CHECK(percentile(values, 10) == 20);
    CHECK(percentile(values, 50) == 100);
    CHECK(percentile(values, 99) == 198);
    CHECK(percentile(values, 100) == 200);
}

TEST_CASE("few values are their own percentiles") {
    CHECK(percentile({}, 50) == 0);
    CHECK(percentile({7}, 1) == 7);
    CHECK(percentile({7}, 99) == 7);
    CHECK(percentile({9, 3}, 50) == 3);
    CHECK(percentile({9, 3}, 51) == 9);
    const Summary three = summarize({30, 10, 20});
    CHECK(three.count == 3);
    CHECK(three.p10 == 10);
    CHECK(three.p50 == 20);
    CHECK(three.p90 == 30);
    CHECK(three.p99 == 30);
}

TEST_CASE("a ratio to nothing is 0") {
    CHECK(ratio(3, 2) == doctest::Approx(1.5));
    CHECK(ratio(3, 0) == 0.0);
}

TEST_CASE("wake-ups are counted thread by thread, and one that ended was woken for that") {
    CHECK(wakeups_between({}, {}) == 0);
    CHECK(wakeups_between({{"7", 100}}, {{"7", 100}}) == 0);
    CHECK(wakeups_between({{"7", 100}, {"8", 5000}}, {{"7", 103}, {"9", 4}}) == 8);
}

}  // namespace mosaic::bench
