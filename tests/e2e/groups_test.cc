// Goal: where a control group is delegated to the host, each run has one of its own from its first
// instant to its end, with its limits, and nothing of it stays. Method: hosts that are started in
// groups below $MOSAIC_E2E_GROUP, a group of cgroup2 that is ours; tests/root/groups.sh makes one.
// What is limited depends on the controllers there; the tests say what they leave out.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "e2e/harness.h"
#include "sandbox/probe_table.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

constexpr int64_t kMemoryBytes = int64_t{96} << 20;

// A group for one host, which goes with the test. Empty: there is none here.
class Group {
  public:
    Group() {
        const char* given = std::getenv("MOSAIC_E2E_GROUP");
        if (given == nullptr || *given == '\0') {
            MESSAGE("skipped: no control group is delegated to this test (MOSAIC_E2E_GROUP)");
            return;
        }
        static int number = 0;
        path =
            std::string(given) + "/w" + std::to_string(::getpid()) + "-" + std::to_string(++number);
        REQUIRE(::mkdir(path.c_str(), 0755) == 0);
    }

    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

    ~Group() {
        if (!path.empty()) {
            ::rmdir((path + "/host").c_str());
            CHECK_MESSAGE(::rmdir(path.c_str()) == 0, "groups are left in " << path);
        }
    }

    [[nodiscard]] bool has(const char* controller) const {
        return contains(" " + trim(read_text(path + "/cgroup.controllers")) + " ",
                        " " + std::string(controller) + " ");
    }

    [[nodiscard]] std::string of(const std::string& run) const { return path + "/" + run; }

    // The host kills first and looks again until the group is empty.
    [[nodiscard]] static bool gone(const std::string& group) {
        return wait_for_change({group.substr(0, group.rfind('/'))}, [&] { return !exists(group); });
    }

    std::string path;
};

// "0::/…/NAME" of a process: whether it is that NAME.
bool is_in(pid_t pid, const std::string& name) {
    const std::string all = read_text("/proc/" + std::to_string(pid) + "/cgroup");
    const size_t at = all.find("0::");
    REQUIRE(at != std::string::npos);
    return all.substr(at, all.find('\n', at) - at).ends_with("/" + name);
}

json::Value level_of(const World& world, const std::string& run, std::string_view name) {
    const auto manifest =
        json::parse(read_text(world.run_directory(run) + "/bundle/manifest.json"), {8});
    REQUIRE(manifest.has_value());
    for (const json::Value& level : *manifest->find("hardening")->array()) {
        if (text(level, "name") == name) {
            return level;
        }
    }
    FAIL("no level " << name);
    return {};
}

// Starts the host in a group: an installation whose mosaic-host enters it first.
void start_in(World& world, const std::string& group) {
    const std::string bin = world.root + "/entered/bin";
    if (!exists(bin)) {
        std::filesystem::create_directories(bin);
        std::filesystem::create_symlink(world.prefix() + "/bin/mosaic", bin + "/mosaic");
        std::filesystem::create_symlink(world.prefix() + "/bin/mosaic-host", bin + "/real");
        world.set_prefix(world.root + "/entered");
    }
    write_text(
        bin + "/mosaic-host",
        "#!/bin/sh\necho $$ >'" + group + "/cgroup.procs' && exec '" + bin + "/real' \"$@\"\n",
        0755);
    world.start();
}

}  // namespace

TEST_CASE("each run has a control group from its start to its end") {
    const Group group;
    if (group.path.empty()) {
        return;
    }
    World world;
    json::Value limits = object({{"memoryBytes", kMemoryBytes}});
    limits.set("processes", 300);
    world.system.set("limits", std::move(limits));
    start_in(world, group.path);
    CHECK(is_in(world.host().pid(), "host"));
    CHECK(is_in(world.broker_pid(), "host"));
    const std::string run = text(world.launch("coder"), "run");
    const std::string other = text(world.launch("reviewer"), "run");
    const auto entry = world.session(run);
    REQUIRE(entry.has_value());
    CHECK(is_in(outer_pid(*entry), run + "/session"));
    CHECK(is_in(runner_pid(*entry), run + "/session"));
    // Its namespace begins there: it was inside before bwrap made one.
    CHECK(trim(world.ask("coder", "sed -n 's/^0:://p' /proc/self/cgroup")) == "/");
    CHECK_CONTAINS(world.host_log(), "a control group for each run: ");
    const json::Value level = level_of(world, run, "cgroup");
    CHECK(text(level, "level") == (group.has("memory") ? "on" : "off"));
    CHECK_CONTAINS(text(level, "reason"), "a control group for each run: ");
    CHECK_CONTAINS(world.mosaic({"doctor", "--business", world.business_file}).out,
                   "a control group for each run: ");
    if (group.has("memory")) {
        CHECK(read_text(group.of(run) + "/memory.max") == std::to_string(kMemoryBytes) + "\n");
    } else {
        MESSAGE("left out: no memory controller here");
    }
    if (group.has("pids")) {
        CHECK(read_text(group.of(run) + "/pids.max") == "308\n");
    } else {
        MESSAGE("left out: no pids controller here");
    }
    world.stop_run(run);
    CHECK(Group::gone(group.of(run)));
    CHECK(exists(group.of(other)));
    CHECK(trim(world.ask("reviewer", "echo works")) == "works");
    // Killed, both at once; and the seat is there for the next.
    const auto second = world.session(other);
    REQUIRE(second.has_value());
    ::kill(outer_pid(*second), SIGKILL);
    world.wait_log("end", other);
    CHECK(Group::gone(group.of(other)));
    const std::string next = text(world.launch("coder"), "run");
    world.stop();
    CHECK(Group::gone(group.of(next)));
}

TEST_CASE("control groups that a killed host left are emptied and removed by the next") {
    const Group group;
    if (group.path.empty()) {
        return;
    }
    World world;
    start_in(world, group.path);
    const std::string run = text(world.launch("coder"), "run");
    const auto entry = world.session(run);
    REQUIRE(entry.has_value());
    world.kill();
    CHECK(exists(group.of(run)));
    start_in(world, group.path + "/host");
    CHECK(Group::gone(group.of(run)));
    CHECK(wait_gone(runner_pid(*entry)));
    const std::string next = text(world.launch("coder"), "run");
    CHECK(exists(group.of(next)));
    world.stop();
    CHECK(Group::gone(group.of(next)));
}

TEST_CASE("a launch that fails leaves no control group") {
    const Group group;
    if (group.path.empty()) {
        return;
    }
    World world;
    const std::string path = world.root + "/bin/bwrap";
    std::filesystem::create_directories(world.root + "/bin");
    write_text(path,
               "#!/bin/sh\ncase \"$*\" in\n*self-test*|--version|--help) exec /usr/bin/bwrap "
               "\"$@\";;\nesac\nexit 1\n",
               0755);
    world.system.set("sandbox", object({{"bwrap", path}}));
    start_in(world, group.path);
    CHECK(world.launch_refused("coder") == "launch-failed");
    world.wait_log_count("refused", 1);
    for (const auto& entry : std::filesystem::directory_iterator(group.path)) {
        if (entry.is_directory() && entry.path().filename() != "host") {
            CHECK(Group::gone(entry.path()));
        }
    }
    world.stop();
}

TEST_CASE("sandboxes inside a session see their own control group alone") {
    const Group group;
    if (group.path.empty()) {
        return;
    }
    World world;
    world.system.set("sandbox", object({{"nested", true}}));
    start_in(world, group.path);
    const std::string run = text(world.launch("coder"), "run");
    // Beside its own processes there is one that it can't name: its own bwrap.
    CHECK(trim(world.ask("coder",
                         "unshare --user --map-root-user --mount --cgroup sh -c '"
                         "mount -t cgroup2 none /tmp && ls -d /tmp/host /tmp/r* 2>/dev/null; "
                         "grep -c ^0 /tmp/cgroup.procs; mkdir /tmp/a /tmp/a/b && echo made'")) ==
          "1\nmade");
    CHECK(exists(group.of(run) + "/session/a/b"));
    CHECK(world
              .mosaic({"send",
                       "coder",
                       "unshare --user --map-root-user --mount --cgroup sh -c 'mount -t cgroup2 "
                       "none /tmp && echo 1 >/tmp/cgroup.kill'"})
              .exit.code == 0);
    world.wait_log("end", run);
    CHECK(Group::gone(group.of(run)));
    // Not the same one: it would get the message again.
    world.launch("reviewer");
    CHECK(trim(world.ask("reviewer", "echo alive")) == "alive");
    world.stop();
}

TEST_CASE("groups that a session makes in its own are bounded and go with it") {
    const Group group;
    if (group.path.empty()) {
        return;
    }
    World world;
    world.system.set("sandbox", object({{"nested", true}}));
    start_in(world, group.path);
    const std::string run = text(world.launch("coder"), "run");
    // What it may write where its namespace begins is below its limits.
    const std::string name(250, 'd');
    CHECK(trim(world.ask("coder",
                         "unshare --user --map-root-user --mount --cgroup sh -c '"
                         "wide() { n=0; while mkdir /tmp/g$n 2>/dev/null; do n=$((n + 1)); done; "
                         "echo $n; }; "
                         "mount -t cgroup2 none /tmp && cd /tmp && "
                         "echo max >cgroup.max.descendants; echo max >cgroup.max.depth; "
                         "wide; rmdir g*; n=0; while mkdir " +
                             name + " 2>/dev/null && cd " + name +
                             "; do n=$((n + 1)); done; echo $n; wide'")) == "256\n16\n240");
    world.stop_run(run);
    CHECK(Group::gone(group.of(run)));

    // What an earlier host left has whatever bounds; those here are past all paths.
    const std::string left = text(world.launch("coder"), "run");
    world.kill();
    write_text(group.of(left) + "/cgroup.max.descendants", "max");
    write_text(group.of(left) + "/cgroup.max.depth", "max");
    for (int i = 0; i < 2000; ++i) {
        REQUIRE(::mkdir((group.of(left) + "/session/g" + std::to_string(i)).c_str(), 0755) == 0);
    }
    UniqueFd at(::open((group.of(left) + "/session").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (int i = 0; i < 40; ++i) {
        REQUIRE(::mkdirat(at.get(), name.c_str(), 0755) == 0);
        at.reset(::openat(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        REQUIRE(at.valid());
    }
    at.reset();
    start_in(world, group.path + "/host");
    world.launch("reviewer");
    CHECK(trim(world.ask("reviewer", "echo works")) == "works");
    CHECK(Group::gone(group.of(left)));
    CHECK_FALSE(contains(world.host_log(), "can't be removed"));
    world.stop();
}

TEST_CASE("an operator's shell can't write the operator's own control group") {
    const Group group;
    if (group.path.empty()) {
        return;
    }
    World world;
    world.system.set("sandbox", object({{"nested", true}}));
    start_in(world, group.path);
    const Group mine;
    const Finished shell =
        run(world.shell_argv("echo $$ >'" + mine.path +
                             "/cgroup.procs' || exit 9; printf '%s\\n' 'unshare -U true || echo "
                             "\"nested=$(echo refused)\"' 'exit 7'"),
            world.environment());
    CHECK(shell.exit.code == 7);
    CHECK_CONTAINS(shell.err, "without sandbox.nested");
    CHECK_CONTAINS(shell.err, "a session could write " + mine.path);
    CHECK_CONTAINS(shell.out, "nested=refused");
    // Sessions have it.
    world.launch("coder");
    CHECK(trim(world.ask("coder", "unshare -U true && echo nested")) == "nested");
    world.stop();
}

TEST_CASE("sandbox.nested is refused where a session sees a user's group of version 1") {
    const char* given = std::getenv("MOSAIC_E2E_OLDER_GROUP");
    if (given == nullptr || *given == '\0') {
        MESSAGE("skipped: no control group of version 1 is the user's (MOSAIC_E2E_OLDER_GROUP)");
        return;
    }
    const std::string group = given;
    // Where the machine has mounted it.
    const std::string danger = "/" + group.substr(group.rfind('/') + 1) + "/cgroup.clone_children ";
    // The host is in it, or where the tests are, above it.
    for (const bool above : {false, true}) {
        CAPTURE(above);
        World world;
        if (above) {
            world.start();
        } else {
            start_in(world, group);
        }
        world.system.set("sandbox", object({{"nested", true}}));
        world.write_config();
        const Finished reload = world.mosaic({"reload"});
        CHECK(reload.exit.code != 0);
        CHECK_CONTAINS(reload.err, danger);
        const Finished doctor = world.mosaic({"doctor", "--business", world.business_file});
        CHECK(doctor.exit.code == 3);
        CHECK_CONTAINS(doctor.out, danger);
        CHECK_CONTAINS(doctor.out, "switch sandbox.nested off");
        world.stop();
        CHECK(world.start_fails().code == 3);
        CHECK_CONTAINS(world.host_log(), danger + "from a namespace of its own");
    }
}

TEST_CASE("a session that uses up its memory leaves the others working") {
    const Group group;
    if (group.path.empty()) {
        return;
    }
    if (!group.has("memory")) {
        MESSAGE("skipped: no memory controller here");
        return;
    }
    World world;
    world.system.set("limits", object({{"memoryBytes", kMemoryBytes}}));
    start_in(world, group.path);
    const std::string run = text(world.launch("coder"), "run");
    world.launch("reviewer");
    const test::Probe row = test::detail::memory_probe(kMemoryBytes);
    CHECK(world.ask("coder", row.script) == row.expected);
    CHECK_CONTAINS(read_text(group.of(run) + "/memory.events"), "oom_kill 1");
    CHECK(trim(world.ask("coder", "echo on")) == "on");
    CHECK(trim(world.ask("reviewer", "echo works")) == "works");
    world.launch("tester");
    world.stop();
}
