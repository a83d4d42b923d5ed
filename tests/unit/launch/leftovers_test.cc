// Who the leftovers of a dead host are, and which processes belong to one.

#include "launch/leftovers.h"

#include <doctest/doctest.h>

using namespace mosaic;
using namespace mosaic::launch;

namespace {

constexpr const char* kRun = "r00000000000a";
const std::string kRuns = "/data/launches/acme";
const std::string kBwrap = "/usr/bin/bwrap";

Leftover entry_of(const std::string& run, const std::string& instance) {
    Leftover out;
    out.run = run;
    out.seat.instance = instance;
    out.provider = "anthropic";
    out.model = "m1";
    return out;
}

Leftover warm_entry_of(const std::string& run, const std::string& instance) {
    Leftover out = entry_of(run, instance);
    out.warm = true;
    return out;
}

wire::BoundRun bound_of(const std::string& run, const std::string& instance) {
    wire::BoundRun out;
    out.run = run;
    out.seat.instance = instance;
    return out;
}

}  // namespace

TEST_CASE("what has a program and no arguments yet is being executed") {
    CHECK(is_being_executed({kBwrap, {}, {}}));
    CHECK_FALSE(is_being_executed({kBwrap, {"bwrap"}, {}}));
    CHECK_FALSE(is_being_executed({"", {}, {}}));  // a zombie
}

TEST_CASE("a bwrap that binds a run directory is that run's") {
    const SeenProcess outer{
        kBwrap, {"bwrap", "--ro-bind", kRuns + "/" + kRun, "/x", "--", "p"}, {7}};
    CHECK(run_of(outer, kBwrap, kRuns) == kRun);
    CHECK(run_of(outer, "/opt/bwrap", kRuns).empty());
}

TEST_CASE("what a session starts is no run's, whatever it looks like") {
    SeenProcess forged{kBwrap, {"bwrap", "--ro-bind", kRuns + "/" + kRun, "/x", "--", "p"}, {}};
    for (const auto& numbers :
         std::vector<std::vector<pid_t>>{{}, {70, 7}, {70, 7, 1}, {70, 1, 1}}) {
        CAPTURE(numbers.size());
        forged.numbers = numbers;
        CHECK(run_of(forged, kBwrap, kRuns).empty());
    }
    forged.numbers = {70, 1};  // the inner bwrap before it is the runner
    CHECK(run_of(forged, kBwrap, kRuns) == kRun);
    const SeenProcess runner{"/x/mosaic-runner", {"mosaic-runner", kRuns + "/" + kRun}, {70, 7, 1}};
    CHECK(run_of(runner, kBwrap, kRuns).empty());
}

TEST_CASE("a bwrap that names a run directory in its command is nobody's") {
    const SeenProcess tail{kBwrap, {"bwrap", "--", "tail", "--bind", kRuns + "/" + kRun}, {7}};
    CHECK(run_of(tail, kBwrap, kRuns).empty());
    const SeenProcess file{kBwrap, {"bwrap", "--ro-bind", kRuns + "/" + kRun + "/runner.log"}, {7}};
    CHECK(run_of(file, kBwrap, kRuns).empty());
    const SeenProcess other{kBwrap, {"bwrap", "--setenv", kRuns + "/" + kRun}, {7}};
    CHECK(run_of(other, kBwrap, kRuns).empty());
    const SeenProcess similar{kBwrap, {"bwrap", "--bind", kRuns + "-" + kRun}, {7}};
    CHECK(run_of(similar, kBwrap, kRuns).empty());
}

TEST_CASE("a runner is told by its name and its place as pid 1 inside") {
    SeenProcess runner{
        "/x/mosaic-runner", {"/run/mosaic/mosaic-runner", kRuns + "/" + kRun}, {7, 1}};
    CHECK(run_of(runner, kBwrap, kRuns) == kRun);
    runner.numbers = {7};
    CHECK(run_of(runner, kBwrap, kRuns).empty());
    runner = {"/usr/bin/tail", {"tail", kRuns + "/" + kRun}, {7, 1}};
    CHECK(run_of(runner, kBwrap, kRuns).empty());
    runner = {"/x/mosaic-runner", {"mosaic-runner", "/data/launches/other/r00000000000a"}, {7, 1}};
    CHECK(run_of(runner, kBwrap, kRuns).empty());
}

TEST_CASE("an entry and a bound run of one id are one leftover and the entry's word counts") {
    Leftovers all;
    Leftover entry = entry_of(kRun, "coder");
    entry.harness = "script";
    entry.process.runner_pid = 7;
    all.add_entry(entry);
    all.add_bound(bound_of(kRun, "coder"));
    all.add_bound(bound_of("r00000000000b", "pm"));
    REQUIRE(all.size() == 2);
    CHECK(all[0].harness == "script");
    CHECK(all[0].process.runner_pid == 7);
    CHECK(all[0].state.facts.recorded);
    CHECK(all[0].state.facts.in_broker);
    CHECK(all[0].model == "m1");
    CHECK(!all[1].state.facts.recorded);
    CHECK(all[1].state.facts.in_broker);
    CHECK(all.of_run("r00000000000c") == 2);
    CHECK(!all[2].state.facts.in_broker);
}

TEST_CASE("a warm entry has no end at the broker") {
    Leftovers all;
    all.add_entry(warm_entry_of(kRun, "coder"));
    CHECK(!all[0].state.facts.in_broker);
    const LeftoverStep first = all.begin(0, false);
    REQUIRE(first.effects.size() == 1);
    CHECK(first.effects[0] == LeftoverEffect::unrecord);
}

TEST_CASE("a warm entry holds neither seat nor room unless the broker knows it as a run") {
    for (const bool bound : {false, true}) {
        CAPTURE(bound);
        Leftovers all;
        all.add_entry(warm_entry_of(kRun, "coder"));
        if (bound) {
            all.add_bound(bound_of(kRun, "coder"));
        }
        static_cast<void>(all.begin(0, true));
        CHECK_FALSE(all.may_launch());
        CHECK(all.is_taken({"coder", ""}) == bound);
        CHECK(all.count("anthropic", "m1") == (bound ? 1 : 0));
    }
}

TEST_CASE("launches wait for every leftover that isn't reported as stuck") {
    Leftovers all;
    all.add_entry(entry_of(kRun, "coder"));
    static_cast<void>(all.begin(0, true));
    const Seat seat{"coder", ""};
    CHECK(!all.may_launch());
    CHECK(all.is_taken(seat));
    static_cast<void>(all.step(0, LeftoverEvent::deadline));
    CHECK(all.may_launch());
    CHECK(all.is_taken(seat));
    CHECK(all.count("anthropic", "m1") == 1);
    CHECK(all.count() == 1);
    CHECK(!all.over());
    static_cast<void>(all.step(0, LeftoverEvent::gone));
    static_cast<void>(all.step(0, end_event(true, false)));
    static_cast<void>(all.step(0, LeftoverEvent::removed));
    CHECK(all.over());
    CHECK(!all.is_taken(seat));
}

TEST_CASE("an end that was recorded before has a second line only when the first is missing") {
    CHECK(end_event(true, false) == LeftoverEvent::ended);
    CHECK(end_event(true, true) == LeftoverEvent::ended);
    CHECK(end_event(false, false) == LeftoverEvent::ended);
    CHECK(end_event(false, true) == LeftoverEvent::ended_before);
}

TEST_CASE("a leftover counts for its model until it is over and one of no known model for all") {
    Leftovers all;
    all.add_entry(entry_of(kRun, "coder"));
    all.add_bound(bound_of("r00000000000b", "pm"));
    static_cast<void>(all.begin(0, true));
    static_cast<void>(all.begin(1, false));
    CHECK(all.count("anthropic", "m1") == 2);
    CHECK(all.count("anthropic", "m2") == 1);
    static_cast<void>(all.step(1, LeftoverEvent::ended));
    CHECK(all.count("anthropic", "m2") == 0);
    CHECK(all.knows("r00000000000b"));
    CHECK(!all.holds("r00000000000b"));
    CHECK(all.holds(kRun));
    CHECK(!all.knows("r00000000000c"));
}

TEST_CASE("what the broker holds is known whichever is read first") {
    Leftovers all;
    all.add_bound(bound_of(kRun, "coder"));
    all.add_entry(warm_entry_of(kRun, "coder"));
    REQUIRE(all.size() == 1);
    CHECK(all[0].state.facts.in_broker);
    CHECK(all[0].state.facts.recorded);
    CHECK(all[0].model == "m1");
}

TEST_CASE("a leftover holds its seat and all launches until it is over") {
    Leftovers all;
    all.add_entry(entry_of(kRun, "coder"));
    const Seat seat{"coder", ""};
    const auto holds = [&] { return all.is_taken(seat) && !all.may_launch() && !all.over(); };
    static_cast<void>(all.begin(0, true));
    CHECK(holds());
    static_cast<void>(all.step(0, LeftoverEvent::gone));
    CHECK(holds());
    static_cast<void>(all.step(0, LeftoverEvent::ended));
    CHECK(holds());
    static_cast<void>(all.step(0, LeftoverEvent::removed));
    CHECK(!all.is_taken(seat));
    CHECK(all.may_launch());
    CHECK(all.over());
}

TEST_CASE("what nobody here holds as bound is ended at the broker that found it") {
    wire::BoundRun live = bound_of("r00000000000a", "coder");
    wire::BoundRun claimed = bound_of("r00000000000b", "pm");
    claimed.claimed = true;
    wire::BoundRun found = bound_of("r00000000000c", "reviewer");
    found.seat.thread = "t1";
    found.harness = "script";
    found.process = {10, "100", 11, "101"};
    wire::BoundRun used = bound_of("r00000000000d", "tester");
    used.claimed = true;
    const HeldRuns held =
        take_apart({live, claimed, found, used}, {"r00000000000a", "r00000000000b"});
    CHECK(held.claimed == std::vector<std::string>{"r00000000000b"});
    REQUIRE(held.to_end.size() == 2);
    CHECK(held.to_end[0].run == found.run);
    CHECK(held.to_end[0].seat == found.seat);
    CHECK(held.to_end[0].reason == EndReason::failed);
    CHECK(held.to_end[0].process == found.process);
    CHECK(held.to_end[0].harness == "script");
    CHECK_FALSE(held.to_end[0].detail.empty());
    // A claim of a run that isn't ours is no reason to keep it.
    CHECK(held.to_end[1].run == used.run);
    const HeldRuns nothing = take_apart({}, {"r00000000000a"});
    CHECK(nothing.claimed.empty());
    CHECK(nothing.to_end.empty());
}

TEST_CASE("what is left takes room whatever its model until it is over") {
    Leftovers all;
    CHECK(all.count() == 0);
    all.add_entry(entry_of(kRun, "coder"));
    all.add_entry(warm_entry_of("r00000000000b", "coder"));
    all.add_bound(bound_of("r00000000000c", "pm"));
    for (uint32_t i = 0; i < all.size(); ++i) {
        static_cast<void>(all.begin(i, i == 0));
    }
    CHECK(all.count() == 2);
    CHECK(all.was_run(0));
    CHECK_FALSE(all.was_run(1));
    static_cast<void>(all.step(1, LeftoverEvent::removed));
    CHECK_FALSE(all.was_run(1));
    CHECK(all.was_run(2));
    static_cast<void>(all.step(2, LeftoverEvent::ended));
    CHECK(all.count() == 1);
    CHECK_FALSE(all.was_run(all.of_run("r00000000000d")));  // only a process
}
