// Killing a session at any moment of its start leaves nobody behind. Each try starts a real bwrap
// and kills it at a random moment of its first 20 ms, as the host does: with what it knows of the
// session by then, and again when the outer has exited. The control does the same to the outer
// alone and must leave survivors, or this test could not fail.

#include "host/kill.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <vector>

#include "process/pidfd.h"
#include "process/proc.h"
#include "sandboxed.h"

using namespace mosaic;
using namespace mosaic::test;

namespace {

// Reads the status pipe until `until`, as the host's loop would. Returns the runner's pidfd when
// bwrap told its pid and it was bwrap's child then.
UniqueFd watch(Started& session, Instant until) {
    bool open = true;
    for (;;) {
        const int64_t left_ms = (until - monotonic_now()).ns / 1'000'000;
        pollfd wait[2] = {{session.pidfd(), POLLIN, 0},
                          {open ? session.status_pipe() : -1, POLLIN, 0}};
        const int ready = ::poll(wait, 2, static_cast<int>(std::max<int64_t>(0, left_ms)));
        if (ready <= 0 || wait[0].revents != 0) {
            break;
        }
        open = session.read_status();
    }
    if (!session.inner()) {
        return {};
    }
    auto pidfd = process::open_pidfd(*session.inner());
    const auto stat = process::read_stat(*session.inner());
    const bool ours = pidfd && stat && stat->parent == session.pid();
    return ours ? std::move(*pidfd) : UniqueFd();
}

// Everything whose command line has this mark, pinned.
std::vector<UniqueFd> processes_with(const std::string& mark) {
    std::vector<UniqueFd> found;
    for (const pid_t pid : process::list_pids()) {
        auto pidfd = process::open_pidfd(pid);
        const auto argv = process::read_cmdline(pid);
        if (pidfd && std::find(argv.begin(), argv.end(), mark) != argv.end()) {
            found.push_back(std::move(*pidfd));
        }
    }
    return found;
}

// How many of a session's processes are still there after the time that dying takes. They are
// killed then.
size_t survivors(const std::string& mark, int patience_ms) {
    size_t count = 0;
    // A process on its way to exec may have shown no mark yet: look until nothing new is found.
    for (;;) {
        const std::vector<UniqueFd> found = processes_with(mark);
        if (found.empty()) {
            return count;
        }
        for (const UniqueFd& pidfd : found) {
            if (!exits_within(pidfd.get(), patience_ms)) {
                ++count;
                REQUIRE(process::signal_pidfd(pidfd.get(), SIGKILL).has_value());
                REQUIRE(exits_within(pidfd.get(), static_cast<int>(kPatienceMs)));
            }
        }
    }
}

std::vector<std::string> session_argv(const std::string& mark) {
    // Dies with its parent, like the runner, once it has come so far as to say so.
    return bwrap_argv(
        {"--setenv", "MARK", mark},
        {"/usr/bin/setpriv", "--pdeathsig", "KILL", "--", MOSAIC_PUPPET, "wait", mark});
}

}  // namespace

TEST_CASE("a session killed at any moment of its start leaves nobody behind") {
    if (!bwrap_works()) {
        return;
    }
    constexpr int kTries = 200;
    std::mt19937 random(20'260'131);
    size_t left = 0;
    size_t known = 0;
    for (int i = 0; i < kTries; ++i) {
        const std::string mark =
            "mosaic-kill-" + std::to_string(::getpid()) + "-" + std::to_string(i);
        Started session(session_argv(mark));
        const auto moment = milliseconds(static_cast<int64_t>(random() % 21));
        const UniqueFd runner = watch(session, monotonic_now() + moment);
        known += runner.valid() ? 1U : 0U;
        const host::SessionProcesses all{runner.get(), session.pidfd(), session.pid()};
        host::kill_session(all);
        REQUIRE(exits_within(session.pidfd(), static_cast<int>(kPatienceMs)));
        host::kill_session(all);
        session.finish();
        left += survivors(mark, 10'000);
    }
    CHECK(left == 0);
    // Moments before and after the runner's pid was known were both among them.
    CHECK(known > 0);
    CHECK(known < kTries);
}

TEST_CASE("killing the outer alone does leave survivors") {
    if (!bwrap_works()) {
        return;
    }
    constexpr int kTries = 40;
    size_t left = 0;
    for (int i = 0; i < kTries && left < 3; ++i) {
        const std::string mark =
            "mosaic-outer-" + std::to_string(::getpid()) + "-" + std::to_string(i);
        Started session(session_argv(mark));
        // The moment bwrap has told the pid of its child.
        while (!session.inner()) {
            REQUIRE(session.read_status());
        }
        const auto inner = process::open_pidfd(*session.inner());
        const host::SessionProcesses outer{-1, session.pidfd(), 0};
        host::kill_session(outer);
        session.finish();
        left += survivors(mark, 300);
        // In the middle of its exec it shows no mark, and nothing of it may stay behind.
        if (inner) {
            ignore(process::signal_pidfd(inner->get(), SIGKILL), "gone is what is wanted");
            REQUIRE(exits_within(inner->get(), static_cast<int>(kPatienceMs)));
        }
    }
    CHECK(left > 0);
}

TEST_CASE("each part of a session is killed by itself") {
    Started runner({MOSAIC_PUPPET, "wait"});
    Started outer({MOSAIC_PUPPET, "wait"});
    Started grouped({MOSAIC_PUPPET, "wait"});
    // Stopped, they die of SIGKILL and nothing else.
    for (const Started* one : {&runner, &outer, &grouped}) {
        REQUIRE(process::signal_pidfd(one->pidfd(), SIGSTOP).has_value());
    }
    host::kill_session({runner.pidfd(), -1, 0});
    REQUIRE(exits_within(runner.pidfd(), 10'000));
    host::kill_session({-1, outer.pidfd(), 0});
    REQUIRE(exits_within(outer.pidfd(), 10'000));
    host::kill_session({-1, -1, grouped.pid()});
    REQUIRE(exits_within(grouped.pidfd(), 10'000));
    for (const Started* one : {&runner, &outer, &grouped}) {
        CHECK(process::reap(one->pidfd())->signal == SIGKILL);
    }
}

TEST_CASE("nothing known is nothing killed, and the dead may be killed again") {
    host::kill_session({});
    Started child({MOSAIC_PUPPET, "wait"});
    host::kill_session({child.pidfd(), -1, 0});
    REQUIRE(exits_within(child.pidfd(), static_cast<int>(kPatienceMs)));
    host::kill_session({child.pidfd(), child.pidfd(), child.pid()});
    const auto exit = process::reap(child.pidfd());
    REQUIRE(exit.has_value());
    CHECK(exit->signal == SIGKILL);
    host::kill_session({child.pidfd(), child.pidfd(), 0});
}
