// Goal: the list of levels says on or off as it is, and why. Method: facts of made-up machines.

#include "sandbox/hardening.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using mosaic::sandbox::hardening;
using mosaic::sandbox::HardeningFacts;
using mosaic::sandbox::Level;

namespace {

Level level(const HardeningFacts& facts, const std::string& name) {
    const std::vector<Level> all = hardening(facts);
    const auto hit = std::find_if(
        all.begin(), all.end(), [&](const Level& candidate) { return candidate.name == name; });
    REQUIRE(hit != all.end());
    return *hit;
}

}  // namespace

TEST_CASE("a kernel without Landlock scopes is named with what it lacks") {
    CHECK(level({.landlock_abi = 6}, "landlock-scope").on);
    const Level old = level({.landlock_abi = 5}, "landlock-scope");
    CHECK_FALSE(old.on);
    CHECK(old.reason.find("ABI 5") != std::string::npos);
    CHECK(old.remedy.find("6.12") != std::string::npos);
    CHECK(level({.landlock_abi = 0}, "landlock-scope").reason.find("no Landlock") !=
          std::string::npos);
}

TEST_CASE("the network is the role's choice") {
    CHECK(level({.network_none = true}, "network").on);
    CHECK_FALSE(level({.network_none = false}, "network").on);
    CHECK(level({}, "network").on);
}

TEST_CASE("nested sandboxes switch a level off") {
    CHECK(level({.nested = false}, "nested-user-namespaces").on);
    CHECK_FALSE(level({.nested = true}, "nested-user-namespaces").on);
}

TEST_CASE("the names are the same on every machine, and each level has a reason") {
    const auto plain = hardening({});
    const auto other = hardening({.network_none = false, .nested = true, .landlock_abi = 7});
    REQUIRE(plain.size() == other.size());
    for (size_t i = 0; i < plain.size(); ++i) {
        CHECK(plain[i].name == other[i].name);
        CHECK_FALSE(plain[i].reason.empty());
        CHECK_FALSE(other[i].reason.empty());
    }
}
