// Goal: what stops a host from starting, or a sandbox from being made, is said with its cause and
// its exit code, and touches nothing. Method: one wrong thing each.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

// A stand-in bwrap that fails as the real one does on a machine that doesn't let it work.
std::string failing_bwrap(const World& world, std::string_view message) {
    const std::string path = world.root + "/bin/bwrap";
    write_text(path,
               "#!/bin/sh\ncase \"$1\" in --version) echo 'bubblewrap 0.8.0'; exit 0;; esac\n"
               "echo '" +
                   std::string(message) + "' >&2\nexit 1\n",
               0755);
    return path;
}

}  // namespace

TEST_CASE("a second host on one data root ends with 3 and names the holder") {
    World world;
    world.start();
    world.launch("coder");
    const Finished second = world.run_host();
    CHECK(second.exit.code == 3);
    CHECK_CONTAINS(second.err, std::to_string(world.host().pid()));
    // The first goes on.
    CHECK(trim(world.ask("coder", "echo on")) == "on");
}

TEST_CASE("the lock is free again after a host was killed with its sessions alive") {
    World world;
    world.start();
    world.launch("coder");
    world.kill();
    world.start();
    CHECK(world.sessions().empty());
}

TEST_CASE("a sessions.json that can't be understood stops the start and is left as it is") {
    World world;
    world.start();
    world.launch("coder");
    world.stop();
    const std::string path = world.bus_host() + "/sessions.json";
    const std::string good = read_text(path);
    const std::string entry =
        R"({"business":"acme","instance":"coder","run":"r0123456789ab","runDir":")" +
        world.run_directory("r0123456789ab") +
        R"(","pid":1,"startTime":"1","runnerPid":1,"runnerStartTime":"1","launchedBy":"jordan",)"
        R"("harness":"script","provider":"local","model":"shell","at":"2026-01-01T00:00:00.000Z"})";
    std::string other = entry;
    other.replace(other.find("acme"), 4, "evil");
    const std::string head = R"({"sessionsVersion":1,"bootId":"x","sessions":[)";
    const std::vector<std::string> contents = {
        "",
        "{",
        good.substr(0, good.size() / 2),
        good + R"(,"sessions":[]})",
        good + good,
        std::string(200, '\0'),
        "{}",
        "[]",
        R"({"sessionsVersion":9,"bootId":"x","sessions":[]})",
        R"({"sessionsVersion":1,"bootId":"x"})",
        R"({"sessionsVersion":1,"bootId":"x","sessions":{}})",
        head + R"({"business":"acme"}]})",
        head + entry + "," + entry + "]}",
        head + other + "]}",
    };
    for (const std::string& content : contents) {
        CAPTURE(content);
        write_text(path, content, 0600);
        const Exit exit = world.start_fails();
        CHECK(exit.code == 3);
        CHECK_CONTAINS(world.host_log(), "sessions.json");
        CHECK(read_text(path) == content);
    }
    write_text(path, good, 0600);
    world.start();
}

TEST_CASE("a missing sessions.json is made empty") {
    World world;
    world.start();
    world.stop();
    ::unlink((world.bus_host() + "/sessions.json").c_str());
    world.start();
    CHECK(world.sessions().empty());
    CHECK(mode_of(world.bus_host() + "/sessions.json") == 0600);
}

TEST_CASE("a data root whose sockets would be too long or that lies under /tmp is refused") {
    World world;
    const std::string deep = world.root + "/" + std::string(90, 'd');
    std::vector<std::string> argv = world.host_argv();
    world.write_config();
    argv.back() = deep;
    Finished finished = run(argv, world.environment());
    CHECK(finished.exit.code == 3);
    CHECK_CONTAINS(finished.err, "107");
    CHECK(!exists(deep + "/bus-host/launch.sock"));
    argv.back() = "/tmp/mosaic-e2e-refused";
    finished = run(argv, world.environment());
    CHECK(finished.exit.code == 3);
    CHECK_CONTAINS(finished.err, "/tmp");
    CHECK(!exists("/tmp/mosaic-e2e-refused"));
}

TEST_CASE("a data root deep enough for its sockets but not for a run's own works") {
    World world;
    // bus-host/launch.sock just fits in 107 bytes; launches/acme/<run>/rw/io/tools.sock doesn't.
    const std::string base = world.root + "/";
    const std::string tail = "/bus-host/launch.sock";
    REQUIRE(base.size() + tail.size() < 107);
    world.data = base + std::string(107 - base.size() - tail.size(), 'd');
    world.start();
    world.launch("pm");
    CHECK_CONTAINS(
        world.ask("pm", "/run/mosaic/mosaic-runner tool launch '{\"instance\":\"coder\"}'"),
        "\"run\":\"r");
}

TEST_CASE("a mistake in a configuration file names file and pointer and what was expected") {
    struct Row {
        const char* what;
        void (*apply)(World&);
        const char* file;
        const char* pointer;
    };

    const std::vector<Row> rows = {
        {"an unknown key",
         [](World& w) { w.business.set("rolles", json::Object{}); },
         "acme.json",
         "/rolles"},
        {"a wrong type",
         [](World& w) { w.role("coder").set("workspace", 7); },
         "acme.json",
         "/roles/coder/workspace"},
        {"a partial fallback",
         [](World& w) { w.set_var("coder", "fallback.harness", "script"); },
         "acme.json",
         "/roles/coder/vars"},
        {"a bad id",
         [](World& w) { w.business.set("human", "Jordan Smith"); },
         "acme.json",
         "/human"},
        {"a missing member",
         [](World& w) {
             std::erase_if(*w.role("coder").object(),
                           [](const json::Member& m) { return m.first == "workspace"; });
         },
         "acme.json",
         "/roles/coder"},
        {"an unknown system key",
         [](World& w) { w.system.set("datRoot", "/x"); },
         "system.json",
         "/datRoot"},
        {"a wrong limit",
         [](World& w) {
             w.system.set("limits", object({{"claimMs", "soon"}}));
         },
         "system.json",
         "/limits/claimMs"},
        {"a forbidden variable",
         [](World& w) {
             w.system.set("sandbox", object({{"passEnv", strings({"GH_TOKEN"})}}));
         },
         "system.json",
         "/sandbox/passEnv"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.what);
        World world;
        row.apply(world);
        CHECK(world.start_fails().code == 3);
        CHECK_CONTAINS(world.host_log(), row.file);
        CHECK_CONTAINS(world.host_log(), row.pointer);
        CHECK(!exists(world.bus_host() + "/launch.sock"));
    }
}

TEST_CASE("a configuration file that is no whole document is refused") {
    for (const char* content :
         {"", "{", "{} {}", "{\"id\":\"acme\",\"id\":\"acme\"}", "nonsense"}) {
        CAPTURE(content);
        World world;
        world.write_config();
        write_text(world.business_file, content, 0600);
        const Finished finished = run(world.host_argv(), world.environment());
        CHECK(finished.exit.code == 3);
        CHECK_CONTAINS(finished.err, "acme.json");
    }
}

TEST_CASE("a configuration that others may write is refused") {
    World world;
    world.write_config();
    ::chmod(world.business_file.c_str(), 0666);
    Finished finished = run(world.host_argv(), world.environment());
    CHECK(finished.exit.code == 3);
    CHECK_CONTAINS(finished.err, "acme.json");
    ::chmod(world.business_file.c_str(), 0600);
    ::chmod((world.root + "/config/roles").c_str(), 0777);
    finished = run(world.host_argv(), world.environment());
    CHECK(finished.exit.code == 3);
    CHECK_CONTAINS(finished.err, "roles");
}

TEST_CASE("wrong usage of the commands ends with 4") {
    World world;
    world.write_config();
    const std::string host = world.prefix() + "/bin/mosaic-host";
    CHECK(run({host}, world.environment()).exit.code == 4);
    CHECK(run({host, "--nonsense"}, world.environment()).exit.code == 4);
    const std::string command = world.prefix() + "/bin/mosaic";
    CHECK(run({command, "nonsense"}, world.environment()).exit.code == 4);
    CHECK(run({command, "--help"}, world.environment()).exit.code == 0);
    CHECK(run({command, "version"}, world.environment()).exit.code == 0);
    CHECK(run({host, "--help"}, world.environment()).exit.code == 0);
}

TEST_CASE("a missing bwrap refuses launches with its name and starts once it is there") {
    World world;
    const std::string path = world.root + "/bin/bwrap";
    std::filesystem::create_directories(world.root + "/bin");
    world.system.set("sandbox", object({{"bwrap", path}}));
    world.start();
    CHECK(world.launch_refused("coder") == "sandbox-unavailable");
    CHECK_CONTAINS(world.refusal_message, path + " is missing");
    CHECK(names_in(world.data + "/launches/acme").empty());
    std::filesystem::copy_file("/usr/bin/bwrap", path);
    world.launch("coder");
    CHECK(trim(world.ask("coder", "echo in")) == "in");
}

TEST_CASE("each way in which a machine forbids sandboxes is named with its remedy") {
    struct Row {
        const char* message;
        const char* remedy;
    };

    const std::vector<Row> rows = {
        {"bwrap: setting up uid map: Permission denied", "apparmor"},
        {"bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "apparmor"},
        {"bwrap: No permissions to create new namespace, likely because the kernel does not allow "
         "non-privileged user namespaces. See <https://deb.li/bubblewrap> or "
         "<file:///usr/share/doc/bubblewrap/README.Debian.gz>.",
         "unprivileged_userns_clone"},
        {"bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces "
         "exceeded (ENOSPC)",
         "max_user_namespaces"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.message);
        World world;
        const std::string path = failing_bwrap(world, row.message);
        world.system.set("sandbox", object({{"bwrap", path}}));
        world.start();
        CHECK(world.launch_refused("coder") == "sandbox-unavailable");
        CHECK_CONTAINS(world.refusal_message, path + " failed: ");
        CHECK_CONTAINS(world.refusal_message, std::string(row.message).substr(7));
        CHECK(!contains(world.refusal_message, "o space left on device"));
        CAPTURE(world.refusal_message);
        CHECK_CONTAINS(world.refusal_message, row.remedy);
        CHECK(names_in(world.data + "/launches/acme").empty());
        CHECK(world.sessions().empty());
        // The machine was set right: the next launch asks again.
        ::unlink(path.c_str());
        std::filesystem::copy_file("/usr/bin/bwrap", path);
        world.launch("coder");
    }
}

TEST_CASE("a bwrap that passes the probe and fails the launch ends it as the sandbox's failure") {
    World world;
    const std::string path = world.root + "/bin/bwrap";
    // The probe runs the self-test; anything else fails the way that bwrap does.
    write_text(path,
               "#!/bin/sh\ncase \"$*\" in\n*self-test*|--version|--help) exec /usr/bin/bwrap "
               "\"$@\";;\nesac\n"
               "echo \"bwrap: Can't bind mount /oldroot/x on /newroot/x: No such file or "
               "directory\" >&2\nexit 1\n",
               0755);
    world.system.set("sandbox", object({{"bwrap", path}}));
    world.start();
    const std::string code = world.launch_refused("coder");
    CHECK(code == "launch-failed");
    CHECK_CONTAINS(world.refusal_message, "Can't bind mount");
    CHECK(world.wait_sessions(0));
    const auto lines = world.log();
    REQUIRE(lines.size() == 1);
    CHECK_CONTAINS(json::dump(lines[0]), "Can't bind mount");
    // Neither the seat nor the room is lost.
    CHECK(world.launch_refused("coder") == code);
}

TEST_CASE("a bwrap that hangs costs its launch and not the host") {
    World world;
    const std::string path = world.root + "/bin/bwrap";
    write_text(path,
               "#!/bin/sh\ncase \"$*\" in\n*self-test*|--version|--help) exec /usr/bin/bwrap "
               "\"$@\";;\nesac\nexec sleep 1000\n",
               0755);
    world.system.set("sandbox", object({{"bwrap", path}}));
    world.system.set("limits", object({{"runnerPidMs", 1500}}));
    world.start();
    LineStream admin = world.admin();
    const int64_t id = admin.ask("launch", object({{"instance", "coder"}}));
    CHECK(*world.admin().request("sessions", json::Object{}).find("ok") == json::Value(true));
    CHECK(text(admin.reply(id), "error") == "launch-failed");
    CHECK(world.wait_sessions(0));
}

TEST_CASE("a launch that waits too long for its set-up is refused as busy") {
    World world;
    const std::string path = world.root + "/bin/bwrap";
    write_text(path,
               "#!/bin/sh\ncase \"$*\" in\n*self-test*|--version|--help) exec /usr/bin/bwrap "
               "\"$@\";;\nesac\necho > " +
                   world.root + "/hangs\nexec sleep 1000\n",
               0755);
    world.system.set("sandbox", object({{"bwrap", path}}));
    world.system.set("limits",
                     object({{"setupInFlight", 1}, {"setupWaitMs", 200}, {"runnerPidMs", 60000}}));
    world.start();
    LineStream admin = world.admin();
    const int64_t first = admin.ask("launch", object({{"instance", "coder"}}));
    REQUIRE(wait_for_change({world.root}, [&] { return exists(world.root + "/hangs"); }));
    CHECK(world.launch_refused("reviewer") == "busy");
    CHECK(text(world.wait_log_count("refused", 1)[0], "code") == "busy");
    // It has left nothing: its seat is free for the next one, which waits in its turn.
    CHECK(world.launch_refused("reviewer") == "busy");
    CHECK(names_in(world.data + "/launches/acme").size() == 1);
    world.stop();
    CHECK(text(admin.reply(first), "error") == "host-stopping");
}

TEST_CASE("a stop during the probe of bwrap leaves no process and a kill takes it along") {
    World world;
    const std::string path = world.root + "/bin/bwrap";
    // It says that it runs and then never ends.
    write_text(path,
               "#!/bin/sh\ncase \"$*\" in\n*self-test*) echo $$ >" + world.root +
                   "/probe.tmp; mv " + world.root + "/probe.tmp " + world.root +
                   "/probe; exec sleep 1000;;\n*) exec /usr/bin/bwrap \"$@\";;\nesac\n",
               0755);
    world.system.set("sandbox", object({{"bwrap", path}}));
    world.start();
    REQUIRE(wait_for_change({world.root}, [&] { return exists(world.root + "/probe"); }));
    const auto probe = static_cast<pid_t>(std::stol(read_text(world.root + "/probe")));
    REQUIRE(!start_time_of(probe).empty());
    SUBCASE("stopped") {
        world.stop();
        CHECK(start_time_of(probe).empty());
        CHECK(world.processes().empty());
        CHECK(!contains(world.host_log(), "sessions can't start"));
    }
    SUBCASE("killed") {
        world.kill();
        CHECK(wait_gone(probe));
    }
}

TEST_CASE("a host whose error stream is closed goes on") {
    World world;
    world.start();
    world.launch("coder");
    // A second host on a data root of its own, with nobody reading its stderr.
    World other;
    other.write_config();
    std::array<int, 2> fds{};
    REQUIRE(::pipe(fds.data()) == 0);
    ::close(fds[0]);
    // To have something to watch; before the host looks at them, or it may see them half made.
    for (const std::string& directory : {other.data, other.bus_host()}) {
        std::filesystem::create_directories(directory);
        std::filesystem::permissions(directory, std::filesystem::perms::owner_all);
    }
    Child host = Child::start(
        other.host_argv(), other.environment(), {.out = -1, .err = fds[1], .extra = {}});
    ::close(fds[1]);
    REQUIRE(wait_for_change({other.bus_host()}, [&] {
        return LineStream::connect(other.bus_host() + "/admin.sock").valid() &&
               exists(other.bus_host() + "/launch.sock");
    }));
    other.launch("coder");
    CHECK(trim(other.ask("coder", "echo heard")) == "heard");
    host.signal(SIGTERM);
    const auto exit = host.wait();
    REQUIRE(exit.has_value());
    CHECK(exit->code == 0);
}

TEST_CASE("a start waits for the memory that a killed host's ring gives back late") {
    World world;
    world.write_config();
    rlimit own{};
    REQUIRE(::getrlimit(RLIMIT_MEMLOCK, &own) == 0);
    const rlimit none{0, own.rlim_max};
    const std::string log = world.root + "/host.log";
    const UniqueFd out(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    REQUIRE(::setrlimit(RLIMIT_MEMLOCK, &none) == 0);
    Child host = Child::start(
        world.host_argv(), world.environment(), {.out = out.get(), .err = out.get(), .extra = {}});
    REQUIRE(::setrlimit(RLIMIT_MEMLOCK, &own) == 0);
    const auto said = [&](std::string_view text) { return contains(read_text(log), text); };
    // Kernels that don't count a ring there serve at once.
    REQUIRE(wait_for_change({world.root},
                            [&] { return said("no memory for a ring") || said("serving acme"); }));
    REQUIRE(::prlimit(host.pid(), RLIMIT_MEMLOCK, &own, nullptr) == 0);
    CHECK_MESSAGE(wait_for_change({world.root}, [&] { return said("serving acme"); }),
                  read_text(log));
    host.signal(SIGTERM);
    const auto exit = host.wait();
    CHECK((exit && exit->code == 0));
}
