// Who may set up, and when.

#include "launch/setup_queue.h"

#include <doctest/doctest.h>

#include <vector>

using mosaic::launch::SetupQueue;

namespace {

bool all_wait(int /*launch*/) {
    return true;
}

std::vector<int> grant_all(SetupQueue<int>& queue) {
    std::vector<int> out;
    while (const auto next = queue.grant(all_wait)) {
        out.push_back(*next);
    }
    return out;
}

}  // namespace

TEST_CASE("what nobody waits for gets a turn only when no launch wants it") {
    SetupQueue<int> queue(1);
    const auto all = [](int) { return true; };
    const auto none = [](int) { return false; };
    queue.enter(1);
    CHECK_FALSE(queue.grant_spare(all));
    // One that gave up waiting is in nobody's way.
    CHECK(queue.grant_spare(none));
    CHECK(queue.taken() == 1);
    CHECK_FALSE(queue.grant_spare(none));
    queue.enter(2);
    CHECK_FALSE(queue.grant(all));
    queue.set_most(2);
    CHECK(queue.grant(all) == 2);
    queue.give_back();
    CHECK(queue.grant_spare(all));
    queue.set_most(1);
    queue.give_back();
    CHECK_FALSE(queue.grant_spare(all));
    queue.give_back();
    CHECK(queue.grant_spare(all));
}

TEST_CASE("turns are granted in order and never more than the limit") {
    SetupQueue<int> queue(2);
    for (const int launch : {1, 2, 3, 4}) {
        queue.enter(launch);
    }
    CHECK(grant_all(queue) == std::vector<int>{1, 2});
    CHECK(queue.taken() == 2);
    queue.give_back();
    CHECK(grant_all(queue) == std::vector<int>{3});
    queue.give_back();
    queue.give_back();
    CHECK(grant_all(queue) == std::vector<int>{4});
    CHECK(queue.taken() == 1);
}

TEST_CASE("a launch that gave up is passed over and costs no turn") {
    SetupQueue<int> queue(1);
    queue.enter(1);
    queue.enter(2);
    const auto next = queue.grant([](int launch) { return launch != 1; });
    REQUIRE(next);
    CHECK(*next == 2);
    CHECK(queue.taken() == 1);
    queue.give_back();
    CHECK(grant_all(queue).empty());
    CHECK(queue.taken() == 0);
}
