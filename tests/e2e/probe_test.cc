// Goal: what docs/security.md promises about a session holds in the real product, and each row that
// says so would notice if it didn't. Method: the probe table of tests/sandbox as a turn of a real
// session, and again with a runner that lacks one protection on purpose.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "e2e/harness.h"
#include "sandbox/probe_table.h"

using namespace mosaic;
using namespace mosaic::e2e;
using mosaic::test::Probe;
using mosaic::test::probe_answers;
using mosaic::test::probe_script;
using mosaic::test::probe_table;
using mosaic::test::ProbePlaces;
using mosaic::test::program_table;
using mosaic::test::runner_table;
using mosaic::test::RunnerPlaces;
using mosaic::test::shell_word;

namespace {

constexpr int64_t kShmBytes = int64_t{1} * 1024 * 1024;
constexpr int64_t kProcesses = 300;
constexpr int64_t kMemoryBytes = int64_t{256} * 1024 * 1024;
constexpr int64_t kOpenFiles = 512;
constexpr unsigned kKeyOfItsKeyring = 0x3f000000;
constexpr unsigned kKeyOfItsUser = 0x3f0b0000;

// What the host's user has lying about in the kernel, for a session to look for.
class KernelObjects {
  public:
    KernelObjects()
        : shm_key(static_cast<key_t>(0x4d70'0000 | (::getpid() & 0xffff))),
          queue("/mosaic-e2e-" + std::to_string(::getpid())),
          shm_file("/dev/shm/mosaic-e2e-" + std::to_string(::getpid())) {
        segment_ = ::shmget(shm_key, 4096, IPC_CREAT | 0600);
        REQUIRE(segment_ >= 0);
        const mqd_t made = ::mq_open(queue.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600, nullptr);
        REQUIRE(made >= 0);
        ::mq_close(made);
        write_text(shm_file, "");
        // As a login's: the host and all below it would inherit it.
        REQUIRE(::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr) > 0);
        open_key = add_key("mosaic-e2e-open", kKeyOfItsUser);
        add_key("mosaic-e2e-kept", kKeyOfItsKeyring);
    }

    KernelObjects(const KernelObjects&) = delete;
    KernelObjects& operator=(const KernelObjects&) = delete;

    ~KernelObjects() {
        ::shmctl(segment_, IPC_RMID, nullptr);
        ::mq_unlink(queue.c_str());
        ::unlink(shm_file.c_str());
        ::syscall(SYS_keyctl, KEYCTL_CLEAR, KEY_SPEC_SESSION_KEYRING);
    }

    key_t shm_key;
    std::string queue;
    std::string shm_file;
    long open_key = 0;

  private:
    static long add_key(const char* name, unsigned permissions) {
        const long id =
            ::syscall(SYS_add_key, "user", name, "secret", 6UL, KEY_SPEC_SESSION_KEYRING);
        REQUIRE(id > 0);
        REQUIRE(::syscall(SYS_keyctl, KEYCTL_SETPERM, id, permissions) == 0);
        return id;
    }

    int segment_ = -1;
};

// A socket of the host's user without a file.
class AbstractSocket {
  public:
    explicit AbstractSocket(const std::string& what)
        : name("mosaic-e2e-" + what + "-" + std::to_string(::getpid())),
          fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path + 1, name.data(), name.size());
        const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
        REQUIRE(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
        REQUIRE(::listen(fd_.get(), 8) == 0);
    }

    std::string name;

  private:
    UniqueFd fd_;
};

void place_calls(const World& world, std::string_view instance) {
    std::filesystem::copy_file(MOSAIC_PROBE_CALLS, world.workspace(instance) + "/probe_calls");
}

std::string calls_of(const World& world, std::string_view instance) {
    return shell_word(world.workspace(instance) + "/probe_calls") + " ";
}

// Makes everything that the table looks for, around a session of coder beside one of reviewer.
ProbePlaces places_of(const World& world,
                      const KernelObjects& objects,
                      const std::string& run,
                      const std::string& other_run) {
    ProbePlaces p;
    p.workspace = world.workspace("coder");
    p.run_dir = world.run_directory(run);
    p.data_root = world.data;
    p.other_run = world.run_directory(other_run);
    p.other_workspace = world.workspace("reviewer");
    p.home = world.home;
    p.host_tmp_file = "/tmp/mosaic-e2e-" + std::to_string(::getpid());
    p.host_shm_file = objects.shm_file;
    std::array<char, 16> key{};
    std::snprintf(key.data(), key.size(), "0x%08x", static_cast<unsigned>(objects.shm_key));
    p.shm_key = key.data();
    p.host_comm = trim(read_text("/proc/self/comm"));
    for (const char* kind : {"cgroup", "ipc", "mnt", "pid", "user", "uts"}) {
        p.host_namespaces +=
            std::filesystem::read_symlink(std::string("/proc/self/ns/") + kind).string() + " ";
    }
    p.queue = objects.queue;
    p.key = std::to_string(objects.open_key);
    p.kept_key = "mosaic-e2e-kept";
    p.calls = p.workspace + "/probe_calls";
    p.canary = "canary-of-the-host";
    p.uid = ::getuid();
    p.shm_bytes = kShmBytes;
    write_text(p.workspace + "/mine", "of the workspace\n");
    write_text(p.other_workspace + "/theirs", "");
    for (const char* path : {"/.ssh/id", "/.config/mosaic/system.json", "/.claude/settings.json"}) {
        std::filesystem::create_directories(
            (world.home + path).substr(0, (world.home + path).rfind('/')));
        write_text(world.home + path, "");
    }
    write_text(p.host_tmp_file, "");
    return p;
}

// What bounds the memory of this run; 0, and said why: nothing.
int64_t memory_bytes_of(const World& world, const std::string& run) {
    const auto manifest =
        json::parse(read_text(world.run_directory(run) + "/bundle/manifest.json"), {8});
    REQUIRE(manifest.has_value());
    for (const json::Value& level : *manifest->find("hardening")->array()) {
        if (text(level, "name") == "cgroup" && text(level, "level") != "on") {
            MESSAGE("left out, a session's memory is bounded: " << text(level, "reason"));
            return 0;
        }
    }
    return kMemoryBytes;
}

// Runs a table in a turn of an instance; the names of the rows that differ, which it reports.
std::set<std::string> failing(World& world,
                              std::string_view instance,
                              const std::vector<Probe>& table,
                              bool report) {
    // By argument: the shell that reads the message must not share it with what it starts.
    write_text(world.workspace(instance) + "/probes.sh", probe_script(table));
    const std::string output = world.ask(instance, "sh -c \"$(cat probes.sh)\" sh </dev/null");
    const auto answers = probe_answers(output, table);
    std::set<std::string> out;
    for (const Probe& probe : table) {
        const auto answer = answers.find(probe.name);
        const std::string got = answer == answers.end() ? "(no answer)" : answer->second;
        if (got != probe.expected) {
            out.insert(probe.name);
            if (report) {
                MESSAGE(probe.name << ": expected \"" << probe.expected << "\", got \"" << got
                                   << "\"");
            }
        }
    }
    return out;
}

void limit_sessions(World& world) {
    json::Value limits = object({{"shmBytes", kShmBytes}});
    limits.set("processes", kProcesses);
    limits.set("openFiles", kOpenFiles);
    limits.set("memoryBytes", kMemoryBytes);
    world.system.set("limits", std::move(limits));
}

RunnerPlaces runner_places(const World& world, const AbstractSocket& socket) {
    return {world.workspace("coder") + "/probe_calls", kProcesses, kOpenFiles, socket.name};
}

bool kernel_scopes() {
    return ::syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, 1U) >= 6;
}

}  // namespace

TEST_CASE("every row of the probe table holds in a real turn") {
    for (const char* network : {"host", "none"}) {
        CAPTURE(network);
        const KernelObjects objects;
        World world;
        limit_sessions(world);
        world.set_var("coder", "network", network);
        place_calls(world, "coder");
        world.start({.pm = false,
                     .more_arguments = {},
                     .more_env = {{"SOME_SECRET", "canary-of-the-host"}},
                     .inherited = {}});
        const std::string other = text(world.launch("reviewer"), "run");
        const std::string run = text(world.launch("coder"), "run");
        ProbePlaces places = places_of(world, objects, run, other);
        places.memory_bytes = memory_bytes_of(world, run);
        CHECK(failing(world, "coder", probe_table(places), true).empty());
        ::unlink(places.host_tmp_file.c_str());
    }
}

TEST_CASE("a turn can't reach its runner even when one of two protections is missing") {
    if (!kernel_scopes()) {
        MESSAGE("this kernel has no Landlock scopes: the second protection is missing anyway");
    }
    // What each of them stops by itself. A signal is refused by the scope alone.
    const std::vector<std::pair<std::string, std::set<std::string>>> mistakes = {
        {"none", {}},
        {"dumpable", {}},
        {"scope", {"the runner can't be signalled", "abstract sockets outside are out of reach"}},
        {"dumpable scope",
         {"the runner is out of its turn's reach",
          "the runner can't be signalled",
          "abstract sockets outside are out of reach"}},
        {"limits", {"limits are set, and none that breaks programs"}},
    };
    const AbstractSocket socket("reach");
    for (const auto& [weakness, noticed_by] : mistakes) {
        if (!kernel_scopes() && !noticed_by.empty()) {
            continue;
        }
        CAPTURE(weakness);
        World world(World::Runner::weak);
        limit_sessions(world);
        world.system.set("sandbox", object({{"passEnv", strings({"WEAK_RUNNER"})}}));
        place_calls(world, "coder");
        world.start({.pm = false,
                     .more_arguments = {},
                     .more_env = {{"WEAK_RUNNER", weakness}},
                     .inherited = {}});
        world.launch("coder");
        const std::vector<Probe> table = runner_table(runner_places(world, socket));
        CHECK(failing(world, "coder", table, noticed_by.empty()) == noticed_by);
    }
}

TEST_CASE("the programs of a workspace work under the whole hardening") {
    World world;
    world.start();
    world.launch("coder");
    std::vector<Probe> here;
    for (const Probe& probe : program_table(world.workspace("coder"))) {
        if (::access(("/usr/bin/" + probe.name).c_str(), X_OK) == 0) {
            here.push_back(probe);
        } else {
            MESSAGE("not installed: " << probe.name);
        }
    }
    CHECK(failing(world, "coder", here, true).empty());
}

TEST_CASE("sessions don't meet on abstract sockets") {
    if (!kernel_scopes()) {
        MESSAGE("skipped: this kernel has no Landlock scopes");
        return;
    }
    World world;
    place_calls(world, "coder");
    place_calls(world, "reviewer");
    world.start();
    world.launch("coder");
    world.launch("reviewer");
    LineStream admin = world.admin();
    const std::string name = "meeting-" + std::to_string(::getpid());
    admin.request(
        "message.send",
        object({{"to", "coder"},
                {"class", "NOTE"},
                {"body", calls_of(world, "coder") + "listen " + name + " ready </dev/null"}}));
    REQUIRE(wait_for_change({world.workspace("coder")},
                            [&] { return exists(world.workspace("coder") + "/ready"); }));
    CHECK(world.ask("reviewer", calls_of(world, "reviewer") + "connect " + name) ==
          "connect EPERM\n");
    CHECK(world.ask("reviewer", calls_of(world, "reviewer") + "meet here-" + name) ==
          "connect ok\n");
}

TEST_CASE("a session that has used up its processes keeps no other from starting") {
    World world;
    limit_sessions(world);
    place_calls(world, "coder");
    world.start();
    world.launch("coder");
    LineStream admin = world.admin();
    // Far more than the limit, and few enough for the machine if there were none.
    admin.request(
        "message.send",
        object({{"to", "coder"},
                {"class", "NOTE"},
                {"body",
                 calls_of(world, "coder") +
                     "bomb 2000 >forked && mv forked done && cat </dev/zero >/dev/null"}}));
    REQUIRE(wait_for_change({world.workspace("coder")},
                            [&] { return exists(world.workspace("coder") + "/done"); }));
    const std::string forked = read_text(world.workspace("coder") + "/done");
    CHECK_CONTAINS(forked, "EAGAIN after ");
    CHECK(std::stoll(forked.substr(forked.rfind(' ') + 1)) < kProcesses);
    world.launch("reviewer");
    CHECK(trim(world.ask("reviewer", "echo alive")) == "alive");
    world.stop_run("coder");
    world.launch("coder");
}

TEST_CASE("sandboxes inside a session work where they are asked for and nowhere else") {
    for (const bool nested : {false, true}) {
        CAPTURE(nested);
        World world;
        world.system.set("sandbox", object({{"nested", nested}}));
        world.start();
        world.launch("coder");
        const std::string inner =
            "bwrap --ro-bind / / --dev /dev --proc /proc --unshare-pid echo inside 2>/dev/null; "
            "unshare --user --map-root-user --mount sh -c 'mount -t tmpfs none /tmp && echo "
            "mounted' 2>/dev/null || echo refused";
        CHECK(world.ask("coder", inner) == (nested ? "inside\nmounted\n" : "refused\n"));
    }
}

TEST_CASE("namespaces that a session makes are bounded and it has no capability to change that") {
    World world;
    world.system.set("sandbox", object({{"nested", true}}));
    // Holds as many as it gets.
    write_text(world.workspace("coder") + "/hold.py",
               "import ctypes, os, signal\n"
               "libc, held, made = ctypes.CDLL(None), [], True\n"
               "while made and len(held) < 400:\n"
               "    r, w = os.pipe()\n"
               "    pid = os.fork()\n"
               "    if pid == 0:\n"
               "        os.write(w, b'y' if libc.unshare(0x10000000) == 0 else b'n')\n"
               "        signal.pause()\n"
               "    made = os.read(r, 1) == b'y'\n"
               "    if made:\n"
               "        held.append(os.open(f'/proc/{pid}/ns/user', 0))\n"
               "    os.kill(pid, 9)\n"
               "    os.waitpid(pid, 0)\n"
               "    os.close(r)\n"
               "    os.close(w)\n"
               "print(len(held))\n");
    world.start();
    world.launch("coder");
    CHECK(
        world.ask("coder",
                  "grep -h ^Cap /proc/self/status | cut -f 2 | sort -u; python3 hold.py; "
                  "cat /proc/sys/user/max_user_namespaces; "
                  "(echo 9999 >/proc/sys/user/max_user_namespaces) 2>/dev/null || echo refused") ==
        "0000000000000000\n256\n256\nrefused\n");
}

TEST_CASE("the manifest and the doctor name each level of hardening with its reason") {
    World world;
    world.set_var("coder", "network", "none");
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const auto manifest =
        json::parse(read_text(world.run_directory(run) + "/bundle/manifest.json"), {8});
    REQUIRE(manifest.has_value());
    std::set<std::string> on;
    std::set<std::string> all;
    for (const json::Value& level : *manifest->find("hardening")->array()) {
        all.insert(text(level, "name"));
        CHECK(!text(level, "reason").empty());
        if (text(level, "level") == "on") {
            on.insert(text(level, "name"));
        }
    }
    for (const char* name : {"namespaces",
                             "capabilities",
                             "nested-user-namespaces",
                             "network",
                             "keyring",
                             "seccomp",
                             "runner-not-dumpable",
                             "dev-read-only",
                             "process-limits",
                             "oom-score"}) {
        CAPTURE(name);
        CHECK(on.contains(name));
    }
    CHECK(on.contains("landlock-scope") == kernel_scopes());
    // Whether there is one is the machine's choice; groups_test.cc.
    CHECK(all.contains("cgroup"));
    const Finished doctor = world.mosaic({"doctor", "--json"});
    std::set<std::string> told;
    const json::Value found = doctor.json();
    for (const json::Value& check : *found.find("checks")->array()) {
        told.insert(text(check, "name"));
    }
    for (const std::string& name : all) {
        CAPTURE(name);
        CHECK(told.contains(name));
    }
}
