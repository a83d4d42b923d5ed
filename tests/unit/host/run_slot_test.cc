#include "host/run_slot.h"

#include <doctest/doctest.h>

using namespace mosaic;
using host::RunSlot;
using host::SlotRef;

TEST_CASE("a fresh slot holds nothing and waits for nothing") {
    const RunSlot slot;
    CHECK_FALSE(slot.in_use);
    CHECK(slot.quiescent());
    CHECK(slot.state == launch::RunState{});
    CHECK_FALSE(slot.found);
    CHECK_FALSE(slot.reaped);
    // Without a status pipe there is no end of it to wait for.
    CHECK(slot.status_over);
    // No hash: no capability acts for it.
    CHECK(slot.capability_hash.empty());
    CHECK(slot.capability_line.empty());
    CHECK_FALSE(slot.child.has_value());
    CHECK_FALSE(slot.outer_pidfd.valid());
    CHECK_FALSE(slot.runner_pidfd.valid());
}

TEST_CASE("a slot that was used again is another one") {
    CHECK(SlotRef{3, 1} == SlotRef{3, 1});
    CHECK_FALSE(SlotRef{3, 1} == SlotRef{3, 2});
    CHECK_FALSE(SlotRef{3, 1} == SlotRef{4, 1});
    // One that names no slot matches no slot's first life.
    CHECK_FALSE(SlotRef{} == SlotRef{0, 0});
}
