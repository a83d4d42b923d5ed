// Goal: without a host, stop ends a session that is one and nothing else. Method: sessions.json
// names real processes, some of which only look like a runner.

#include "support.h"

using namespace mosaic;
using namespace mosaic::test;

namespace {

Finished stop(const Scratch& scratch, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "stop");
    arguments.insert(arguments.end(), {"--data", scratch / "data", "--json"});
    return run_mosaic(scratch, std::move(arguments));
}

const char* const kStopped =
    "{\"stopped\":true,\"business\":\"acme\",\"instance\":\"coder\",\"run\":\"r0123456789ab\"}\n";
const char* const kStale =
    "{\"stopped\":false,\"reason\":\"run r0123456789ab is not running (stale entry)\"}\n";

}  // namespace

TEST_CASE("SIGTERM is sent again until the runner goes") {
    const Scratch scratch;
    const std::string run_dir = scratch / "run";
    const auto runner = puppet("mosaic-runner", run_dir, 1);
    write_sessions(scratch, {entry_of(run_dir, runner->pid(), runner->pid())});
    const Finished done = stop(scratch, {"r0123456789ab"});
    CHECK(done.exit_code == 0);
    CHECK(done.out == kStopped);
    const process::Exit exit = runner->wait_exit();
    CHECK(exit.signal == 0);
    CHECK(exit.exit_code == 0);
}

TEST_CASE("past the timeout the runner and its bubblewrap are killed") {
    const Scratch scratch;
    const std::string run_dir = scratch / "run";
    const auto runner = puppet("/run/mosaic/mosaic-runner", run_dir, 1'000'000);
    const auto outer = puppet("/usr/bin/bwrap", run_dir, 1'000'000);
    write_sessions(scratch, {entry_of(run_dir, runner->pid(), outer->pid())});
    const Finished done = stop(scratch, {"coder", "--timeout", "0.1"});
    CHECK(done.exit_code == 0);
    CHECK(done.out == kStopped);
    CHECK(runner->wait_exit().signal == 9);
    CHECK(outer->wait_exit().signal == 9);
}

TEST_CASE("an outer process that isn't this run's bubblewrap is never signalled") {
    const Scratch scratch;
    const std::string run_dir = scratch / "run";
    const auto runner = puppet("mosaic-runner", run_dir, 1'000'000);
    const auto stranger = puppet("/usr/bin/bwrap", scratch / "another", 1'000'000);
    write_sessions(scratch, {entry_of(run_dir, runner->pid(), stranger->pid())});
    CHECK(stop(scratch, {"coder", "--timeout", "0"}).out == kStopped);
    CHECK(runner->wait_exit().signal == 9);
    CHECK(stranger->alive());
}

TEST_CASE("a process that isn't a session runner is refused and left alone") {
    const Scratch scratch;
    const std::string run_dir = scratch / "run";
    for (const char* name : {"tail", "mosaic-runner-not"}) {
        const auto stranger = puppet(name, run_dir, 0);
        write_sessions(scratch, {entry_of(run_dir, stranger->pid(), stranger->pid())});
        const Finished done = stop(scratch, {"r0123456789ab"});
        CHECK(done.exit_code == 1);
        CHECK(done.err.find("is not a session runner; refusing to signal it") != std::string::npos);
        CHECK(stranger->alive());
    }
}

TEST_CASE("a number that another process has by now is stale") {
    const Scratch scratch;
    const std::string run_dir = scratch / "run";
    const auto stranger = puppet("mosaic-runner", run_dir, 0);
    registry::SessionEntry entry = entry_of(run_dir, stranger->pid(), stranger->pid());
    entry.process.runner_start_time = "1";
    write_sessions(scratch, {entry});
    const Finished done = stop(scratch, {"r0123456789ab"});
    CHECK(done.exit_code == 0);
    CHECK(done.out == kStale);
    CHECK(stranger->alive());
}

TEST_CASE("an entry of another boot is stale whatever its numbers name now") {
    const Scratch scratch;
    const std::string run_dir = scratch / "run";
    const auto stranger = puppet("mosaic-runner", run_dir, 0);
    scratch.write("data/bus-host/sessions.json",
                  registry::dump_sessions(
                      {"another-boot", {entry_of(run_dir, stranger->pid(), stranger->pid())}}));
    CHECK(stop(scratch, {"coder"}).out == kStale);
    CHECK(stranger->alive());
}

TEST_CASE("a session that has ended is stale") {
    const Scratch scratch;
    const std::string run_dir = scratch / "run";
    registry::SessionEntry entry;
    {
        const auto runner = puppet("mosaic-runner", run_dir, 0);
        entry = entry_of(run_dir, runner->pid(), runner->pid());
    }
    write_sessions(scratch, {entry});
    CHECK(stop(scratch, {"coder"}).out == kStale);
}

TEST_CASE("an unknown run or instance is an error, exit 1") {
    const Scratch scratch;
    write_sessions(scratch, {});
    const Finished run = stop(scratch, {"r00000000000f"});
    CHECK(run.exit_code == 1);
    CHECK(run.err == "mosaic: no running session has run id r00000000000f\n");
    CHECK(*run.json().find("ok") == json::Value(false));
    const Finished instance = stop(scratch, {"nope"});
    CHECK(instance.exit_code == 1);
    CHECK(instance.err == "mosaic: no session of nope is running\n");
    CHECK(stop(scratch, {"nope", "--thread", "t1"}).err ==
          "mosaic: no session of nope/t1 is running\n");
}
