#include "reactor/timers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace mosaic;
using namespace mosaic::reactor;

namespace {

Timer at(int64_t ns, uint32_t owner = 0) {
    return Timer{Instant{ns}, 0, owner, 0};
}

std::vector<uint32_t> owners_due(TimerQueue& queue, Instant now) {
    std::vector<uint32_t> owners;
    while (const std::optional<Timer> due = queue.take_due(now)) {
        owners.push_back(due->owner);
    }
    return owners;
}

}  // namespace

TEST_CASE("an empty queue has no deadline and nothing due") {
    TimerQueue queue;
    CHECK_FALSE(queue.next().has_value());
    CHECK_FALSE(queue.take_due(Instant{INT64_MAX}).has_value());
    CHECK(queue.size() == 0);
}

TEST_CASE("a timer is due at its deadline and not a nanosecond before") {
    TimerQueue queue;
    queue.set(Timer{Instant{100}, 7, 8, 9});
    CHECK(queue.next() == Instant{100});
    CHECK_FALSE(queue.take_due(Instant{99}).has_value());
    const std::optional<Timer> due = queue.take_due(Instant{100});
    REQUIRE(due.has_value());
    CHECK(due->deadline == Instant{100});
    CHECK(due->kind == 7);
    CHECK(due->owner == 8);
    CHECK(due->generation == 9);
    CHECK(queue.size() == 0);
}

TEST_CASE("timers fire nearest first, whatever order they were set in") {
    std::vector<uint32_t> order = {1, 2, 3, 4, 5};
    do {
        TimerQueue queue;
        for (const uint32_t n : order) {
            queue.set(at(static_cast<int64_t>(n) * 10, n));
        }
        CHECK(queue.next() == Instant{10});
        CHECK(owners_due(queue, Instant{30}) == std::vector<uint32_t>{1, 2, 3});
        CHECK(queue.next() == Instant{40});
        CHECK(owners_due(queue, Instant{1000}) == std::vector<uint32_t>{4, 5});
    } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("equal deadlines fire in the order they were set") {
    TimerQueue queue;
    std::vector<uint32_t> expected;
    for (uint32_t n = 0; n < 100; ++n) {
        queue.set(at(5, n));
        expected.push_back(n);
    }
    CHECK(owners_due(queue, Instant{5}) == expected);
}

TEST_CASE("a superseded timer still fires and is told apart by its generation") {
    TimerQueue queue;
    queue.set(Timer{Instant{10}, 1, 4, 1});
    queue.set(Timer{Instant{20}, 1, 4, 2});
    CHECK(queue.take_due(Instant{30})->generation == 1);
    CHECK(queue.take_due(Instant{30})->generation == 2);
}

TEST_CASE("timers that count no more are dropped up to the first that does") {
    TimerQueue queue;
    queue.set(at(40, 4));
    for (const int64_t n : {10, 20, 30, 50}) {
        queue.set(at(n));
    }
    const auto counts = [](const Timer& timer) { return timer.owner != 0; };
    queue.drop_until(counts);
    CHECK(queue.next() == Instant{40});
    CHECK(queue.size() == 2);
    CHECK(owners_due(queue, Instant{40}) == std::vector<uint32_t>{4});
    queue.drop_until(counts);
    CHECK_FALSE(queue.next().has_value());
    queue.drop_until(counts);
    CHECK(queue.size() == 0);
}

TEST_CASE("extending moves every deadline and keeps the order") {
    TimerQueue queue;
    queue.set(at(30, 3));
    queue.set(at(10, 1));
    queue.set(at(10, 2));
    queue.extend_all(Duration{100});
    CHECK(queue.next() == Instant{110});
    CHECK_FALSE(queue.take_due(Instant{109}).has_value());
    CHECK(owners_due(queue, Instant{130}) == std::vector<uint32_t>{1, 2, 3});
}

TEST_CASE("extending past the end of time stays there, in the order of setting") {
    TimerQueue queue;
    queue.set(at(INT64_MAX, 1));
    queue.set(at(INT64_MAX - 5, 2));
    queue.set(at(0, 3));
    queue.extend_all(Duration{10});
    CHECK(owners_due(queue, Instant{10}) == std::vector<uint32_t>{3});
    CHECK(owners_due(queue, Instant{INT64_MAX}) == std::vector<uint32_t>{1, 2});
}
