#include "launch/deadlines.h"

#include <doctest/doctest.h>

using namespace mosaic;
using namespace mosaic::launch;

namespace {

constexpr Times kTimes{60'000, 5'000, 10'000, 7'000};
constexpr Duration kNone{};

}  // namespace

TEST_CASE("each phase that waits has the time that the configuration gives it") {
    CHECK(time_for(Phase::authorizing, kTimes, kNone) == kBrokerTakes);
    CHECK(time_for(Phase::queued, kTimes, kNone) == seconds(60));
    CHECK(time_for(Phase::spawning, kTimes, kNone) == seconds(5));
    CHECK(time_for(Phase::stopping, kTimes, kNone) == seconds(7));
    CHECK(time_for(Phase::killing, kTimes, kNone) == kKillTakes);
}

TEST_CASE("the time to the claim counts from the spawn") {
    CHECK(time_for(Phase::binding, kTimes, seconds(3)) == seconds(7));
    CHECK(time_for(Phase::binding, kTimes, seconds(30)) == kNone);
    CHECK(time_for(Phase::persisting, kTimes, seconds(3)) == seconds(7));
}

TEST_CASE("a late tick gives back all the time since the last one") {
    const Instant last{1'000};
    const Instant nearest = last + seconds(6);
    CHECK(time_away(last, nearest, nearest + kLateTick) == Duration{});
    CHECK(time_away(last, nearest, last + seconds(7)) == seconds(7));
    // Nobody waited for anything.
    CHECK(time_away(last, Instant{INT64_MAX}, last + seconds(7)) == Duration{});
}
