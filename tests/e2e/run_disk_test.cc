// Goal: a session's own files are bounded by a check, and what ended runs leave goes away by
// itself. Method: real sessions that write; the end of one that is over the limit tells that a
// check has been, for one check looks at all.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

void limit_disk(World& world, int64_t bytes) {
    world.system.set("limits", object({{"runDiskBytes", bytes}, {"diskCheckSeconds", 1}}));
    world.write_config();
}

// Sends a script that nobody waits for.
void tell(const World& world, const char* instance, const std::string& script) {
    REQUIRE(world.mosaic({"send", instance, script}).exit.code == 0);
}

void check_ended_for_disk(World& world, const std::string& run) {
    const json::Value end = world.wait_log("end", run);
    CHECK(text(end, "reason") == "stopped");
    CHECK(text(end, "detail") == "disk");
}

// Makes directories below the current one, each in the one before.
std::string deep(int levels) {
    return "/usr/bin/python3 -c 'import os\nfor i in range(" + std::to_string(levels) +
           "): os.mkdir(\"d\"); os.chdir(\"d\")'";
}

void make_old(const std::string& path, int days) {
    timespec times[2] = {};
    times[0].tv_sec = times[1].tv_sec = ::time(nullptr) - time_t{days} * 24 * 3600;
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0);
}

// Waits until the last of the paths, which lie in `directory`, is gone.
bool wait_removed(const std::string& directory, const std::vector<std::string>& paths) {
    return wait_for_change({directory}, [&] {
        return std::none_of(
            paths.begin(), paths.end(), [](const std::string& path) { return exists(path); });
    });
}

bool wait_trimmed(const std::string& rw) {
    return wait_removed(rw, {rw + "/tmp", rw + "/home"});
}

}  // namespace

TEST_CASE("a session that fills its run directory is ended and says disk") {
    World world;
    limit_disk(world, 2 * 1024 * 1024);
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const std::string other = text(world.launch("reviewer"), "run");
    tell(world, "coder", "dd if=/dev/zero of=/tmp/large bs=1M count=16 2>/dev/null; sleep 600");
    check_ended_for_disk(world, run);
    bool told = false;
    for (const json::Value& event : world.events()) {
        told = told || (contains(json::dump(event), "session.ended") &&
                        contains(json::dump(event), run) && contains(json::dump(event), "disk"));
    }
    CHECK(told);
    CHECK_CONTAINS(world.host_log(), "limits.runDiskBytes");
    // What lies in a workspace isn't counted, and the others work on.
    CHECK(trim(world.ask("reviewer", "dd if=/dev/zero of=large bs=1M count=8 2>/dev/null; pwd")) ==
          world.workspace("reviewer"));
    const std::string again = text(world.launch("coder"), "run");
    tell(world, "coder", "dd if=/dev/zero of=$HOME/large bs=1M count=16 2>/dev/null");
    check_ended_for_disk(world, again);
    CHECK(world.session(other).has_value());
}

TEST_CASE("links and odd trees neither hide disk use nor make it up") {
    World world;
    limit_disk(world, 64 * 1024 * 1024);
    write_text(world.workspace("coder") + "/large", std::string(80 * 1024 * 1024, 'x'));
    world.start();
    const std::string honest = text(world.launch("coder"), "run");
    const std::string hiding = text(world.launch("reviewer"), "run");
    // Below the limit, whatever it looks like.
    const std::string odd = "set -e; cd /tmp; ln -s " + world.workspace("coder") +
                            "/large link; ln -s " + world.workspace("coder") +
                            " dir; mkfifo pipe; ln -s / root; truncate -s 1T hole; " + deep(300) +
                            "; echo made";
    CHECK(trim(world.ask("coder", odd)) == "made");
    // Above it, where a walk as an ordinary user can't look.
    tell(world,
         "reviewer",
         "mkdir -p /tmp/a/b; dd if=/dev/zero of=/tmp/a/b/large bs=1M count=80 2>/dev/null; "
         "chmod 000 /tmp/a/b /tmp/a; sleep 600");
    check_ended_for_disk(world, hiding);
    CHECK(trim(world.ask("coder", "echo lives")) == "lives");
    CHECK(world.session(honest).has_value());
    CHECK(!contains(world.host_log(), "can't be looked into"));
    world.stop_run(honest);
    CHECK(wait_trimmed(world.run_directory(honest) + "/rw"));
}

TEST_CASE("tmp and home of a run go at its end and what it did stays") {
    World world;
    write_text(world.root + "/victim/outside", "mine", 0600);
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const std::string rw = world.run_directory(run) + "/rw";
    const std::string script = "set -e; cd /tmp; ln -s " + world.root +
                               "/victim link; mkfifo pipe; mkdir -p shut/in; chmod 000 shut; "
                               "echo x >$HOME/file; chmod 755 " +
                               rw + "; " + deep(500) + "; echo made";
    CHECK(trim(world.ask("coder", script)) == "made");
    REQUIRE(exists(rw + "/tmp/pipe"));
    world.stop_run(run);
    CHECK(wait_trimmed(rw));
    CHECK(exists(rw + "/turns/0001.reply"));
    CHECK(exists(rw + "/session"));
    CHECK(exists(world.run_directory(run) + "/runner.log"));
    CHECK(exists(world.run_directory(run) + "/bundle/manifest.json"));
    CHECK(read_text(world.root + "/victim/outside") == "mine");
}

TEST_CASE("what a host that died left behind is tidied up by the next") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const std::string rw = world.run_directory(run) + "/rw";
    CHECK(trim(world.ask("coder", "echo x >/tmp/file; echo made")) == "made");
    const std::string ended = text(world.launch("reviewer"), "run");
    world.stop_run(ended);
    world.kill();
    // As if it had died right after the reviewer's end.
    std::filesystem::create_directories(world.run_directory(ended) + "/rw/tmp/left");
    world.start();
    CHECK(wait_trimmed(rw));
    CHECK(wait_trimmed(world.run_directory(ended) + "/rw"));
    CHECK(exists(rw + "/turns/0001.reply"));
}

TEST_CASE("directories of ended runs stay by count") {
    World world;
    world.system.set("limits", object({{"runsKept", 2}}));
    world.write_config();
    world.start();
    std::vector<std::string> runs;
    for (int i = 0; i < 4; ++i) {
        runs.push_back(text(world.launch("coder"), "run"));
        world.stop_run(runs.back());
        world.wait_log("end", runs.back());
    }
    CHECK(wait_removed(world.data + "/launches/acme",
                       {world.run_directory(runs[0]), world.run_directory(runs[1])}));
    CHECK(exists(world.run_directory(runs[2])));
    CHECK(exists(world.run_directory(runs[3])));
}

TEST_CASE("directories of ended runs stay by age") {
    World world;
    world.system.set("limits", object({{"runsKeptDays", 7}}));
    world.write_config();
    world.start();
    const std::string old = text(world.launch("coder"), "run");
    const std::string young = text(world.launch("reviewer"), "run");
    for (const std::string& run : {old, young}) {
        world.stop_run(run);
        CHECK(wait_trimmed(world.run_directory(run) + "/rw"));
    }
    world.stop();
    make_old(world.run_directory(old), 8);
    make_old(world.run_directory(old) + "/runner.log", 8);
    // What a session may write makes it no younger.
    make_old(world.run_directory(old) + "/rw", -50'000);
    // It was launched long ago and ended a moment ago.
    make_old(world.run_directory(young) + "/runner.log", 8);
    world.start();
    CHECK(wait_removed(world.data + "/launches/acme", {world.run_directory(old)}));
    CHECK(exists(world.run_directory(young)));
}
