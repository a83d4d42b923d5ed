// Goal: a machine where sessions can't start says why in bubblewrap's words and what to do about it
// in ours. Method: the messages that bubblewrap has (0.8.0 and, where they differ, others), as a
// table.

#include "sandbox/probe.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "scratch.h"

using mosaic::Code;
using mosaic::sandbox::explain;
using mosaic::sandbox::explain_exec;
using mosaic::sandbox::identity_of;
using mosaic::sandbox::probe_argv;
using mosaic::sandbox::ProbeSpec;
using mosaic::sandbox::Unavailable;

TEST_CASE("bubblewrap's messages have a remedy that fits") {
    struct Row {
        std::string line;
        std::string remedy;  // must stand in it
    };

    const std::vector<Row> table = {
        {"bwrap: setting up uid map: Permission denied",
         "kernel.apparmor_restrict_unprivileged_userns"},
        {"bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "AppArmor profile"},
        {"bwrap: No permissions to create new namespace, likely because the kernel does not allow "
         "non-privileged user namespaces. See <https://deb.li/bubblewrap> or "
         "<file:///usr/share/doc/bubblewrap/README.Debian.gz>.",
         "kernel.unprivileged_userns_clone"},
        {"bwrap: No permissions to creating new namespace, likely because the kernel does not "
         "allow "
         "non-privileged user namespaces. On e.g. debian this can be enabled with 'sysctl "
         "kernel.unprivileged_userns_clone=1'.",
         "kernel.unprivileged_userns_clone"},
        {"bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces "
         "exceeded (ENOSPC)",
         "not about disk space"},
        {"bwrap: unshare user ns: No space left on device", "user.max_user_namespaces"},
        {"bwrap: Creating new namespace failed, likely because the kernel does not support user "
         "namespaces.  bwrap must be installed setuid on such systems.",
         "CONFIG_USER_NS"},
        {"bwrap: Creating new namespace failed: Resource temporarily unavailable", "ulimit -u"},
        {"bwrap: Unknown option --bind-fd", "0.10.0 or later (Debian 12: 0.8.0-2+deb12u1"},
        {"bwrap: Unknown option --disable-userns", "0.10.0 or later"},
        {"bwrap: The --size option is not permitted in setuid mode", "chmod u-s"},
        {"bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "unmasked /proc"},
        {"bwrap: Unable to set up system call filtering as requested: prctl(PR_SET_SECCOMP) "
         "reported "
         "EINVAL. (Hint: this requires a kernel configured with CONFIG_SECCOMP and "
         "CONFIG_SECCOMP_FILTER.)",
         "CONFIG_SECCOMP_FILTER"},
        {"bwrap: Cannot create new cgroup namespace because the kernel does not support it",
         "cgroup namespaces"},
        {"bwrap: pivot_root: Invalid argument", "RAM disk"},
    };
    for (const Row& row : table) {
        CAPTURE(row.line);
        const Unavailable answer = explain("/usr/bin/bwrap", {1, 0}, row.line);
        CHECK(answer.reason == "/usr/bin/bwrap failed: " + row.line);
        CHECK(answer.remedy.find(row.remedy) != std::string::npos);
        CHECK(answer.remedy.find('\n') == std::string::npos);
    }
}

TEST_CASE("a full disk is not taken for a limit of namespaces") {
    const Unavailable answer = explain(
        "/usr/bin/bwrap", {1, 0}, "bwrap: Can't create file at /tmp/x: No space left on device");
    CHECK(answer.remedy == "");
}

TEST_CASE("an end without a message says how it ended") {
    CHECK(explain("/b", {1, 0}, "").reason == "/b failed: exit 1 without a message");
    CHECK(explain("/b", {0, SIGSEGV}, "").reason == "/b failed: died of SIGSEGV without a message");
}

TEST_CASE("a bubblewrap that can't be executed is missing, or says why") {
    CHECK(explain_exec("/opt/bwrap", ENOENT).reason == "/opt/bwrap is missing");
    CHECK(explain_exec("/opt/bwrap", ENOTDIR).reason == "/opt/bwrap is missing");
    CHECK(explain_exec("/opt/bwrap", EACCES).reason == "/opt/bwrap failed: Permission denied");
    CHECK(explain_exec("/opt/bwrap", ENOENT).remedy.find("apt install bubblewrap") !=
          std::string::npos);
    // What the machine lacks for a moment isn't a missing program.
    for (const int sys : {EMFILE, ENFILE, ENOMEM, EAGAIN}) {
        CAPTURE(sys);
        CHECK(explain_exec("/opt/bwrap", sys).remedy.find("install") == std::string::npos);
        CHECK_FALSE(explain_exec("/opt/bwrap", sys).remedy.empty());
    }
}

TEST_CASE("a program's identity changes with its file") {
    const Scratch scratch;
    const std::string path = scratch.file("bwrap", "one");
    REQUIRE(identity_of(path).error().code == Code::unsafe);
    REQUIRE(::chmod(path.c_str(), 0755) == 0);
    const auto first = identity_of(path);
    REQUIRE(first.has_value());
    CHECK(*identity_of(path) == *first);
    const std::string other = scratch.file("other", "one");
    REQUIRE(::chmod(other.c_str(), 0755) == 0);
    std::filesystem::rename(other, path);
    REQUIRE(identity_of(path).has_value());
    CHECK(*identity_of(path) != *first);
    // Written anew in place, to the same size.
    const auto before = identity_of(path);
    std::filesystem::last_write_time(
        path, std::filesystem::last_write_time(path) + std::chrono::nanoseconds(1'000'000));
    CHECK(*identity_of(path) != *before);
    scratch.link("bwrap", "link");
    CHECK(*identity_of(scratch / "link") == *identity_of(path));
    CHECK(identity_of(scratch / "none").error().code == Code::missing);
    CHECK(identity_of(scratch / "none").error().text == scratch / "none is missing");
    CHECK(identity_of(scratch.directory("dir")).error().code == Code::unsafe);
}

TEST_CASE("the probe tries a launch's own flags and system binds, and the runner's self-test") {
    ProbeSpec spec;
    spec.layout.entries = {{"/usr", mosaic::sandbox::EntryKind::directory, ""}};
    spec.layout.outside = {
        {.source = "/run/resolv.conf", .dest = "/run/resolv.conf", .reason = "name servers"}};
    spec.stage_dir = "/data/stage";
    spec.shm_bytes = 4096;
    spec.options.bwrap = "/opt/bwrap";
    spec.options.network_none = true;
    spec.options.seccomp_fd = 5;
    spec.options.directory = "/somewhere";
    std::string line;
    for (const std::string& word : probe_argv(spec)) {
        line += line.empty() ? word : " " + word;
    }
    CHECK(line ==
          "/opt/bwrap --unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup "
          "--as-pid-1 --cap-drop ALL --disable-userns --unshare-net --json-status-fd 3 --seccomp 5 "
          "--size 65536 --perms 0700 --tmpfs /tmp --ro-bind /usr /usr --proc /proc --remount-ro "
          "/proc --dev /dev "
          "--size 4096 --perms 1777 --tmpfs /dev/shm "
          "--ro-bind /run/resolv.conf /run/resolv.conf "
          "--ro-bind /data/stage /run/mosaic --bind-fd 4 /run/mosaic-probe "
          "--remount-ro /dev --remount-ro / --chdir / -- "
          "/run/mosaic/mosaic-runner self-test");
}
