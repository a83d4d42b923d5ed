// Goal: the list of levels says on or off as it is, and why. Method: facts of made-up machines.

#include "sandbox/hardening.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using mosaic::sandbox::check_nested;
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

TEST_CASE("nested sandboxes are refused where a session could kill the host") {
    std::string root = std::string(MOSAIC_BUILD_DIR) + "/cgroup-XXXXXX";
    REQUIRE(::mkdtemp(root.data()) != nullptr);
    std::filesystem::create_directories(root + "/ours/host");
    std::filesystem::create_directories(root + "/theirs");
    std::ofstream(root + "/ours/host/cgroup.procs") << "";
    CHECK(check_nested("0::/theirs\n", root).has_value());
    CHECK(check_nested("", root).has_value());
    CHECK(check_nested("4:memory:/ours/host\n", root).has_value());
    const auto refused = check_nested("12:pids:/x\n0::/ours/host\n", root);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == mosaic::Code::unsafe);
    CHECK(refused.error().text.find("/ours/host/cgroup.procs") != std::string::npos);
    CHECK_FALSE(check_nested("0::/ours/host", root).has_value());
    std::filesystem::create_directories(root + "/killable");
    std::ofstream(root + "/killable/cgroup.kill") << "";
    const auto killable = check_nested("0::/killable\n", root);
    REQUIRE_FALSE(killable.has_value());
    CHECK(killable.error().text.find("/killable/cgroup.kill") != std::string::npos);
    std::filesystem::remove_all(root);
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
