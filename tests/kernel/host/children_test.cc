// The host's helper programs, with real ones: output, deadlines, and what they leave behind.

#include "host/children.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <set>

#include "process/pidfd.h"
#include "rig.h"

using namespace mosaic;
using namespace mosaic::test;
using host::Children;
using host::ChildResult;

namespace {

process::SpawnSpec shell(const std::string& command) {
    process::SpawnSpec spec;
    spec.path = "/bin/sh";
    spec.argv = {"sh", "-c", command};
    spec.env = {"PATH=/usr/bin:/bin"};
    return spec;
}

struct Running : Rig {
    Running() {
        if (ok()) {
            children = std::make_unique<Children>(loop);
        }
    }

    uint64_t start(process::SpawnSpec spec, Duration deadline = milliseconds(kPatienceMs)) {
        return children->run(std::move(spec), {}, deadline);
    }

    ChildResult next() {
        run_until([&] { return !results.empty(); });
        ChildResult result = std::move(results.front());
        results.pop_front();
        return result;
    }
};

// The process whose number the child printed; none when it is gone already.
UniqueFd process_of(const std::string& output) {
    auto pidfd = process::open_pidfd(static_cast<pid_t>(std::atoi(output.c_str())));
    return pidfd ? std::move(*pidfd) : UniqueFd();
}

}  // namespace

TEST_CASE("a helper gives its output of both streams and its exit") {
    Running rig;
    if (!rig.ok()) {
        return;
    }
    CHECK(rig.children->quiet());
    const uint64_t job = rig.start(shell("echo out; echo err >&2; exit 7"));
    CHECK_FALSE(rig.children->quiet());
    const ChildResult result = rig.next();
    CHECK(result.job == job);
    CHECK(result.started);
    CHECK(result.output == "out\nerr\n");
    CHECK(result.exit.exit_code == 7);
    CHECK(result.exit.signal == 0);
    CHECK_FALSE(result.timed_out);
    CHECK(rig.children->quiet());
    CHECK(rig.loop.ring->in_flight() == 0);
}

TEST_CASE("a helper that isn't there is said to be missing") {
    Running rig;
    if (!rig.ok()) {
        return;
    }
    process::SpawnSpec spec;
    spec.path = "/nonexistent/helper";
    spec.argv = {"helper"};
    rig.start(std::move(spec));
    const ChildResult result = rig.next();
    CHECK_FALSE(result.started);
    CHECK(result.sys == ENOENT);
    CHECK(rig.children->quiet());
}

TEST_CASE("after its deadline a helper is killed with all its group") {
    Running rig;
    if (!rig.ok()) {
        return;
    }
    rig.start(shell("sleep 1000 & echo $!; wait"), milliseconds(kPatienceMs));
    rig.run_until([&] { return rig.loop.ring->in_flight() == 2; });
    rig.pass(milliseconds(kPatienceMs));
    const ChildResult result = rig.next();
    CHECK(result.timed_out);
    CHECK(result.exit.signal == SIGKILL);
    const UniqueFd background = process_of(result.output);
    const bool gone = !background.valid() || exits_within(background.get(), 10'000);
    CHECK(gone);
}

TEST_CASE("the deadlines of a helper are awaited until it is over") {
    Running rig;
    if (!rig.ok()) {
        return;
    }
    const auto awaited = [&](const reactor::Timer& timer) {
        return rig.children->awaits(timer.owner, timer.generation);
    };
    const uint64_t job = rig.start(shell("read line"));
    rig.loop.timers.drop_until(awaited);
    CHECK(rig.loop.timers.size() == 1);
    rig.children->end(job);
    CHECK(rig.next().job == job);
    rig.loop.timers.drop_until(awaited);
    CHECK(rig.loop.timers.size() == 0);
}

TEST_CASE("a helper that is ended dies with its group and gives its result") {
    Running rig;
    if (!rig.ok()) {
        return;
    }
    const uint64_t job = rig.start(shell("sleep 1000 & echo $!; wait"));
    const uint64_t other = rig.start(shell("read line; echo other"));
    rig.children->end(job);
    rig.children->end(other + 1);
    std::set<uint64_t> killed;
    for (int i = 0; i < 2; ++i) {
        const ChildResult result = rig.next();
        if (result.exit.signal == SIGKILL) {
            killed.insert(result.job);
        }
        CHECK_FALSE(result.timed_out);
    }
    CHECK(killed == std::set<uint64_t>{job});
    CHECK(rig.children->quiet());
}

TEST_CASE("helpers don't outlive their owner") {
    Running rig;
    if (!rig.ok()) {
        return;
    }
    const Ends held = make_pipe();
    process::SpawnSpec spec = shell("echo $$ >&5; exec sleep 1000");
    spec.descriptors = {{held.b.get(), 5}};
    rig.start(std::move(spec));
    std::array<char, 32> number{};
    REQUIRE(::read(held.a.get(), number.data(), number.size() - 1) > 0);
    const UniqueFd helper = process_of(number.data());
    REQUIRE(helper.valid());
    rig.loop.ring.reset();
    rig.children.reset();
    CHECK(process::has_exited(helper.get()));
}

TEST_CASE("nor does what they left in their group") {
    Running rig;
    if (!rig.ok()) {
        return;
    }
    const Ends held = make_pipe();
    process::SpawnSpec spec = shell("sleep 1000 & echo $! >&5; wait");
    spec.descriptors = {{held.b.get(), 5}};
    rig.start(std::move(spec));
    std::array<char, 32> number{};
    REQUIRE(::read(held.a.get(), number.data(), number.size() - 1) > 0);
    const UniqueFd background = process_of(number.data());
    REQUIRE(background.valid());
    rig.loop.ring.reset();
    rig.children.reset();
    CHECK(exits_within(background.get(), 10'000));
}

TEST_CASE("helpers don't outlive a host that is killed") {
    Ends pids = make_pipe();
    REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    const pid_t host = ::fork();
    if (host == 0) {
        Running rig;
        if (rig.ok()) {
            process::SpawnSpec spec = shell("echo $$ >&5; exec sleep 1000");
            spec.descriptors = {{pids.b.get(), 5}};
            rig.start(std::move(spec));
            ::pause();
        }
        ::_exit(0);
    }
    pids.b.reset();
    std::array<char, 32> number{};
    if (::read(pids.a.get(), number.data(), number.size() - 1) > 0) {
        const UniqueFd helper = process_of(number.data());
        REQUIRE(helper.valid());
        REQUIRE(::kill(host, SIGKILL) == 0);
        CHECK(exits_within(helper.get(), 10'000));
        ignore(process::signal_pidfd(helper.get(), SIGKILL), "it should be gone");
        ignore(process::reap(helper.get()), "it may be somebody else's");
    }
    REQUIRE(::waitpid(host, nullptr, 0) == host);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_CASE("what a helper left in the background can't hold its output, and dies") {
    Running rig;
    if (!rig.ok()) {
        return;
    }
    rig.start(shell("sleep 1000 & echo $!"));
    const ChildResult result = rig.next();
    CHECK(result.exit.exit_code == 0);
    CHECK_FALSE(result.timed_out);
    const UniqueFd background = process_of(result.output);
    const bool gone = !background.valid() || exits_within(background.get(), 10'000);
    CHECK(gone);
}

TEST_CASE("nor can one that has left the group") {
    Running rig;
    if (!rig.ok()) {
        return;
    }
    const Ends left = make_pipe();
    process::SpawnSpec spec =
        shell("setsid sh -c 'echo $$; echo >&6; exec sleep 1000' & read line <&5");
    spec.descriptors = {{left.a.get(), 5}, {left.b.get(), 6}};
    rig.start(std::move(spec));
    const ChildResult result = rig.next();
    CHECK(result.exit.exit_code == 0);
    CHECK(rig.children->quiet());
    const UniqueFd runaway = process_of(result.output);
    REQUIRE(runaway.valid());
    CHECK_FALSE(process::has_exited(runaway.get()));
    REQUIRE(process::signal_pidfd(runaway.get(), SIGKILL).has_value());
}

TEST_CASE("nor can one that has left the group and never stops writing") {
    Running rig;
    if (!rig.ok()) {
        return;
    }
    // Output is nearly always there to be read, so the cancel of a read comes too late for some.
    constexpr int kHelpers = 8;
    std::vector<Ends> pipes;  // one each: who goes on another's word ends before its own has left
    for (int i = 0; i < kHelpers; ++i) {
        const Ends& left = pipes.emplace_back(make_pipe());
        process::SpawnSpec spec =
            shell("setsid sh -c 'echo $$; echo >&6; exec yes more' & read line <&5");
        spec.descriptors = {{left.a.get(), 5}, {left.b.get(), 6}};
        rig.start(std::move(spec));
    }
    for (int i = 0; i < kHelpers; ++i) {
        const ChildResult result = rig.next();
        CHECK(result.exit.exit_code == 0);
        CHECK_FALSE(result.timed_out);
        // Nobody reads what it writes any more.
        const UniqueFd runaway = process_of(result.output);
        const bool gone = !runaway.valid() || exits_within(runaway.get(), 10'000);
        CHECK(gone);
    }
    CHECK(rig.children->quiet());
}

TEST_CASE("output past its bound is read and dropped, so that the helper goes on") {
    Running rig;
    if (!rig.ok()) {
        return;
    }
    rig.start(
        shell("i=0; while [ $i -lt 40 ]; do "
              "printf '%10000s' x; i=$((i+1)); done; exit 3"));
    const ChildResult result = rig.next();
    CHECK(result.exit.exit_code == 3);
    CHECK(result.output.size() == Children::kOutputBytesMax);
}

TEST_CASE("descriptors given along are the helper's, and no longer ours") {
    Running rig;
    if (!rig.ok()) {
        return;
    }
    Ends pipe = make_pipe();
    REQUIRE(::write(pipe.b.get(), "hello\n", 6) == 6);
    const int number = pipe.a.get();
    process::SpawnSpec spec = shell("head -c 6 <&5");
    spec.descriptors = {{number, 5}};
    std::vector<UniqueFd> keep;
    keep.push_back(std::move(pipe.a));
    rig.children->run(std::move(spec), std::move(keep), milliseconds(kPatienceMs));
    CHECK(::fcntl(number, F_GETFD) == -1);
    CHECK(rig.next().output == "hello\n");
}

TEST_CASE("an old deadline doesn't meet who has the slot now") {
    Running rig;
    if (!rig.ok()) {
        return;
    }
    rig.start(shell("exit 1"), seconds(5));
    CHECK(rig.next().exit.exit_code == 1);
    Ends pipe = make_pipe();
    process::SpawnSpec spec = shell("read line; echo $line");
    spec.descriptors = {{pipe.a.get(), 0}};
    rig.start(std::move(spec));
    rig.pass(seconds(6));
    REQUIRE(::write(pipe.b.get(), "alive\n", 6) == 6);
    const ChildResult result = rig.next();
    CHECK(result.output == "alive\n");
    CHECK(result.exit.exit_code == 0);
}

TEST_CASE("helpers run beside each other, and each result is its own") {
    Running rig;
    if (!rig.ok()) {
        return;
    }
    std::vector<uint64_t> jobs;
    for (int i = 0; i < 8; ++i) {
        jobs.push_back(rig.start(shell("echo " + std::to_string(i))));
    }
    std::vector<std::string> outputs(jobs.size());
    for (size_t i = 0; i < jobs.size(); ++i) {
        const ChildResult result = rig.next();
        const auto job = std::find(jobs.begin(), jobs.end(), result.job);
        REQUIRE(job != jobs.end());
        outputs[static_cast<size_t>(job - jobs.begin())] = result.output;
    }
    for (size_t i = 0; i < jobs.size(); ++i) {
        CHECK(outputs[i] == std::to_string(i) + "\n");
    }
}
