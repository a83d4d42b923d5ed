// Goal: a capability is where it must be and nowhere else; nothing of the host leaks into a
// session. Method: the stand-in runner tells us the capability, and we look for it everywhere.

#include <dirent.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>

#include "e2e/puppet.h"

using namespace mosaic;
using namespace mosaic::e2e;

TEST_CASE("a capability stands in no file and no command line and no environment") {
    World world(World::Runner::puppet);
    world.start();
    const PuppetMaster master(world, "coder");
    LineStream admin = world.admin();
    const int64_t id = admin.ask("launch", object({{"instance", "coder"}}));
    Puppet puppet = master.accept();
    const std::string capability = puppet.capability();
    CHECK(capability.size() >= 43);  // 256 bits in base64 or more
    LineStream bus = puppet.claim(capability);
    REQUIRE(*admin.reply(id).find("ok") == json::Value(true));
    bus.request("message.receive", object({{"wait", false}}), capability);
    size_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(world.root)) {
        if (entry.is_regular_file()) {
            ++files;
            CAPTURE(entry.path());
            CHECK(!contains(read_text(entry.path()), capability));
        }
    }
    CHECK(files > 10);
    for (const pid_t pid : world.processes()) {
        CAPTURE(pid);
        const std::string proc = "/proc/" + std::to_string(pid);
        CHECK(!contains(read_text(proc + "/cmdline"), capability));
        CHECK(!contains(read_text(proc + "/environ"), capability));
    }
    CHECK(!contains(puppet.environment(), capability));
    for (const json::Value& event : world.events()) {
        CHECK(!contains(json::dump(event), capability));
    }
    // Each run has its own.
    puppet.exit(0);
    world.wait_log("end", puppet.run());
    int64_t again = 0;
    Puppet next = master.launch(admin, again);
    const std::string other = next.capability();
    CHECK(other != capability);
    LineStream claimed = next.claim(other);
    REQUIRE(*admin.reply(again).find("ok") == json::Value(true));
}

TEST_CASE("a turn's shell can't reach the runner's capability or act in its place") {
    World world;
    world.start();
    world.launch("pm");
    const std::string answer =
        world.ask("pm",
                  "for f in mem environ fd exe root maps; do "
                  "(cat /proc/1/$f || ls /proc/1/$f/) >/dev/null 2>&1 && echo \"read $f\"; done; "
                  "ls /proc/self/fd | tr '\\n' ' '; kill -TERM 1 2>/dev/null; echo still-here");
    CHECK(!contains(answer, "read "));
    CHECK_CONTAINS(answer, "still-here");
    // The shell's own descriptors; ls itself has opened the directory as the fourth.
    CHECK_CONTAINS(answer, "0 1 2 3 still-here");
    CHECK(trim(world.ask("pm", "echo alive")) == "alive");
}

TEST_CASE("a turn's program can neither look into the runner nor be taken for it") {
    World world;
    std::filesystem::copy_file(MOSAIC_SESSION_PROBE, world.workspace("pm") + "/probe");
    world.start();
    world.launch("pm");
    const std::string answer = world.ask("pm", "./probe " + world.bus_host() + "/bus.sock");
    for (const char* what : {"ptrace-attach",
                             "ptrace-seize",
                             "process_vm_readv",
                             "pidfd_getfd",
                             "open-mem",
                             "bus-served",
                             "unshare-user",
                             "unshare-mount",
                             "extra-descriptors"}) {
        CHECK_CONTAINS(answer, std::string(what) + " no\n");
    }
    CHECK_CONTAINS(answer, "own-memory yes");
    // Landlock keeps signals inside a domain since ABI 6 (Linux 6.12).
    if (::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1U) >= 6) {
        CHECK_CONTAINS(answer, "kill-term no\n");
        CHECK(trim(world.ask("pm", "echo alive")) == "alive");
    }
}

TEST_CASE("no descriptor of the host reaches a session") {
    World world;
    write_text(world.root + "/secret.txt", "secret", 0600);
    // As a careless service manager leaves them: open, without close-on-exec.
    const UniqueFd file(::open((world.root + "/secret.txt").c_str(), O_RDONLY | O_CLOEXEC));
    const UniqueFd pair(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    world.start(
        {.pm = false, .more_arguments = {}, .more_env = {}, .inherited = {file.get(), pair.get()}});
    const std::string run = text(world.launch("coder"), "run");
    CHECK(trim(world.ask("coder", "ls /proc/self/fd | tr '\\n' ' '")) == "0 1 2 3");
    // And the outer bwrap holds none of it either.
    const std::string fds = "/proc/" + std::to_string(outer_pid(*world.session(run))) + "/fd";
    for (const std::string& name : names_in(fds)) {
        std::error_code ignored;
        const std::string target = std::filesystem::read_symlink(fds + "/" + name, ignored);
        CAPTURE(target);
        CHECK(!contains(target, "secret.txt"));
        CHECK(!contains(target, "io_uring"));
        CHECK(!contains(target, "sqlite"));
    }
}

TEST_CASE("a session's environment is built and holds nothing that acts as the human") {
    World world;
    Environment extra = {
        {"GH_TOKEN", "human-token"},
        {"GITHUB_TOKEN", "human-token"},
        {"GITEA_TOKEN", "human-token"},
        {"SSH_AUTH_SOCK", "/run/human-token"},
        {"AWS_SECRET", "human-token"},
        {"VIKUNJA_URL", "human-token"},
        {"MOSAIC_CONFIG", "human-token"},
        {"SOMETHING_ELSE", "human-token"},
        {"HTTPS_PROXY", "http://user:human-token@proxy.example:3128"},
    };
    world.start({.pm = false, .more_arguments = {}, .more_env = extra, .inherited = {}});
    world.launch("coder");
    const std::string answer = world.ask("coder", "env; cat /proc/self/environ");
    CHECK(!contains(answer, "human-token"));
    CHECK_CONTAINS(answer, "MOSAIC_RUN_ID=");
    // The dropped proxy is named once, its value never.
    CHECK_CONTAINS(world.host_log(), "HTTPS_PROXY");
    CHECK(!contains(world.host_log(), "human-token"));
}

TEST_CASE("the state of the host's signals doesn't reach a session") {
    World world;
    world.start();
    world.launch("coder");
    const std::string answer = world.ask("coder", "grep -E '^Sig(Blk|Ign)' /proc/self/status");
    CHECK_CONTAINS(answer, "SigBlk:\t0000000000000000");
    CHECK_CONTAINS(answer, "SigIgn:\t0000000000000000");
}

TEST_CASE("text for people shows control characters and reordering as escapes") {
    World world;
    world.start();
    world.launch("coder");
    const Finished finished = world.mosaic(
        {"send", "coder", "printf 'a\\033]52;c;eA==\\007b\\342\\200\\256c'", "--wait", "30"});
    CHECK(finished.exit.code == 0);
    CHECK(!contains(finished.out, "\x1b"));
    CHECK(!contains(finished.out, "\x07"));
    CHECK(!contains(finished.out, "\xE2\x80\xAE"));
    CHECK_CONTAINS(finished.out, "\\u");
}

TEST_CASE("each session has a session keyring of its own") {
    // keyctl(2) is refused inside, so it is looked at from here: /proc/keys lists the keyrings of
    // this user, proc_keys(5).
    const auto keyrings = [] {
        std::istringstream lines(read_text("/proc/keys"));
        std::set<std::string> found;
        for (std::string line; std::getline(lines, line);) {
            if (line.find("_ses") != std::string::npos) {
                found.insert(line.substr(0, line.find(' ')));
            }
        }
        return found;
    };
    if (!exists("/proc/keys")) {
        std::printf("left out: this kernel has no keys\n");
        return;
    }
    World world;
    world.start();
    const std::set<std::string> before = keyrings();
    world.launch("coder");
    world.launch("reviewer");
    size_t fresh = 0;
    for (const std::string& one : keyrings()) {
        fresh += before.contains(one) ? size_t{0} : size_t{1};
    }
    CHECK(fresh >= 2);
}
