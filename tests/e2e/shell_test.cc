// Goal: an operator can look around where a session would be, and gets nothing that a session has
// beyond that. Method: the real command with its input from a pipe; markers are made by the shell
// itself, for the terminal also echoes what is typed.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

constexpr const char* kPython = "/usr/bin/python3";

// Types the script, a line at a time.
Finished in_shell(const World& world, const std::string& script) {
    write_text(world.root + "/typed", script);
    return run(world.shell_argv("cat " + world.root + "/typed"), world.environment());
}

std::string shells(const World& world) {
    return world.data + "/shells";
}

}  // namespace

TEST_CASE("a shell in a sandbox sees what a session sees on a terminal of its own") {
    World world;
    write_text(world.workspace("coder") + "/mine", "of the workspace");
    write_text(world.home + "/.ssh/id", "key", 0600);
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const Finished shell = in_shell(
        world,
        "echo \"in=$(pwd)\"; echo \"file=$(cat mine)\"; echo x >made; echo \"size=$(stty size)\"\n"
        ": </dev/tty && echo \"tty=$(tty >/dev/null && echo works)\"\n"
        "test -e " +
            world.home + "/.ssh/id || echo \"key=$(echo hidden)\"\n" + "test -e " +
            world.run_directory(run) + " || echo \"run=$(echo hidden)\"\n" +
            "unshare -U true 2>/dev/null || echo \"namespace=$(echo refused)\"\n"
            "echo \"core=$(ulimit -c)\"; echo \"home=$(ls -A $HOME | wc -l)\"\n"
            "sleep 600 &\nexit 7\n");
    CHECK(shell.exit.code == 7);
    CHECK_CONTAINS(shell.out, "in=" + world.workspace("coder") + "\r\n");
    CHECK_CONTAINS(shell.out, "file=of the workspace\r\n");
    CHECK_CONTAINS(shell.out, "size=24 80\r\n");
    CHECK_CONTAINS(shell.out, "tty=works\r\n");
    CHECK_CONTAINS(shell.out, "key=hidden\r\n");
    CHECK_CONTAINS(shell.out, "run=hidden\r\n");
    CHECK_CONTAINS(shell.out, "namespace=refused\r\n");
    CHECK_CONTAINS(shell.out, "core=0\r\n");
    CHECK_CONTAINS(shell.out, "home=0\r\n");
    CHECK(exists(world.workspace("coder") + "/made"));
    CHECK(names_in(shells(world)).empty());
    // It is no session: none has begun or ended.
    CHECK(world.ps().size() == 1);
    CHECK(trim(world.ask("coder", "echo lives")) == "lives");
}

TEST_CASE("a shell in a sandbox reaches neither broker nor launches") {
    World world;
    world.start();
    const std::string bus = world.bus_host() + "/bus.sock";
    const std::string connect = std::string(kPython) +
                                " -c 'import socket,sys; s=socket.socket(socket.AF_UNIX); "
                                "s.connect(sys.argv[1]); s.sendall(b\"{}\\n\"); "
                                "print(\"got=\"+str(len(s.recv(100))))' " +
                                bus;
    const Finished shell = in_shell(world,
                                    connect + " 2>&1 | tail -n 1\ntest -S " + world.bus_host() +
                                        "/admin.sock || echo \"admin=$(echo hidden)\"\nexit\n");
    CHECK(shell.exit.code == 0);
    const bool closed = contains(shell.out, "got=0\r\n") || contains(shell.out, "reset by peer") ||
                        contains(shell.out, "Broken pipe");
    CHECK_MESSAGE(closed, shell.out);
    CHECK_CONTAINS(shell.out, "admin=hidden\r\n");
}

TEST_CASE("a shell in a sandbox needs no host and a killed one is tidied up after") {
    World world;
    world.start();
    world.stop();
    int ends[2] = {-1, -1};
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    LineStream output((UniqueFd(ends[0])));
    UniqueFd input(ends[1]);
    // Its input stays open, so that it lives until it is killed.
    Child shell = Child::start(world.shell_argv("( echo 'echo \"up=$(pwd)\"'; exec sleep 600 )"),
                               world.environment(),
                               {.out = input.get(), .err = input.get(), .extra = {}});
    input.reset();
    bool up = false;
    while (!up) {
        const auto line = output.line();
        REQUIRE(line.has_value());
        up = contains(*line, "up=" + world.workspace("coder"));
    }
    REQUIRE(names_in(shells(world)).size() == 1);
    const std::string name = names_in(shells(world)).front();
    const pid_t pid = static_cast<pid_t>(std::stol(name));
    ::kill(pid, SIGKILL);
    REQUIRE(wait_gone(pid));
    shell.signal(SIGKILL);
    REQUIRE(shell.wait().has_value());
    CHECK(exists(shells(world) + "/" + name));
    const Finished next = in_shell(world, "echo \"next=$(id -u)\"\nexit 3\n");
    CHECK(next.exit.code == 3);
    CHECK_CONTAINS(next.out, "next=" + std::to_string(::geteuid()) + "\r\n");
    CHECK(names_in(shells(world)).empty());
    for (const pid_t left : world.processes()) {
        ::kill(left, SIGKILL);
        CHECK(wait_gone(left));
    }
}

TEST_CASE("a shell in a sandbox ends with its input whenever that ends") {
    World world;
    world.start();
    // Before the shell has made the terminal its own, and in the middle of a line.
    CHECK(run(world.shell_argv("true"), world.environment()).exit.code == 0);
    const Finished half = in_shell(world, "echo \"half=$(echo line)\"");
    CHECK(half.exit.code == 0);
    CHECK_CONTAINS(half.out, "half=line\r\n");
}

TEST_CASE("a shell in a sandbox may nest sandboxes or says why not") {
    World world;
    world.system.set("sandbox", object({{"nested", true}}));
    world.write_config();
    world.start();
    const Finished shell =
        in_shell(world, "unshare -U true && echo \"nested=$(echo works)\"\nexit 3\n");
    CHECK(shell.exit.code == 3);
    const bool without = contains(shell.err, "without sandbox.nested");
    CHECK(contains(shell.out, "nested=works") == !without);
}

TEST_CASE("a shell in a sandbox is refused where a launch would be") {
    World world;
    world.start();
    world.role("coder").set("workspace", world.home);
    world.write_config();
    const Finished shell = in_shell(world, "echo \"up=$(pwd)\"\n");
    CHECK(shell.exit.code == 3);
    CHECK_CONTAINS(shell.err, "workspace-unsafe");
    CHECK(!contains(shell.out, "up="));
    CHECK(names_in(shells(world)).empty());
}
