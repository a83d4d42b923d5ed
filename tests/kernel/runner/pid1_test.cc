// Goal: what the runner owes a PID namespace as its first process. Method: the real program as pid
// 1 under bwrap; skipped with a reason where no namespace can be made.

#include <sys/syscall.h>

#include <cerrno>

#include "kernel/runner/scene.h"
#include "refused_call.h"
#include "wire/codes.h"

using namespace scene;

namespace {

std::vector<std::string> sandbox() {
    return {"/usr/bin/bwrap",
            "--unshare-user",
            "--unshare-pid",
            "--as-pid-1",
            "--dev-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "--"};
}

bool can_sandbox() {
    process::SpawnSpec spec;
    spec.argv = sandbox();
    spec.argv.emplace_back("/bin/true");
    spec.path = spec.argv[0];
    auto spawned = process::spawn(spec);
    if (!spawned || !spawned->wait_exec()) {
        return false;
    }
    wait_readable(spawned->pidfd());
    const auto how = process::reap(spawned->pidfd());
    const bool works = how && how->signal == 0 && how->exit_code == 0;
    if (!works) {
        REQUIRE(::getenv("MOSAIC_MUST_WORK") == nullptr);
        MESSAGE("skipped: bwrap can't make namespaces here");
    }
    return works;
}

}  // namespace

TEST_CASE("as pid 1 the runner ends and reaps all that a turn left, detached or not") {
    if (!can_sandbox()) {
        return;
    }
    Scene s;
    s.session.limits.turn_grace_ms = 100;
    s.adapter(
        "case \"$MOSAIC_REQUEST\" in *leave*)\n"
        "  for i in 1 2 3; do setsid sh -c 'trap \"\" TERM; while :; do sleep 1000; done' & done\n"
        "  (sh -c 'exit 0' &) ; echo left;;\n"
        "*) set -- /proc/[0-9]*; echo $#\n"
        "  for p; do read stat < $p/stat; case \"$stat\" in *') Z '*) echo zombie;; esac; done;; "
        "esac");
    StartOptions options;
    options.prefix = sandbox();
    s.start(options);
    auto [broker, receive] = s.claimed();
    CHECK(s.turn(broker, receive, "leave").body == "left\n");
    // The runner and the shell; and no zombie.
    CHECK(s.turn(broker, receive, "look").body == "2\n");
}

TEST_CASE("a turn can neither look into its runner nor signal it") {
    if (!can_sandbox()) {
        return;
    }
    Scene s;
    // Without `kill`: a scope of Landlock's (ABI 6) refuses it, older kernels don't.
    s.adapter(
        "cat /proc/1/environ > /dev/null 2>&1 && echo environ\n"
        "head -c 1 /proc/1/mem > /dev/null 2>&1 && echo mem\n"
        "ls /proc/1/fd > /dev/null 2>&1 && echo fd\n"
        "readlink /proc/1/exe && echo exe\n"
        "ls /proc/1/root/ > /dev/null 2>&1 && echo root\n"
        "echo end");
    StartOptions options;
    options.prefix = sandbox();
    s.hand_over(options);
    s.start(options);
    auto [broker, receive] = s.claimed();
    CHECK(s.turn(broker, receive, "x").body == "end\n");
}

TEST_CASE("a turn's signals don't reach its runner where the kernel can scope them") {
    if (!can_sandbox()) {
        return;
    }
    if (::syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, 1U) < 6) {
        MESSAGE("skipped: Landlock ABI 6 (Linux 6.12) is needed");
        return;
    }
    Scene s;
    s.adapter("kill -TERM 1 2>/dev/null; echo $?; sh -c 'kill -0 $PPID' && echo own");
    StartOptions options;
    options.prefix = sandbox();
    s.start(options);
    auto [broker, receive] = s.claimed();
    CHECK(s.turn(broker, receive, "x").body == "1\nown\n");
}

TEST_CASE("a turn reaches no abstract socket outside where the kernel can scope them") {
    if (!can_sandbox()) {
        return;
    }
    if (::syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, 1U) < 6) {
        MESSAGE("skipped: Landlock ABI 6 (Linux 6.12) is needed");
        return;
    }
    const std::string name = "mosaic-runner-test-" + std::to_string(::getpid());
    const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, name.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listener.get(), 4) == 0);
    Scene s;
    s.adapter(std::string(MOSAIC_PROBE_CALLS) + " connect " + name);
    StartOptions options;
    options.prefix = sandbox();
    s.start(options);
    auto [broker, receive] = s.claimed();
    CHECK(s.turn(broker, receive, "x").body == "connect EPERM\n");
    CHECK_FALSE(UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)).valid());
}

TEST_CASE("a session in which forks never stop still obeys SIGTERM") {
    if (!can_sandbox()) {
        return;
    }
    Scene s;
    REQUIRE(::mkfifo((s.root + "/gate").c_str(), 0600) == 0);
    s.adapter("trap '' TERM; echo > ../gate; while :; do (sh -c 'exit 0' &); echo x; done");
    StartOptions options;
    options.prefix = sandbox();
    s.start(options);
    auto [broker, receive] = s.claimed();
    broker.ok(receive, delivery("m1", "x"));
    read_text(s.root + "/gate");
    // bwrap is what the test started: the runner is its child.
    const std::string children = read_text("/proc/" + std::to_string(s.pid()) + "/task/" +
                                           std::to_string(s.pid()) + "/children");
    const auto runner = process::open_pidfd(static_cast<pid_t>(std::stoi(children)));
    REQUIRE(runner.has_value());
    REQUIRE(process::signal_pidfd(runner->get(), SIGTERM).has_value());
    broker.ok(broker.expect("role.release"));
    CHECK(s.exit().exit_code == runner_exit::kStopped);
}

TEST_CASE("the self-test passes where a session could run") {
    const auto self_test = [] {
        process::SpawnSpec spec;
        spec.argv = {MOSAIC_RUNNER, "self-test"};
        spec.path = MOSAIC_RUNNER;
        auto spawned = process::spawn(spec);
        REQUIRE(spawned.has_value());
        REQUIRE(spawned->wait_exec().has_value());
        wait_readable(spawned->pidfd());
        const auto how = process::reap(spawned->pidfd());
        REQUIRE(how.has_value());
        return how->exit_code;
    };
    CHECK(self_test() == 0);
    // All of the user's are in use, by another session perhaps; it would run without.
    mosaic::test::under_filter(mosaic::test::refused_call(SYS_inotify_init1, EMFILE),
                               [&] { CHECK(self_test() == 0); });
    mosaic::test::under_filter(mosaic::test::refused_call(SYS_inotify_init1, ENOSYS),
                               [&] { CHECK(self_test() == 1); });
}
