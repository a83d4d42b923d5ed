// Goal: what bubblewrap tells of a session's end is understood, for each way in which a session can
// end. Method: real bubblewrap around a shell, killed or broken from outside.

#include <doctest/doctest.h>

#include <csignal>
#include <string>
#include <vector>

#include "process/pidfd.h"
#include "process/proc.h"
#include "sandbox/binds.h"
#include "sandbox/status.h"
#include "sandbox/workspace.h"
#include "session.h"

using mosaic::EndReason;
using mosaic::sandbox::Bind;
using mosaic::sandbox::BindKind;
using mosaic::sandbox::binds;
using mosaic::sandbox::bwrap_argv;
using mosaic::sandbox::BwrapOptions;
using mosaic::sandbox::End;
using mosaic::sandbox::open_workspace;
using mosaic::sandbox::SandboxSpec;
using mosaic::test::sandbox_works;
using mosaic::test::Session;
using mosaic::test::Start;
using mosaic::test::World;

namespace {

using Words = std::vector<std::string>;

Words argv_of(const SandboxSpec& spec, const Words& command) {
    BwrapOptions options;
    options.directory = spec.run_dir;
    return bwrap_argv(options, binds(spec), command);
}

Words shell(const std::string& script) {
    return {"/bin/sh", "-c", script};
}

// A session with its workspace's descriptor, which must live until the start.
struct Started {
    mosaic::sandbox::Workspace workspace;
    Session session;

    Started(const World& world, const Words& argv)
        : workspace(*open_workspace(world.configured_workspace(), {})),
          session(Start{.argv = argv,
                        .environment = world.environment(),
                        .workspace_fd = workspace.fd.get()}) {}
};

End end_of(const World& world, const Words& argv) {
    Started started(world, argv);
    started.session.finish();
    return started.session.end();
}

}  // namespace

TEST_CASE("a command that ran has its own exit code") {
    if (!sandbox_works()) {
        return;
    }
    const World world;
    const SandboxSpec spec = world.spec();
    CHECK(end_of(world, argv_of(spec, shell("exit 0"))) == End{EndReason::stopped, 0, "", ""});
    CHECK(end_of(world, argv_of(spec, shell("exit 1"))) == End{EndReason::failed, 1, "", ""});
    CHECK(end_of(world, argv_of(spec, shell("exit 21"))) ==
          End{EndReason::claim_refused, 21, "", ""});
    CHECK(end_of(world, argv_of(spec, shell("exit 137"))) ==
          End{EndReason::killed, std::nullopt, "SIGKILL", ""});
    // What a session writes to its log is never taken for bubblewrap's failure.
    CHECK(end_of(world, argv_of(spec, shell("echo 'bwrap: no' >&2; exit 1"))) ==
          End{EndReason::failed, 1, "", ""});
}

TEST_CASE("a runner that never ran is the sandbox's failure, in bubblewrap's words") {
    if (!sandbox_works()) {
        return;
    }
    const World world;
    SandboxSpec broken = world.spec();
    broken.extra = {Bind{.kind = BindKind::read_only,
                         .source = "/nowhere/at/all",
                         .dest = "/nowhere/at/all",
                         .reason = "a mistake"}};
    CHECK(end_of(world, argv_of(broken, shell("exit 0"))) ==
          End{EndReason::failed,
              1,
              "",
              "sandbox: bwrap: Can't find source path /nowhere/at/all: No such file or directory"});
    CHECK(end_of(world, argv_of(world.spec(), {"/run/mosaic/none"})) ==
          End{EndReason::failed,
              1,
              "",
              "sandbox: bwrap: execvp /run/mosaic/none: No such file or directory"});
}

TEST_CASE("a runner that is killed reads killed, whoever was killed") {
    if (!sandbox_works()) {
        return;
    }
    const World world;
    Started started(world, argv_of(world.spec(), shell("echo ready; read line")));
    Session& session = started.session;
    session.wait_for("ready\n");
    session.read_status();
    REQUIRE(session.status().child_pid().has_value());
    const pid_t inner = *session.status().child_pid();
    // Inside it is number 1, and its parent is bubblewrap.
    CHECK(mosaic::process::read_ns_pids(inner).back() == 1);
    const auto runner = mosaic::process::open_pidfd(inner);
    REQUIRE(runner.has_value());
    SUBCASE("the runner") {
        REQUIRE(mosaic::process::signal_pidfd(runner->get(), SIGKILL).has_value());
    }
    SUBCASE("bubblewrap, and the runner with it") {
        REQUIRE(mosaic::process::signal_pidfd(runner->get(), SIGKILL).has_value());
        REQUIRE(mosaic::process::signal_pidfd(session.outer_pidfd(), SIGKILL).has_value());
    }
    session.finish();
    CHECK(session.end() == End{EndReason::killed, std::nullopt, "SIGKILL", ""});
}
