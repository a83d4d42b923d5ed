// Goal: the list of levels says on or off as it is, and why. Method: facts of made-up machines.

#include "sandbox/hardening.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
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

// Groups with the same files, one of which, or one directory, is ours. There are groups below those
// in `below`.
class Owned : public GroupFiles {
  public:
    mosaic::Result<std::vector<std::string>> files(const std::string& path) override {
        ++looked_at;
        if (const auto hit = failing.find(path); hit != failing.end()) {
            return mosaic::fail_sys(hit->second, path);
        }
        return std::vector<std::string>{"cgroup.event_control",
                                        "cgroup.kill",
                                        "cgroup.procs",
                                        "freezer.state",
                                        "memory.pressure",
                                        "tasks"};
    }

    mosaic::Result<std::vector<std::string>> directories(const std::string& path) override {
        if (const auto hit = closing.find(path); hit != closing.end()) {
            return mosaic::fail_sys(hit->second, path);
        }
        const auto hit = below.find(path);
        return hit != below.end() ? hit->second : std::vector<std::string>();
    }

    bool has_right_to_write(const std::string& path) override { return ours.count(path) > 0; }

    std::set<std::string> ours;
    std::map<std::string, std::vector<std::string>> below;
    std::map<std::string, int> failing;  // errno of a look at its files
    std::map<std::string, int> closing;  // errno of a look at the groups in it
    size_t looked_at = 0;
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
        files.ours = {ours};
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
    files.failing = {{"/fr/a", ENOENT}};
    CHECK(contains(nested_danger(files, {{"freezer", "/a", "/fr/a"}}, true), "nobody can tell"));
}

TEST_CASE(
    "nested sandboxes are refused where a group below is another's that a session can write") {
    struct Row {
        std::set<std::string> ours;
        std::map<std::string, int> failing;
        std::map<std::string, int> closing;
        std::string danger;  // a part of it; empty: there is none
    };

    const std::vector<Row> rows = {
        {{}, {}, {}, ""},
        {{"/fr/b/tasks", "/fr"}, {}, {}, ""},  // beside and above: a session sees neither
        {{"/fr/a/x/cgroup.event_control"}, {}, {}, ""},
        {{"/fr/a/x/freezer.state"}, {}, {}, "could write /fr/a/x/freezer.state from"},
        {{"/fr/a/z"}, {}, {}, "could write /fr/a/z from"},
        {{"/fr/a/x/y/tasks"}, {}, {}, "could write /fr/a/x/y/tasks from"},
        // The first of several.
        {{"/fr/a/z/tasks", "/fr/a/x/y/tasks"}, {}, {}, "could write /fr/a/x/y/tasks from"},
        {{"/fr/a/z/tasks", "/fr/a/tasks"}, {}, {}, "could write /fr/a/tasks from"},
        // One that can't be looked at or into.
        {{}, {{"/fr/a/z", EACCES}}, {}, "the control group /a of freezer: /fr/a/z: "},
        {{}, {}, {{"/fr/a/x/y", EACCES}}, "the control group /a of freezer: /fr/a/x/y: "},
        {{}, {}, {{"/fr/a", ENOENT}}, "the control group /a of freezer: /fr/a: "},
        // One that goes meanwhile harms nobody, and the others count.
        {{}, {{"/fr/a/x", ENOENT}}, {{"/fr/a/z", ENOENT}}, ""},
        {{"/fr/a/z"}, {{"/fr/a/x", ENOENT}}, {}, "could write /fr/a/z from"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.danger);
        Owned files;
        files.below = {{"/fr/a", {"x", "z"}}, {"/fr/a/x", {"y"}}, {"/fr", {"a", "b"}}};
        files.ours = row.ours;
        files.failing = row.failing;
        files.closing = row.closing;
        const std::string danger = nested_danger(files, {{"freezer", "/a", "/fr/a"}}, true);
        CHECK(danger.empty() == row.danger.empty());
        CHECK(contains(danger, row.danger));
    }
    // What is below a run's own group is the session's.
    Owned files;
    files.below = {{"/two", {"x"}}};
    files.ours = {"/two/x"};
    CHECK(nested_danger(files, {{"", "/", "/two"}}, true).empty());
    CHECK(contains(nested_danger(files, {{"", "/", "/two"}}, false), "could write /two/x from"));
}

TEST_CASE("so many control groups are looked at and no more") {
    for (const size_t more : {size_t{0}, size_t{1}}) {
        CAPTURE(more);
        Owned files;
        // With these two.
        for (size_t i = 2; i < mosaic::sandbox::kGroupsSeenMax + more; ++i) {
            files.below["/fr/a"].push_back(std::to_string(i));
        }
        files.below["/fr"] = {"a"};
        const std::string danger = nested_danger(files, {{"freezer", "/", "/fr"}}, true);
        CHECK(danger == (more == 0 ? ""
                                   : "nobody can tell what a session could write of the control "
                                     "group / of freezer: there are more than 4096 groups with "
                                     "those below it"));
        CHECK(files.looked_at == (more == 0 ? mosaic::sandbox::kGroupsSeenMax : 2));
    }
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
