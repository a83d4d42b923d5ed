// Goal: a launch is counted as a whole and by its stages, in whatever order these came.

#include "host/counts.h"

#include <doctest/doctest.h>

using namespace mosaic;
using namespace mosaic::host;

namespace {

std::array<Instant, kStages> at_ms(std::array<int64_t, kStages> ms) {
    std::array<Instant, kStages> out{};
    for (size_t i = 0; i < kStages; ++i) {
        out[i] = Instant{seconds(100).ns} + milliseconds(ms[i]);
    }
    return out;
}

int64_t ms_of(const Counts& counts, Stage stage) {
    return counts.stages[static_cast<size_t>(stage)].sum().ns / 1'000'000;
}

}  // namespace

TEST_CASE("each stage took what passed since the latest one before it") {
    Counts counts;
    // Persisted before it was bound, as it may be.
    counts.launch(Instant{seconds(100).ns}, at_ms({1, 3, 6, 10, 20, 15, 21, 40}), false);
    CHECK(ms_of(counts, Stage::checked) == 1);
    CHECK(ms_of(counts, Stage::authorized) == 2);
    CHECK(ms_of(counts, Stage::prepared) == 3);
    CHECK(ms_of(counts, Stage::spawned) == 4);
    CHECK(ms_of(counts, Stage::bound) == 10);
    CHECK(ms_of(counts, Stage::persisted) == 0);
    CHECK(ms_of(counts, Stage::delivered) == 1);
    CHECK(ms_of(counts, Stage::claimed) == 19);
    int64_t all = 0;
    for (size_t i = 0; i < kStages; ++i) {
        CHECK(counts.stages[i].count() == 1);
        all += ms_of(counts, static_cast<Stage>(i));
    }
    CHECK(all == 40);
    CHECK(counts.cold.sum() == milliseconds(40));
    CHECK(counts.warm.count() == 0);
}

TEST_CASE("what a warm seat had reached before it was asked for took no time") {
    Counts counts;
    counts.launch(Instant{seconds(100).ns}, at_ms({1, 2, -500, -400, 3, -300, 4, 5}), true);
    CHECK(ms_of(counts, Stage::prepared) == 0);
    CHECK(ms_of(counts, Stage::bound) == 1);
    CHECK(counts.warm.sum() == milliseconds(5));
    CHECK(counts.cold.count() == 0);
}

TEST_CASE("refusals and ends are counted by their code") {
    Counts counts;
    counts.refuse(Refusal::launch_failed);
    counts.refuse(Refusal::launch_failed);
    counts.end(EndReason::host_lost);
    CHECK(counts.refused[static_cast<size_t>(Refusal::launch_failed)].value == 2);
    CHECK(counts.ended[static_cast<size_t>(EndReason::host_lost)].value == 1);
}
