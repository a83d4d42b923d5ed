// Who is told of which version of sessions.json.

#include "registry/entries.h"

#include <doctest/doctest.h>

using mosaic::registry::Entries;

TEST_CASE("changes are told in their order once a version that holds them is durable") {
    Entries<int> entries;
    CHECK(entries.add("r1", "{1}", 10) == 1);
    CHECK(entries.remove("r1", 11) == 2);
    CHECK(entries.add("r2", "{2}", 12) == 3);
    const auto done = entries.take_durable(2);
    REQUIRE(done.size() == 2);
    CHECK(done[0].adding);
    CHECK(done[0].waiter == 10);
    CHECK(!done[1].adding);
    CHECK(done[1].waiter == 11);
    CHECK(entries.waiting());
    CHECK(entries.take_durable(3).size() == 1);
    CHECK(!entries.waiting());
}

TEST_CASE("a failed version fails its additions and its removals wait on") {
    Entries<int> entries;
    CHECK(entries.add("r1", "{1}", 1) == 1);
    CHECK(entries.remove("r0", 2) == 2);
    CHECK(entries.add("r2", "{2}", 3) == 3);
    const auto failed = entries.take_failed(2);
    REQUIRE(failed.size() == 1);
    CHECK(failed[0].waiter == 1);
    const auto done = entries.take_durable(3);
    REQUIRE(done.size() == 2);
    CHECK(done[0].waiter == 2);
    CHECK(done[1].waiter == 3);
}

TEST_CASE("the image has every entry that was adopted or added and not removed") {
    Entries<int> entries;
    entries.adopt("r0", "{0}");
    CHECK(entries.add("r1", "{1}", 1) == 1);
    CHECK(entries.remove("r0", 2) == 2);
    CHECK(entries.size() == 1);
    const std::string image = entries.image("b");
    CHECK(image == "{\"sessionsVersion\":1,\"bootId\":\"b\",\"sessions\":[{1}]}\n");
}

TEST_CASE("the image is of the boot of what was adopted until that is gone") {
    Entries<int> entries;
    entries.adopt("r0", "{0}", "earlier");
    CHECK(entries.add("r1", "{1}", 1) == 1);
    CHECK(entries.image("now").find("\"bootId\":\"earlier\"") != std::string::npos);
    CHECK(entries.remove("r0", 2) == 2);
    CHECK(entries.image("now").find("\"bootId\":\"now\"") != std::string::npos);
}

TEST_CASE("an entry whose addition failed stays in the image") {
    Entries<int> entries;
    const uint64_t version = entries.add("r1", "{1}", 1);
    CHECK(entries.take_failed(version).size() == 1);
    CHECK(entries.image("b").find("{1}") != std::string::npos);
}
