// Goal: the probe tells the truth about this machine. Method: real bubblewrap with a stand-in
// runner whose self-test is a shell script, here and where namespaces are used up; stand-ins for a
// bubblewrap that is too old.

#include <doctest/doctest.h>
#include <fcntl.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "sandbox/probe.h"
#include "sandbox/seccomp.h"
#include "session.h"

using mosaic::UniqueFd;
using mosaic::sandbox::explain;
using mosaic::sandbox::first_error_line;
using mosaic::sandbox::kSeccompFd;
using mosaic::sandbox::open_program;
using mosaic::sandbox::probe_argv;
using mosaic::sandbox::ProbeSpec;
using mosaic::sandbox::program_file;
using mosaic::sandbox::seccomp_program;
using mosaic::sandbox::session_filter;
using mosaic::test::sandbox_works;
using mosaic::test::Session;
using mosaic::test::Start;
using mosaic::test::World;

namespace {

ProbeSpec probe_of(const World& world) {
    ProbeSpec probe;
    probe.layout = world.spec().layout;
    probe.stage_dir = world.stage_dir();
    probe.shm_bytes = world.places().shm_bytes;
    return probe;
}

UniqueFd stage_fd(const World& world) {
    return UniqueFd(::open(world.stage_dir().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace

TEST_CASE("the probe passes where sessions can start, with and without network") {
    if (!sandbox_works()) {
        return;
    }
    const World world;
    const UniqueFd stage = stage_fd(world);
    for (const bool none : {false, true}) {
        ProbeSpec probe = probe_of(world);
        probe.options.network_none = none;
        probe.options.seccomp_fd = kSeccompFd;
        const auto program = seccomp_program(session_filter(false));
        REQUIRE(program.has_value());
        const auto filter = program_file(*program);
        REQUIRE(filter.has_value());
        const auto opened = open_program(filter->get());
        REQUIRE(opened.has_value());
        Session session({.argv = probe_argv(probe),
                         .environment = {},
                         .workspace_fd = stage.get(),
                         .more = {{opened->get(), kSeccompFd}}});
        session.finish();
        CHECK(session.errors() == "");
        CHECK(session.exit().exit_code == 0);
        CHECK(session.status().exit_code() == 0);
    }
}

TEST_CASE("a limit of namespaces that is used up is not reported as a full disk") {
    if (!sandbox_works()) {
        return;
    }
    const World world;
    const UniqueFd stage = stage_fd(world);
    Session session({.argv = probe_argv(probe_of(world)),
                     .environment = {"PATH=/usr/bin:/bin"},
                     .workspace_fd = stage.get(),
                     .before = {"/usr/bin/unshare",
                                "--user",
                                "--map-root-user",
                                "/bin/sh",
                                "-c",
                                "echo 0 >/proc/sys/user/max_user_namespaces; exec \"$@\"",
                                "sh"}});
    session.finish();
    CHECK(session.exit().exit_code == 1);
    CHECK_FALSE(session.status().exit_code().has_value());
    const auto because =
        explain("/usr/bin/bwrap", session.exit(), first_error_line(session.errors()));
    CHECK(because.reason ==
          "/usr/bin/bwrap failed: bwrap: Creating new namespace failed: nesting depth or "
          "/proc/sys/user/max_*_namespaces exceeded (ENOSPC)");
    CHECK(because.remedy.find("user.max_user_namespaces") != std::string::npos);
}

TEST_CASE("a bubblewrap that lacks an option says which version to install") {
    if (!sandbox_works()) {
        return;
    }
    namespace fs = std::filesystem;
    const World world;
    const std::string old = world.parent() + "/old-bwrap";
    std::ofstream(old) << "#!/bin/sh\n"
                          "for word; do\n"
                          "    [ \"$word\" != --bind-fd ] || {\n"
                          "        echo \"bwrap: Unknown option $word\" >&2\n"
                          "        exit 1\n"
                          "    }\n"
                          "done\n";
    fs::permissions(old, fs::perms::all);
    const UniqueFd stage = stage_fd(world);
    ProbeSpec probe = probe_of(world);
    probe.options.bwrap = old;
    Session session({.argv = probe_argv(probe), .environment = {}, .workspace_fd = stage.get()});
    session.finish();
    const auto because = explain(old, session.exit(), first_error_line(session.errors()));
    CHECK(because.reason == old + " failed: bwrap: Unknown option --bind-fd");
    CHECK(because.remedy.find("0.10.0") != std::string::npos);
}
