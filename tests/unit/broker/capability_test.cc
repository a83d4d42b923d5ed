// Goal: a capability is long, new each time, and known by its hash alone.

#include "broker/capability.h"

#include <doctest/doctest.h>

#include <string>

using namespace mosaic::broker;

TEST_CASE("a capability has 256 bits as 64 hex digits and is never the same twice") {
    const auto first = mint_capability();
    const auto second = mint_capability();
    REQUIRE(first);
    REQUIRE(second);
    CHECK(first->reveal().size() == 64);
    CHECK(first->reveal().find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK(first->reveal() != second->reveal());
}

TEST_CASE("the hash is SHA-256") {
    CHECK(hash_capability("abc") ==
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("only the capability itself matches its hash, and nothing matches no hash") {
    const std::string hash = hash_capability("abc");
    CHECK(capability_matches("abc", hash));
    CHECK_FALSE(capability_matches("abd", hash));
    CHECK_FALSE(capability_matches("", hash));
    CHECK_FALSE(capability_matches(hash, hash));
    CHECK_FALSE(capability_matches("abc", ""));
    CHECK_FALSE(capability_matches("", ""));
}
