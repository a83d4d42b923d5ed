// Goal: what lies on disk is what the contract says, file by file and mode by mode; a session can
// change none of it, and what a session plants is never followed. Method: look, then let a turn's
// shell try.

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

json::Value read_json(const std::string& path) {
    const auto value = json::parse(read_text(path), {.depth_max = 16});
    REQUIRE_MESSAGE(value.has_value(), path << ": " << read_text(path));
    return *value;
}

void check_mode(const std::string& path, mode_t mode) {
    CAPTURE(path);
    REQUIRE(exists(path));
    CHECK(mode_of(path) == mode);
}

}  // namespace

TEST_CASE("each file of the data root has its place and its mode") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const std::string thread_run = text(world.launch("reviewer", "t1"), "run");
    world.ask("coder", "echo turn");
    check_mode(world.data, 0700);
    check_mode(world.bus_host(), 0700);
    for (const char* name :
         {"lock", "sessions.json", "broker.sqlite", "launch.sock", "bus.sock", "admin.sock"}) {
        check_mode(world.bus_host() + "/" + name, 0600);
    }
    check_mode(world.bus_host() + "/stage", 0700);
    // One tree for each module and one for the probe.
    const auto stages = names_in(world.bus_host() + "/stage");
    CHECK(!stages.empty());
    for (const std::string& stage : stages) {
        CHECK(stage.size() == 64);
        check_mode(world.bus_host() + "/stage/" + stage, 0700);
    }
    check_mode(world.data + "/launches", 0700);
    check_mode(world.data + "/launches/acme.jsonl", 0600);
    check_mode(world.data + "/launches/acme", 0700);
    const std::string directory = world.run_directory(run);
    check_mode(directory, 0700);
    check_mode(directory + "/session.json", 0600);
    check_mode(directory + "/runner.log", 0600);
    check_mode(directory + "/bundle", 0700);
    for (const char* name : {"manifest.json", "prompt.md", "policy.json", "tools.json"}) {
        REQUIRE(exists(directory + "/bundle/" + name));
    }
    for (const char* name : {"rw", "rw/home", "rw/tmp", "rw/session", "rw/turns", "rw/io"}) {
        check_mode(directory + "/" + name, 0700);
    }
    REQUIRE(exists(directory + "/rw/io/tools.sock"));
    const auto turns = names_in(directory + "/rw/turns");
    REQUIRE(turns.size() == 3);
    for (const std::string& name : turns) {
        check_mode(directory + "/rw/turns/" + name, 0600);
    }
    CHECK(turns[0] == "0001.reply");
    CHECK(turns[1] == "0001.request");
    CHECK(turns[2] == "0001.stderr");
    check_mode(world.data + "/threads/acme/reviewer/t1", 0700);
    check_mode(world.data + "/threads/acme/reviewer/t1/session", 0700);
    CHECK(exists(world.run_directory(thread_run)));
    CHECK(trim(read_text(world.bus_host() + "/lock")) == std::to_string(world.host().pid()));
    world.stop_run(run);
    world.wait_log("end", run);
    CHECK(!exists(directory + "/rw/io/tools.sock"));
}

TEST_CASE("sessions.json and session.json hold what readers rely on") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const std::string thread_run = text(world.launch("reviewer", "t1"), "run");
    const json::Value file = read_json(world.bus_host() + "/sessions.json");
    CHECK(number(file, "sessionsVersion") == 1);
    CHECK(text(file, "bootId") == trim(read_text("/proc/sys/kernel/random/boot_id")));
    const json::Value entry = *world.session(run);
    CHECK(text(entry, "business") == "acme");
    CHECK(text(entry, "instance") == "coder");
    CHECK(entry.find("thread") == nullptr);
    CHECK(text(entry, "runDir") == world.run_directory(run));
    CHECK(text(entry, "launchedBy") == "jordan");
    CHECK(text(entry, "harness") == "script");
    CHECK(text(entry, "provider") == kProvider);
    CHECK(text(entry, "model") == kModel);
    CHECK(!text(entry, "at").empty());
    CHECK(text(entry, "startTime") == start_time_of(outer_pid(entry)));
    CHECK(text(entry, "runnerStartTime") == start_time_of(runner_pid(entry)));
    CHECK(text(*world.session(thread_run), "thread") == "t1");
    // The outer is bwrap and the runner is its child, pid 1 inside.
    const std::string status = read_text("/proc/" + std::to_string(runner_pid(entry)) + "/status");
    CHECK_CONTAINS(status, "PPid:\t" + std::to_string(outer_pid(entry)) + "\n");
    CHECK_CONTAINS(status, "NSpid:\t" + std::to_string(runner_pid(entry)) + "\t1\n");

    const json::Value session = read_json(world.run_directory(run) + "/session.json");
    CHECK(text(session, "business") == "acme");
    CHECK(text(session, "instance") == "coder");
    CHECK(text(session, "run") == run);
    CHECK(text(session, "harness") == "script");
    CHECK(text(session, "thinking") == kThinking);
    CHECK(text(session, "brokerSocket") == world.bus_host() + "/bus.sock");
    CHECK(is_null(session, "launchSocket"));
    CHECK(text(session, "workspace") == world.workspace("coder"));
    for (const char* key : {"sessionDir", "adapter", "toolSocket", "turnMarker", "turnEnd"}) {
        CAPTURE(key);
        CHECK(!text(session, key).empty());
    }
    for (const char* key : {"prompt", "policy", "tools"}) {
        CAPTURE(key);
        CHECK(exists(text(*session.find("bundle"), key)));
    }
    CHECK(session.find("harnessEnv") != nullptr);
    CHECK(session.find("limits") != nullptr);

    const std::string bundle = world.run_directory(run) + "/bundle";
    CHECK_CONTAINS(read_text(bundle + "/prompt.md"), "# coder");
    CHECK(read_json(bundle + "/tools.json").array() != nullptr);
    const json::Value policy = read_json(bundle + "/policy.json");
    for (const char* key :
         {"harness", "workspace", "tools", "typed", "network", "needs", "credentials"}) {
        CAPTURE(key);
        CHECK(policy.find(key) != nullptr);
    }
    const json::Value manifest = read_json(bundle + "/manifest.json");
    for (const char* key : {"run",
                            "route",
                            "routeReason",
                            "harnessVersion",
                            "bwrapVersion",
                            "mosaicVersion",
                            "binds",
                            "hardening",
                            "limits"}) {
        CAPTURE(key);
        CHECK(manifest.find(key) != nullptr);
    }
    CHECK(text(manifest, "routeReason") == "primary");
    CHECK_CONTAINS(json::dump(*manifest.find("binds")), world.workspace("coder"));
}

TEST_CASE("a session can change none of its protected files whatever the host does") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const std::string directory = world.run_directory(run);
    const std::string tries =
        "d=" + directory +
        "; for f in session.json runner.log bundle/policy.json bundle/manifest.json; do "
        "(echo x >> $d/$f) 2>/dev/null && echo wrote $f; "
        "rm -f $d/$f 2>/dev/null && echo removed $f; "
        "mv $d/$f $d/$f.x 2>/dev/null && echo moved $f; "
        "ln -sf /etc/passwd $d/$f 2>/dev/null && echo linked $f; done; "
        "mv $d/bundle $d/b 2>/dev/null && echo moved bundle; "
        "mkdir $d/new 2>/dev/null && echo made; echo tried";
    CHECK(trim(world.ask("coder", tries)) == "tried");
    // Everything that the host does while a session lives: other launches, ends, entries, log
    // lines.
    world.launch("reviewer");
    world.stop_run("reviewer");
    CHECK(world.mosaic({"launches", "revoke"}).exit.code == 0);
    CHECK(trim(world.ask("coder", tries)) == "tried");
    CHECK_CONTAINS(world.ask("coder", "cat " + directory + "/session.json"), run);
}

TEST_CASE("what a session plants in its writable places is never followed") {
    World world;
    write_text(world.root + "/victim/outside.txt", "mine", 0600);
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const std::string rw = world.run_directory(run) + "/rw";
    const std::string outside = world.root + "/victim/outside.txt";
    const std::string answer = world.ask(
        "coder",
        "cd " + rw + " || exit 1; for n in 0002 0003; do for k in request reply stderr; do ln -s " +
            outside +
            " turns/$n.$k; done; done; for k in request reply stderr; do mkfifo turns/0004.$k; "
            "done; "
            "rm -f io/turn.done; ln -s " +
            outside +
            " io/turn.done; "
            "rm -rf home; ln -s " +
            world.root +
            "/victim home; mkfifo tmp/pipe; "
            "mkdir -p tmp/locked/in; chmod 000 tmp/locked; echo planted");
    // A home that is a mount point may not be removed; the rest is what counts.
    CHECK_CONTAINS(answer, "planted");
    for (int i = 0; i < 4; ++i) {
        // Each turn may fail, none may hang the session or write outside.
        const Finished finished =
            world.mosaic({"send", "coder", "echo again", "--wait", "30", "--json"});
        CHECK(!finished.timed_out);
    }
    CHECK(read_text(outside) == "mine");
    CHECK(world.mosaic({"log", "--json"}).exit.code == 0);
    world.stop_run(run);
    world.wait_log("end", run);
    CHECK(read_text(outside) == "mine");
    CHECK(names_in(world.root + "/victim").size() == 1);
    world.launch("coder");
    CHECK(trim(world.ask("coder", "echo next")) == "next");
    // Nothing of it keeps the run's /tmp from going.
    CHECK(wait_for_change({rw}, [&] { return !exists(rw + "/tmp"); }));
}

TEST_CASE("a workspace that is a link is bound where it leads") {
    World world;
    std::filesystem::create_directories(world.root + "/ws/real");
    std::filesystem::create_directory_symlink(world.root + "/ws/real", world.root + "/ws/link");
    world.role("coder").set("workspace", world.root + "/ws/link");
    std::filesystem::create_directory_symlink(world.root + "/ws/none", world.root + "/ws/dangling");
    world.role("reviewer").set("workspace", world.root + "/ws/dangling");
    world.start();
    world.launch("coder");
    CHECK(trim(world.ask("coder", "pwd -P; echo x > made")) == world.root + "/ws/real");
    CHECK(exists(world.root + "/ws/real/made"));
    CHECK(world.launch_refused("reviewer") == "workspace-missing");
}

TEST_CASE("a workspace below /tmp works and the rest of /tmp stays hidden") {
    World world;
    std::string pattern = "/tmp/mosaic-e2e-ws.XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    std::filesystem::create_directories(pattern + "/ws");
    write_text(pattern + "/ws/inside", "1");
    write_text(pattern + "/beside", "2");
    world.role("coder").set("workspace", pattern + "/ws");
    world.start();
    world.launch("coder");
    CHECK(trim(world.ask("coder",
                         "cat inside; ls /tmp; ls " + pattern + "; echo scratch > " + pattern +
                             ".mine")) == "1" + pattern.substr(5) + "\nws");
    CHECK(!exists(pattern + ".mine"));
    std::filesystem::remove_all(pattern);
}

TEST_CASE("a coder reads and writes exactly what it should") {
    World world;
    write_text(world.home + "/.ssh/id", "key", 0600);
    write_text(world.home + "/.claude/credentials", "key", 0600);
    write_text(world.workspace("pm") + "/plan", "plan");
    world.start();
    world.launch("pm");
    const std::string run = text(world.launch("coder"), "run");
    const std::string pm_run = text(world.wait_log_count("launch", 2)[0], "run");
    const std::string own = world.run_directory(run);

    struct Probe {
        std::string what;
        std::string command;
        bool works;
    };

    const std::vector<Probe> probes = {
        {"own workspace, write", "echo x > file", true},
        {"own workspace, make a directory", "mkdir dir", true},
        {"/tmp, write", "echo x > /tmp/file", true},
        {"HOME, write", "echo x > $HOME/file", true},
        {"/dev/null", "echo x > /dev/null", true},
        {"/dev/shm", "echo x > /dev/shm/file", true},
        {"/etc/passwd, read", "cat /etc/passwd", true},
        {"/usr, read", "ls /usr/bin", true},
        {"own contract, read", "cat " + own + "/bundle/prompt.md", true},
        {"own session.json, read", "cat " + own + "/session.json", true},
        {"own proc", "cat /proc/self/status", true},
        {"/etc, write", "echo x > /etc/file", false},
        {"/usr, write", "echo x > /usr/file", false},
        {"root, write", "echo x > /file", false},
        {"/dev, write", "echo x > /dev/file", false},
        {"/run, write", "echo x > /run/file", false},
        {"own bundle, write", "echo x > " + own + "/bundle/file", false},
        {"own run directory, write", "echo x > " + own + "/file", false},
        {"staged tree, write", "echo x > /run/mosaic/file", false},
        {"the PM's run directory", "ls " + world.run_directory(pm_run), false},
        {"the PM's session.json", "cat " + world.run_directory(pm_run) + "/session.json", false},
        {"the PM's workspace", "cat " + world.workspace("pm") + "/plan", false},
        {"the reviewer's workspace", "ls " + world.workspace("reviewer"), false},
        {"broker's store", "cat " + world.bus_host() + "/broker.sqlite", false},
        {"sessions.json", "cat " + world.bus_host() + "/sessions.json", false},
        {"lock", "cat " + world.bus_host() + "/lock", false},
        {"launch log", "cat " + world.data + "/launches/acme.jsonl", false},
        {"data root's threads", "ls " + world.data + "/threads", false},
        {"system file", "cat " + world.system_file, false},
        {"business file", "cat " + world.business_file, false},
        {"roles", "ls " + world.root + "/config/roles", false},
        {"ssh key", "cat " + world.home + "/.ssh/id", false},
        {"claude's home", "ls " + world.home + "/.claude", false},
        {"the host's home", "ls " + world.home + "/.ssh", false},
        {"/var", "ls /var/lib", false},
        {"/root", "ls /root/.", false},
        {"host processes", "ls /proc/" + std::to_string(world.host().pid()), false},
        {"mount", "mount -t tmpfs x /tmp", false},
        {"new user namespace", "unshare -U true", false},
        {"raw device", "cat /dev/mem", false},
    };
    std::string script;
    for (const Probe& probe : probes) {
        script += "( " + probe.command + " ) >/dev/null 2>&1 && echo yes || echo no\n";
    }
    std::string answer = world.ask("coder", script);
    size_t at = 0;
    for (const Probe& probe : probes) {
        CAPTURE(probe.what);
        const size_t end = answer.find('\n', at);
        REQUIRE(end != std::string::npos);
        CHECK(answer.substr(at, end - at) == (probe.works ? "yes" : "no"));
        at = end + 1;
    }
    CHECK(!exists("/tmp/file"));
    CHECK(exists(world.workspace("coder") + "/file"));
}

TEST_CASE("a session without network has loopback and nothing else") {
    World world;
    world.set_var("coder", "network", "none");
    world.start();
    world.launch("coder");
    const std::string answer =
        world.ask("coder", "cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '");
    CHECK(trim(answer) == "lo");
}
