#include "host/disk_watch.h"

#include <doctest/doctest.h>

using namespace mosaic;
using host::DiskWatch;
using host::parse_disk_lines;

TEST_CASE("a measuring child's lines are read and anything else is passed over") {
    const auto lines = parse_disk_lines(
        "r0123456789ab 4096 0\n"
        "run rffffffffffff: Permission denied\n"
        "r0123456789ab x 0\nr0123456789ab 1\nr0123456789 1 1\n\n \n"
        "raaaaaaaaaaaa 18446744073709551615 3\n"
        "rbbbbbbbbbbbb 18446744073709551616 3\n"
        "rcccccccccccc 70");
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].run == "r0123456789ab");
    CHECK(lines[0].bytes == 4096);
    CHECK(lines[0].unread == 0);
    CHECK(lines[1].run == "raaaaaaaaaaaa");
    CHECK(lines[1].bytes == UINT64_MAX);
    CHECK(lines[1].unread == 3);
}

TEST_CASE("each look begins with another run") {
    using Runs = std::vector<std::string>;
    CHECK(host::in_turn({"a", "b", "c"}, 0) == Runs{"a", "b", "c"});
    CHECK(host::in_turn({"a", "b", "c"}, 1) == Runs{"b", "c", "a"});
    CHECK(host::in_turn({"a", "b", "c"}, 5) == Runs{"c", "a", "b"});
    CHECK(host::in_turn({}, 5).empty());
}

TEST_CASE("no timer runs without a live session") {
    host::Loop loop;
    host::Children children(loop);
    config::Limits limits;
    limits.disk_check_seconds = 7;
    DiskWatch watch(loop, children, limits, -1);
    CHECK_FALSE(loop.timers.next().has_value());
    watch.wake();
    watch.wake();
    REQUIRE(loop.timers.next().has_value());
    CHECK(*loop.timers.next() == loop.now + seconds(7));
    CHECK(loop.timers.take_due(loop.now + seconds(7)).has_value());
    // The session has ended meanwhile.
    watch.on_timer({});
    CHECK_FALSE(loop.timers.next().has_value());
    CHECK_FALSE(watch.take_over().has_value());
    // The next one wakes it again, unless the host stops.
    watch.wake();
    CHECK(loop.timers.take_due(loop.now + seconds(7)).has_value());
    watch.stop();
    watch.on_timer({"r0123456789ab"});
    watch.wake();
    CHECK_FALSE(loop.timers.next().has_value());
}
