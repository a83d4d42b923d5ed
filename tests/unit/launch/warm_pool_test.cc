// Goal: each instance gets the warm seats that it shall have, one that can't be made is tried again
// with growing pauses, and a person hears of it once.

#include "launch/warm_pool.h"

#include <doctest/doctest.h>

using namespace mosaic;
using namespace mosaic::launch;

namespace {

constexpr Instant kStart{1'000'000'000};

Instant after(Duration time) {
    return kStart + time;
}

}  // namespace

TEST_CASE("the instance that has fewest is next until all have what they shall") {
    WarmPool pool;
    CHECK_FALSE(pool.next(kStart));
    pool.want({{"coder", 2}, {"pm", 1}, {"tester", 0}});
    CHECK(pool.wanted("coder") == 2);
    CHECK(pool.wanted("tester") == 0);
    CHECK(pool.wanted("nobody") == 0);
    CHECK(pool.next(kStart) == "coder");
    pool.begun("coder");
    CHECK(pool.next(kStart) == "pm");
    pool.begun("pm");
    CHECK(pool.next(kStart) == "coder");
    pool.begun("coder");
    CHECK_FALSE(pool.next(kStart));
    CHECK_FALSE(pool.next_at());
    pool.taken("pm");
    CHECK(pool.next(kStart) == "pm");
    pool.begun("pm");
    pool.discarded("coder");
    CHECK(pool.next(kStart) == "coder");
}

TEST_CASE("one that fails is tried again after a pause that doubles") {
    WarmPool pool;
    pool.want({{"coder", 1}});
    Instant now = kStart;
    for (const int64_t pause : {1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}) {
        CAPTURE(pause);
        REQUIRE(pool.next(now) == "coder");
        pool.begun("coder");
        CHECK(pool.failed("coder", now, seconds(0)) == (pause == 1));
        CHECK_FALSE(pool.next(now));
        REQUIRE(pool.next_at());
        CHECK(*pool.next_at() == now + seconds(pause));
        now = now + seconds(pause);
    }
    // Its seat works: the row is over.
    pool.begun("coder");
    pool.taken("coder");
    CHECK(pool.next(now) == "coder");
    CHECK(pool.not_begun("coder", now));
    CHECK(*pool.next_at() == now + seconds(1));
    CHECK_FALSE(pool.not_begun("coder", now + seconds(1)));
}

TEST_CASE("seats that end together are one failure") {
    WarmPool pool;
    pool.want({{"coder", 3}});
    for (int i = 0; i < 3; ++i) {
        pool.begun("coder");
    }
    CHECK(pool.failed("coder", kStart, seconds(0)));
    CHECK_FALSE(pool.failed("coder", kStart, seconds(0)));
    CHECK_FALSE(pool.failed("coder", after(milliseconds(5)), seconds(0)));
    CHECK(pool.next(after(seconds(1))) == "coder");
}

TEST_CASE("one that has waited long begins a new row") {
    WarmPool pool;
    pool.want({{"coder", 1}});
    pool.begun("coder");
    CHECK(pool.failed("coder", kStart, seconds(0)));
    pool.begun("coder");
    CHECK_FALSE(pool.failed("coder", after(seconds(1)), seconds(0)));
    pool.begun("coder");
    CHECK(pool.failed("coder", after(seconds(90)), kWarmSteady));
    CHECK(*pool.next_at() == after(seconds(91)));
}

TEST_CASE("another configuration tries at once what failed, and lets the rest run out") {
    WarmPool pool;
    pool.want({{"coder", 1}, {"pm", 1}});
    pool.begun("pm");
    CHECK(pool.not_begun("coder", kStart));
    pool.want({{"coder", 1}});
    CHECK(pool.next(kStart) == "coder");
    pool.discarded("pm");
    CHECK(pool.wanted("pm") == 0);
    pool.begun("coder");
    CHECK_FALSE(pool.next(kStart));
}

TEST_CASE("a seat is planned in a turn without answers and at last in any") {
    WarmTurn turn;
    CHECK_FALSE(turn.put_off(false));
    CHECK(turn.put_off(true));
    CHECK_FALSE(turn.put_off(false));
    for (int round = 0; round < 2; ++round) {
        CAPTURE(round);
        uint32_t turns = 0;
        while (turn.put_off(true)) {
            ++turns;
        }
        CHECK(turns == WarmTurn::kPutOffMax);
    }
}
