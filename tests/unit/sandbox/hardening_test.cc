// Goal: the list of levels says on or off as it is, and why. Method: facts of made-up machines.

#include "sandbox/hardening.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using mosaic::sandbox::GroupFiles;
using mosaic::sandbox::hardening;
using mosaic::sandbox::HardeningFacts;
using mosaic::sandbox::Level;
using mosaic::sandbox::nested_danger;
using mosaic::sandbox::ProcessGroup;

namespace {

Level level(const HardeningFacts& facts, const std::string& name) {
    const std::vector<Level> all = hardening(facts);
    const auto hit = std::find_if(
        all.begin(), all.end(), [&](const Level& candidate) { return candidate.name == name; });
    REQUIRE(hit != all.end());
    return *hit;
}

// Groups with the same files, one of which, or one directory, is ours.
class Owned : public GroupFiles {
  public:
    mosaic::Result<std::vector<std::string>> files(const std::string& path) override {
        if (!readable) {
            return mosaic::fail(mosaic::Code::system, path);
        }
        return std::vector<std::string>{"cgroup.event_control",
                                        "cgroup.kill",
                                        "cgroup.procs",
                                        "freezer.state",
                                        "memory.pressure",
                                        "tasks"};
    }

    bool has_right_to_write(const std::string& path) override { return path == ours; }

    std::string ours;
    bool readable = true;
};

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
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

TEST_CASE("nested sandboxes are refused where a session could write a group of another") {
    Owned files;
    const std::vector<ProcessGroup> groups = {
        {"freezer", "/a", "/fr/a"}, {"memory", "/", "/mem"}, {"", "/x", "/two/x"}};
    const auto danger = [&](const std::string& ours, bool apart) {
        files.ours = ours;
        return nested_danger(files, groups, apart);
    };
    CHECK(danger("", false).empty());
    CHECK(danger("/elsewhere/cgroup.kill", false).empty());
    for (const std::string file : {"/two/x/cgroup.procs", "/two/x/cgroup.kill", "/two/x"}) {
        CAPTURE(file);
        CHECK(contains(danger(file, false), "a session could write " + file + " from"));
        // Its own then.
        CHECK(danger(file, true).empty());
    }
    for (const std::string file : {"/fr/a/freezer.state", "/fr/a", "/mem/tasks"}) {
        for (const bool apart : {false, true}) {
            CAPTURE(file);
            CAPTURE(apart);
            CHECK(contains(danger(file, apart), "a session could write " + file + " from"));
        }
    }
    // systemd gives a unit's user this one, and anybody may write the other.
    CHECK(danger("/two/x/memory.pressure", false).empty());
    CHECK(danger("/mem/cgroup.event_control", false).empty());
}

TEST_CASE("nested sandboxes are refused where nobody can tell") {
    Owned files;
    CHECK(nested_danger(files, {}, false).empty());
    CHECK(contains(nested_danger(files, {{"freezer", "/a", ""}}, true),
                   "the control group /a of freezer: it is mounted nowhere here"));
    CHECK(contains(nested_danger(files, {{"", "/a", ""}}, false), "it is mounted nowhere here"));
    CHECK(nested_danger(files, {{"", "/a", ""}}, true).empty());
    files.readable = false;
    CHECK(contains(nested_danger(files, {{"freezer", "/a", "/fr/a"}}, true), "nobody can tell"));
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
