// What a host that died hard left behind: which processes are taken for a session's and killed, and
// which are somebody else's and live. With real bwrap processes.

#include "host/recovery.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "process/pidfd.h"
#include "process/proc.h"
#include "registry/layout.h"
#include "sandbox/binds.h"
#include "sandboxed.h"
#include "scripted_broker.h"

using namespace mosaic;
using namespace mosaic::test;
using host::Recovery;
using registry::SessionEntry;

namespace {

constexpr const char* kBwrap = "/usr/bin/bwrap";
constexpr const char* kRunA = "r00000000000a";
constexpr const char* kRunB = "r00000000000b";

// A host's parts for a recovery. Its broker is the test's, and not started unless a test does.
struct Recovering : BrokerRig {
    Recovering() {
        if (!ok()) {
            return;
        }
        runs_path = scratch / "launches/acme";
        std::filesystem::create_directories(runs_path + "/" + kRunA);
        std::filesystem::create_directories(runs_path + "/" + kRunB);
        std::filesystem::create_directories(scratch / "bus-host");
        bus_host.reset(::open((scratch / "bus-host").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        boot_id = process::boot_id();
        store = std::make_unique<host::SessionStore>(loop, bus_host.get(), boot_id);
        log = std::make_unique<host::LaunchLog>(loop);
        REQUIRE(log->open(scratch.fd(), "acme.jsonl").has_value());
        // A session's program is told by its name.
        runner = scratch / "mosaic-runner";
        std::filesystem::copy_file(MOSAIC_PUPPET, runner);
    }

    void begin(const std::vector<SessionEntry>& entries,
               const std::string& left_boot,
               const std::string& bwrap = kBwrap,
               const std::vector<wire::BoundRun>& bound = {}) {
        store->adopt(entries);
        recovery = std::make_unique<Recovery>(
            host::RecoveryParts{loop, *store, *broker, *log, runs_path, bwrap, boot_id});
        begun = recovery->begin({left_boot, entries}, bound);
    }

    // As a session is started, with this run directory.
    [[nodiscard]] std::vector<std::string> session(const std::string& run_dir) const {
        return bwrap_argv({"--ro-bind", run_dir, run_dir}, {runner, run_dir});
    }

    [[nodiscard]] std::string run_dir(const std::string& run) const {
        return runs_path + "/" + run;
    }

    Result<void> begun;
    std::string runs_path;
    std::string boot_id;
    std::string runner;
    UniqueFd bus_host;
};

std::string start_time(pid_t pid) {
    const auto stat = process::read_stat(pid);
    REQUIRE(stat.has_value());
    return stat->start_time;
}

SessionEntry entry_of(const Recovering& rig, const std::string& run, const Started& session) {
    SessionEntry entry;
    entry.business = "acme";
    entry.seat = {"coder", ""};
    entry.run = run;
    entry.run_dir = rig.run_dir(run);
    entry.process.pid = session.pid();
    entry.process.start_time = start_time(session.pid());
    if (session.inner()) {
        entry.process.runner_pid = *session.inner();
        entry.process.runner_start_time = start_time(*session.inner());
    }
    entry.launched_by = "pm";
    entry.harness = "script";
    entry.provider = "none";
    entry.model = "m";
    entry.at = "2026-01-31T12:34:56.789Z";
    return entry;
}

UniqueFd pin(pid_t pid) {
    auto pidfd = process::open_pidfd(pid);
    REQUIRE(pidfd.has_value());
    return std::move(*pidfd);
}

}  // namespace

TEST_CASE(
    "a session that no entry names is found by its run directory and killed, runner and all") {
    if (!bwrap_works()) {
        return;
    }
    Recovering rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    Started session(rig.session(rig.run_dir(kRunA)));
    session.wait_for_inner("mosaic-runner");
    const UniqueFd inner = pin(*session.inner());
    rig.begin({}, rig.boot_id);
    CHECK(rig.recovery->leftovers().size() == 1);
    CHECK_FALSE(rig.recovery->leftovers().over());
    rig.run_until([&] { return !rig.leftover_events.empty(); });
    CHECK(rig.leftover_events[0].event == launch::LeftoverEvent::gone);
    CHECK(process::has_exited(session.pidfd()));
    CHECK(process::has_exited(inner.get()));
    // No entry and no broker know it: nothing is left to do.
    CHECK(rig.recovery->leftovers().over());
    CHECK(rig.broker->ends_waiting() == 0);
}

TEST_CASE("what a bwrap forks between the look at it and its death is found and killed, too") {
    if (!bwrap_works()) {
        return;
    }
    Recovering rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    // A bwrap that hasn't come to its sandbox: it waits behind its gate.
    const Ends gate = make_pipe();
    const std::string dir = rig.run_dir(kRunA);
    const std::string gate_fd = std::to_string(sandbox::kGateFd);
    const Started early(bwrap_argv({"--ro-bind", dir, dir, "--args", gate_fd}, {rig.runner, dir}),
                        {{gate.a.get(), sandbox::kGateFd}});
    rig.begin({}, rig.boot_id);
    CHECK(rig.recovery->leftovers().size() == 1);
    // Its death isn't noticed yet.
    Started forked(rig.session(rig.run_dir(kRunA)));
    forked.wait_for_inner("mosaic-runner");
    const UniqueFd inner = pin(*forked.inner());
    rig.run_until([&] { return !rig.leftover_events.empty(); });
    CHECK(process::has_exited(early.pidfd()));
    CHECK(process::has_exited(forked.pidfd()));
    CHECK(process::has_exited(inner.get()));
    CHECK(rig.leftover_events.size() == 1);
    CHECK(rig.recovery->leftovers().over());
}

TEST_CASE("a session that can't be pinned for want of descriptors counts as no dead one") {
    if (!bwrap_works()) {
        return;
    }
    Recovering rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    Started session(rig.session(rig.run_dir(kRunA)));
    session.wait_for_inner("mosaic-runner");
    const UniqueFd inner = pin(*session.inner());
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    rlimit few = before;
    few.rlim_cur = static_cast<rlim_t>(inner.get()) + 8;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    rig.begin({}, rig.boot_id);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    REQUIRE_FALSE(rig.begun.has_value());
    CHECK(rig.begun.error().text.find("raise it (LimitNOFILE=") != std::string::npos);
    CHECK_FALSE(process::has_exited(session.pidfd()));
    CHECK_FALSE(process::has_exited(inner.get()));
    ignore(process::signal_pidfd(inner.get(), SIGKILL), "the test's own");
}

TEST_CASE("a runner whose outer is dead is found by itself") {
    if (!bwrap_works()) {
        return;
    }
    Recovering rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    Started session(rig.session(rig.run_dir(kRunA)));
    session.wait_for_inner("mosaic-runner");
    const UniqueFd inner = pin(*session.inner());
    REQUIRE(process::signal_pidfd(session.pidfd(), SIGKILL).has_value());
    session.finish();
    REQUIRE_FALSE(process::has_exited(inner.get()));
    rig.begin({}, rig.boot_id);
    CHECK(rig.recovery->leftovers().size() == 1);
    rig.run_until([&] { return rig.recovery->leftovers().over(); });
    CHECK(process::has_exited(inner.get()));
}

TEST_CASE("what only looks like a session is left alone") {
    if (!bwrap_works()) {
        return;
    }
    Recovering rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    const std::string dir = rig.run_dir(kRunA);
    put(AT_FDCWD, dir + "/runner.log", "a line\n");
    const std::string other = rig.scratch / "other/launches/acme/" + kRunA;
    std::filesystem::create_directories(other);
    std::vector<std::pair<const char*, std::unique_ptr<Started>>> bystanders;
    const auto stand_by = [&](const char* what, const std::vector<std::string>& argv) {
        bystanders.emplace_back(what, std::make_unique<Started>(argv));
    };
    stand_by("an operator's tail on a run's file", {"/usr/bin/tail", "-f", dir + "/runner.log"});
    stand_by("a program with a run directory as its argument", {MOSAIC_PUPPET, "wait", dir});
    stand_by("a runner that is no pid 1", {rig.runner, dir});
    stand_by("a session of another data root", rig.session(other));
    stand_by("an operator's bwrap around a program that names a run directory",
             bwrap_argv({}, {MOSAIC_PUPPET, "wait", dir}));
    stand_by("an operator's bwrap that binds a file of a run",
             bwrap_argv({"--ro-bind", dir + "/runner.log", dir + "/runner.log"},
                        {MOSAIC_PUPPET, "wait"}));
    stand_by("a bwrap that only sets a variable to it",
             bwrap_argv({"--setenv", "DIR", dir}, {MOSAIC_PUPPET, "wait"}));
    stand_by("a session of a run that is none",
             bwrap_argv({"--ro-bind", rig.runs_path, rig.runs_path},
                        {MOSAIC_PUPPET, "wait", rig.runs_path + "/notarun"}));
    std::vector<UniqueFd> inners;
    for (auto& [what, started] : bystanders) {
        if (std::string(what).find("bwrap") != std::string::npos ||
            std::string(what).starts_with("a session")) {
            const bool session = std::string(what) == "a session of another data root";
            started->wait_for_inner(session ? "mosaic-runner" : "host_puppet");
            inners.push_back(pin(*started->inner()));
        }
    }
    // A session that is dead and not reaped yet.
    Started zombie(rig.session(rig.run_dir(kRunB)));
    zombie.wait_for_inner("mosaic-runner");
    const UniqueFd zombie_inner = pin(*zombie.inner());
    REQUIRE(process::signal_pidfd(zombie_inner.get(), SIGKILL).has_value());
    REQUIRE(exits_within(zombie.pidfd(), static_cast<int>(kPatienceMs)));
    REQUIRE(exits_within(zombie_inner.get(), static_cast<int>(kPatienceMs)));

    rig.begin({}, rig.boot_id);
    CHECK(rig.recovery->leftovers().size() == 0);
    CHECK(rig.recovery->leftovers().over());
    CHECK(rig.recovery->leftovers().may_launch());
    rig.tick_now();
    for (const auto& [what, started] : bystanders) {
        CAPTURE(what);
        CHECK_FALSE(process::has_exited(started->pidfd()));
    }
    for (const UniqueFd& inner : inners) {
        CHECK_FALSE(process::has_exited(inner.get()));
        ignore(process::signal_pidfd(inner.get(), SIGKILL), "the test's own");
    }
}

TEST_CASE("an entry's own processes are killed, though another bwrap is configured by now") {
    if (!bwrap_works()) {
        return;
    }
    Recovering rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    Started session(rig.session(rig.run_dir(kRunA)));
    session.wait_for_inner("mosaic-runner");
    const UniqueFd inner = pin(*session.inner());
    rig.begin({entry_of(rig, kRunA, session)}, rig.boot_id, "/opt/other/bwrap");
    CHECK(rig.recovery->leftovers().size() == 1);
    CHECK(rig.recovery->leftovers().is_taken({"coder", ""}));
    CHECK_FALSE(rig.recovery->leftovers().is_taken({"coder", "t1"}));
    CHECK_FALSE(rig.recovery->leftovers().may_launch());
    rig.run_until([&] { return !rig.leftover_events.empty(); });
    CHECK(process::has_exited(session.pidfd()));
    CHECK(process::has_exited(inner.get()));
    // Its end is the broker's to record; until then the entry and the seat stay.
    CHECK(rig.broker->ends_waiting() == 1);
    CHECK_FALSE(rig.recovery->leftovers().may_launch());
    CHECK(rig.store->size() == 1);
}

TEST_CASE("an entry that isn't proven to mean a process signals none") {
    Recovering rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    // Whatever is wrong, the entry itself ends; only who is at its numbers lives.
    const auto check_alive =
        [&](const SessionEntry& entry, const std::string& left_boot, const Started& stranger) {
            rig.begin({entry}, left_boot);
            rig.run_until([&] { return rig.broker->ends_waiting() == 1; });
            CHECK(rig.leftover_events.empty());
            CHECK_FALSE(process::has_exited(stranger.pidfd()));
        };
    SUBCASE("of another boot") {
        const Started stranger({MOSAIC_PUPPET, "wait", rig.run_dir(kRunA)});
        check_alive(
            entry_of(rig, kRunA, stranger), "11111111-2222-3333-4444-555555555555", stranger);
    }
    SUBCASE("of another start time") {
        const Started stranger({MOSAIC_PUPPET, "wait", rig.run_dir(kRunA)});
        SessionEntry entry = entry_of(rig, kRunA, stranger);
        entry.process.start_time += "1";
        check_alive(entry, rig.boot_id, stranger);
    }
    SUBCASE("of another run directory") {
        const Started stranger({MOSAIC_PUPPET, "wait", rig.run_dir(kRunB)});
        SessionEntry entry = entry_of(rig, kRunA, stranger);
        // Not even the host itself.
        entry.process.runner_pid = ::getpid();
        entry.process.runner_start_time = start_time(::getpid());
        check_alive(entry, rig.boot_id, stranger);
    }
    SUBCASE("of a process that is dead and not reaped") {
        Started dead({"/bin/sh", "-c", "exit 0", rig.run_dir(kRunA)});
        REQUIRE(exits_within(dead.pidfd(), static_cast<int>(kPatienceMs)));
        rig.begin({entry_of(rig, kRunA, dead)}, rig.boot_id);
        rig.run_until([&] { return rig.broker->ends_waiting() == 1; });
        CHECK(rig.leftover_events.empty());
    }
    SUBCASE("of nobody") {
        SessionEntry entry;
        {
            const Started gone({MOSAIC_PUPPET, "wait", rig.run_dir(kRunA)});
            entry = entry_of(rig, kRunA, gone);
        }
        rig.begin({entry}, rig.boot_id);
        rig.run_until([&] { return rig.broker->ends_waiting() == 1; });
        CHECK(rig.leftover_events.empty());
    }
}

TEST_CASE("an entry whose numbers are right is a match without bwrap's name") {
    Recovering rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    const Started session({MOSAIC_PUPPET, "wait", rig.run_dir(kRunA)});
    rig.begin({entry_of(rig, kRunA, session)}, rig.boot_id);
    rig.run_until([&] { return rig.broker->ends_waiting() == 1; });
    CHECK(process::has_exited(session.pidfd()));
}

TEST_CASE("each leftover ends at the broker, in the log and in sessions.json, in this order") {
    if (!bwrap_works()) {
        return;
    }
    Recovering rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    Started session(rig.session(rig.run_dir(kRunA)));
    session.wait_for_inner("mosaic-runner");
    rig.broker->start();
    rig.accept_broker();
    rig.serve_start();
    // One that runs and has an entry, one that only the broker knows.
    wire::BoundRun bound;
    bound.seat = {"reviewer", ""};
    bound.run = kRunB;
    bound.harness = "script";
    rig.begin({entry_of(rig, kRunA, session)}, rig.boot_id, kBwrap, {bound});
    CHECK(rig.recovery->leftovers().size() == 2);
    const auto disk = [&] { return content(rig.scratch.fd(), "acme.jsonl").value_or(""); };
    for (int i = 0; i < 2; ++i) {
        const wire::Request request = rig.next_request("endLaunch");
        const auto args = wire::EndLaunchArgs::from(request.args);
        REQUIRE(args.has_value());
        CHECK(args->reason == EndReason::host_lost);
        const bool first = args->run == kRunA;
        CHECK(args->seat == (first ? Seat{"coder", ""} : Seat{"reviewer", ""}));
        CHECK((args->process.pid == session.pid()) == first);
        if (first) {
            CHECK(process::has_exited(session.pidfd()));
            CHECK(rig.store->size() == 1);
        }
        CHECK_FALSE(rig.recovery->leftovers().may_launch());
        wire::EndLaunchResult result;
        result.reason = EndReason::host_lost;
        result.first = true;
        rig.say(wire::reply_ok(request.id, result.to_value()));
    }
    rig.run_until(
        [&] { return rig.recovery->leftovers().over() && rig.store->quiet() && rig.log->quiet(); });
    CHECK(rig.recovery->leftovers().may_launch());
    CHECK(rig.store->size() == 0);
    const auto left = registry::parse_sessions(
        *content(rig.bus_host.get(), "sessions.json"), "sessions.json", "acme");
    REQUIRE(left.has_value());
    CHECK(left->entries.empty());
    CHECK(times(disk(), "\"event\":\"end\"") == 2);
    CHECK(times(disk(), kRunA) == 1);
    CHECK(times(disk(), kRunB) == 1);
    CHECK(times(disk(), "host-lost") == 2);
    CHECK_FALSE(rig.recovery->leftovers().is_taken({"coder", ""}));
}

TEST_CASE("a warm seat's leftover is killed and forgotten without a word to the broker") {
    if (!bwrap_works()) {
        return;
    }
    Recovering rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    Started session(rig.session(rig.run_dir(kRunA)));
    session.wait_for_inner("mosaic-runner");
    SessionEntry entry = entry_of(rig, kRunA, session);
    entry.warm = true;
    entry.launched_by.clear();
    entry.at.clear();
    rig.begin({entry}, rig.boot_id);
    rig.run_until([&] { return rig.recovery->leftovers().over() && rig.store->quiet(); });
    CHECK(process::has_exited(session.pidfd()));
    CHECK(rig.broker->ends_waiting() == 0);
    CHECK(rig.store->size() == 0);
    CHECK(content(rig.scratch.fd(), "acme.jsonl") == "");
}
