// Goal: a child gets exactly what its spec names, whatever its parent holds, and a parent keeps
// nothing of a child that it has reaped. Method: real children that say what they see.
#include "process/spawn.h"

#include <dirent.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "process/proc.h"
#include "support.h"

using namespace mosaic;
using namespace mosaic::process;
using namespace mosaic::test;

namespace {

size_t count_open_descriptors() {
    size_t count = 0;
    DIR* directory = ::opendir("/proc/self/fd");
    REQUIRE(directory != nullptr);
    while (::readdir(directory) != nullptr) {
        ++count;
    }
    ::closedir(directory);
    return count;
}

UniqueFd open_named(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(fd.valid());
    return fd;
}

// What the probe says of its descriptors, without the pipe on 1 that carries it.
std::vector<std::string> descriptors_seen(SpawnSpec spec) {
    std::vector<std::string> lines = lines_of(output_of(std::move(spec)));
    std::erase_if(lines, [](const std::string& line) { return line.starts_with("1 pipe:"); });
    std::sort(lines.begin(), lines.end());
    return lines;
}

// Puts a copy of `fd` at exactly `number` of ours, close-on-exec or not, for the test's time.
class AtNumber {
  public:
    AtNumber(int fd, int number, int flags) : number_(number) {
        REQUIRE(::fcntl(number, F_GETFD) < 0);  // free, or the test would take it from somebody
        REQUIRE(::dup3(fd, number, flags) == number);
    }

    AtNumber(const AtNumber&) = delete;
    AtNumber& operator=(const AtNumber&) = delete;

    ~AtNumber() { ::close(number_); }

  private:
    int number_;
};

std::string value_of(const std::vector<std::string>& lines, const std::string& key) {
    for (const std::string& line : lines) {
        if (line.starts_with(key + ":\t")) {
            return line.substr(key.size() + 2);
        }
    }
    return "missing";
}

struct TemporaryDirectory {
    TemporaryDirectory() { REQUIRE(::mkdtemp(path.data()) != nullptr); }

    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

    ~TemporaryDirectory() { std::filesystem::remove_all(path); }

    std::string path = "/var/tmp/mosaic-spawn.XXXXXX";
};

long session_keyring() {
    return ::syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0);
}

}  // namespace

TEST_CASE("a child holds the named descriptors and no other") {
    const UniqueFd leak(::open("/etc/hostname", O_RDONLY));  // not close-on-exec, on purpose
    const AtNumber high_leak(leak.get(), 700, 0);
    const UniqueFd passwd = open_named("/etc/passwd");

    CHECK(descriptors_seen(probe({"fds"})) ==
          std::vector<std::string>{"0 /dev/null", "2 /dev/null"});

    SpawnSpec spec = probe({"fds"});
    spec.descriptors = {{passwd.get(), 5}, {passwd.get(), 9}};
    CHECK(descriptors_seen(spec) ==
          std::vector<std::string>{"0 /dev/null", "2 /dev/null", "5 /etc/passwd", "9 /etc/passwd"});
}

TEST_CASE("a child enters its control group before its program runs") {
    // A plain directory: no child can be made in it, so that the child has to enter it itself. One
    // of cgroup2: tests/root/groups.sh.
    const TemporaryDirectory directory;
    const std::string procs = directory.path + "/cgroup.procs";
    const UniqueFd group(::open(directory.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    SpawnSpec spec = probe({"fds"});
    spec.control_group_fd = group.get();
    auto child = spawn(spec);
    REQUIRE(child.has_value());
    const auto started = child->wait_exec();
    REQUIRE_FALSE(started.has_value());
    CHECK(started.error().text.find("entering its control group: No such file") !=
          std::string::npos);
    CHECK(::waitpid(child->pid(), nullptr, 0) == child->pid());

    const UniqueFd file(::open(procs.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    CHECK(descriptors_seen(spec) == std::vector<std::string>{"0 /dev/null", "2 /dev/null"});
    char told[8] = {};
    CHECK(::read(file.get(), told, sizeof told) == 1);
    CHECK(told[0] == '0');
}

TEST_CASE("a descriptor to be kept until the exec holds a lock until then and no longer") {
    const TemporaryDirectory directory;
    const std::string file = directory.path + "/lock";
    UniqueFd ours(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const UniqueFd others(::open(file.c_str(), O_RDWR | O_CLOEXEC));
    REQUIRE(::flock(ours.get(), LOCK_EX | LOCK_NB) == 0);
    // A program that can't be opened before the lease on it is given up (fcntl(2), F_SETLEASE).
    const Pipe input = make_pipe();
    SpawnSpec spec = probe({"wait"});
    const std::string program = directory.path + "/probe";
    std::filesystem::copy_file(spec.path, program);
    spec.path = program;
    std::optional<Spawned> child;  // waited for when the lease is gone, however this ends
    const UniqueFd lease(::open(program.c_str(), O_RDONLY | O_CLOEXEC));
    sigset_t wanted_open;
    ::sigemptyset(&wanted_open);
    ::sigaddset(&wanted_open, SIGIO);
    sigset_t before;
    REQUIRE(::sigprocmask(SIG_BLOCK, &wanted_open, &before) == 0);
    REQUIRE(::fcntl(lease.get(), F_SETLEASE, F_WRLCK) == 0);
    // At a number that the program gets for something else.
    spec.descriptors = {{input.read.get(), 0}, {input.read.get(), ours.get()}};
    spec.until_exec_fd = ours.get();
    auto spawned = spawn(spec);
    REQUIRE(spawned.has_value());
    child.emplace(std::move(*spawned));
    int signal = 0;
    REQUIRE(::sigwait(&wanted_open, &signal) == 0);
    ours.reset();
    CHECK(::flock(others.get(), LOCK_EX | LOCK_NB) == -1);
    CHECK(errno == EWOULDBLOCK);

    REQUIRE(::fcntl(lease.get(), F_SETLEASE, F_UNLCK) == 0);
    REQUIRE(::sigprocmask(SIG_SETMASK, &before, nullptr) == 0);
    REQUIRE(child->wait_exec().has_value());
    CHECK(::flock(others.get(), LOCK_EX) == 0);
    REQUIRE(signal_pidfd(child->pidfd(), SIGKILL).has_value());
    CHECK(wait_exit(child->pidfd()).signal == SIGKILL);
}

TEST_CASE("each descriptor arrives at its number for every permutation of overlapping numbers") {
    const std::vector<std::string> paths = {
        "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/fstab"};
    std::vector<UniqueFd> files;
    for (const std::string& path : paths) {
        files.push_back(open_named(path));
    }
    const AtNumber a(files[0].get(), 60, O_CLOEXEC);
    const AtNumber b(files[1].get(), 61, O_CLOEXEC);
    const AtNumber c(files[2].get(), 62, O_CLOEXEC);
    const AtNumber d(files[3].get(), 63, O_CLOEXEC);

    // The targets are the sources' own numbers, and then the lowest free ones: those that the
    // child's own duplicates would take if nothing kept them away.
    const int lowest = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
    ::close(lowest);
    std::vector<int> bases = {60};
    for (int i = 0; i < 10; ++i) {
        bases.push_back(lowest + i);
    }
    for (const int first : bases) {
        std::vector<int> order = {0, 1, 2, 3};
        do {
            SpawnSpec spec = probe({"fds"});
            std::vector<std::string> expected = {"0 /dev/null", "2 /dev/null"};
            for (size_t i = 0; i < paths.size(); ++i) {
                const int target = first + order[i];
                spec.descriptors.emplace_back(60 + static_cast<int>(i), target);
                expected.push_back(std::to_string(target) + " " + paths[i]);
            }
            std::sort(expected.begin(), expected.end());
            CHECK(descriptors_seen(spec) == expected);
        } while (std::next_permutation(order.begin(), order.end()));
    }

    // The result pipe's own place (highest + 1) and the room above it may hold sources as well.
    SpawnSpec spec = probe({"fds"});
    spec.descriptors = {{61, 60}, {62, 3}, {63, 0}};
    CHECK(descriptors_seen(spec) ==
          std::vector<std::string>{"0 /etc/fstab", "2 /dev/null", "3 /etc/hosts", "60 /etc/group"});
}

TEST_CASE("a child starts the same when its parent has no standard descriptors") {
    const UniqueFd kept(::fcntl(0, F_DUPFD_CLOEXEC, 100));
    REQUIRE(kept.valid());
    ::close(0);
    const auto seen = descriptors_seen(probe({"fds"}));
    REQUIRE(::dup2(kept.get(), 0) == 0);
    CHECK(seen == std::vector<std::string>{"0 /dev/null", "2 /dev/null"});
}

TEST_CASE("blocked and ignored signals of the parent don't reach the child") {
    struct sigaction ignore {};

    ignore.sa_handler = SIG_IGN;

    struct sigaction before_pipe {};

    REQUIRE(::sigaction(SIGPIPE, &ignore, &before_pipe) == 0);
    REQUIRE(::sigaction(SIGRTMIN + 3, &ignore, nullptr) == 0);
    sigset_t blocked;
    sigset_t before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGCHLD);
    REQUIRE(::pthread_sigmask(SIG_BLOCK, &blocked, &before) == 0);

    const auto lines = lines_of(output_of(probe({"status"})));

    sigset_t after;
    REQUIRE(::pthread_sigmask(SIG_SETMASK, &before, &after) == 0);
    CHECK(sigismember(&after, SIGTERM) == 1);
    CHECK(sigismember(&after, SIGUSR1) == 0);
    REQUIRE(::sigaction(SIGPIPE, &before_pipe, nullptr) == 0);
    ::signal(SIGRTMIN + 3, SIG_DFL);
    CHECK(value_of(lines, "SigBlk") == "0000000000000000");
    CHECK(value_of(lines, "SigIgn") == "0000000000000000");
    CHECK(value_of(lines, "SigCgt") == "0000000000000000");
}

TEST_CASE("arguments and environment are exactly the named ones") {
    SpawnSpec spec = probe({"argv", "", "two words", "-x"});
    CHECK(output_of(spec) == "probe\nargv\n\ntwo words\n-x\n");
    spec = probe({"env"});
    CHECK(output_of(spec).empty());
    spec.env = {"A=1", "EMPTY=", "B=x y"};
    CHECK(output_of(spec) == "A=1\nEMPTY=\nB=x y\n");
}

TEST_CASE("a child leads a session of its own unless told not to") {
    const auto leads = [](const std::string& text) {
        int session = 0;
        int group = 0;
        int pid = 0;
        REQUIRE(std::sscanf(text.c_str(), "%d %d %d", &session, &group, &pid) == 3);
        return session == pid && group == pid;
    };
    SpawnSpec spec = probe({"session"});
    CHECK(leads(output_of(spec)));
    spec.new_session = false;
    CHECK_FALSE(leads(output_of(spec)));
}

TEST_CASE("the working directory is the named one") {
    SpawnSpec spec = probe({"cwd"});
    spec.directory = "/usr/bin";
    CHECK(output_of(spec) == "/usr/bin\n");
}

TEST_CASE("a new keyring is not the parent's") {
    if (session_keyring() < 0) {
        MESSAGE("skipped: this kernel has no keyrings");
        return;
    }
    const std::string ours = std::to_string(session_keyring()) + "\n";
    SpawnSpec spec = probe({"keyring"});
    CHECK(output_of(spec) == ours);
    spec.new_keyring = true;
    const std::string first = output_of(spec);
    CHECK(first != ours);
    CHECK(output_of(spec) != first);
}

TEST_CASE("a full key quota fails a new keyring, unless the parent's own is empty already") {
    const auto quota_file = open_named("/proc/sys/kernel/keys/maxkeys");
    const int quota = std::atoi(read_to_end(quota_file.get()).c_str());
    if (::geteuid() != 0 || session_keyring() < 0 || quota > 500) {
        MESSAGE("skipped: needs root to become two other users with a small key quota");
        return;
    }
    // In a process of another user, holding more children with keyrings than the quota has. Says 0
    // when all started, 1 when some did not because of the quota, else 2.
    const auto fill = [quota](uid_t user, bool leave) {
        const pid_t filler = ::fork();
        if (filler != 0) {
            int status = 0;
            REQUIRE(::waitpid(filler, &status, 0) == filler);
            return WEXITSTATUS(status);
        }
        int ends[2] = {-1, -1};
        if (::setresuid(user, user, user) != 0 || ::pipe2(ends, O_CLOEXEC) != 0) {
            ::_exit(2);
        }
        const bool joined = leave ? leave_session_keyring().has_value()
                                  : ::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0) >= 0;
        int said = joined ? 0 : 2;
        std::vector<Spawned> children;
        for (int i = 0; i < quota + 10 && said == 0; ++i) {
            SpawnSpec spec = probe({"wait"});
            spec.new_keyring = true;
            spec.descriptors = {{ends[0], 0}};
            auto child = spawn(spec);
            const auto started = child->wait_exec();
            if (!started) {
                said = started.error().sys == EDQUOT ? 1 : 2;
            }
            children.push_back(std::move(*child));
        }
        ::close(ends[1]);
        for (const Spawned& child : children) {
            pollfd wait{child.pidfd(), POLLIN, 0};
            ::poll(&wait, 1, -1);
        }
        ::_exit(said);
    };
    CHECK(fill(65533, false) == 1);
    CHECK(fill(65532, true) == 0);
}

TEST_CASE("the child's out-of-memory score is the named one and the parent's stays") {
    const auto score = [](const std::string& who) {
        const UniqueFd file = open_named("/proc/" + who + "/oom_score_adj");
        return read_to_end(file.get());
    };
    const std::string ours = score("self");
    Pipe input = make_pipe();
    SpawnSpec spec = probe({"wait"});
    spec.oom_score_adj = 321;
    spec.descriptors = {{input.read.get(), 0}};
    auto child = spawn(spec);
    REQUIRE(child.has_value());
    REQUIRE(child->wait_exec().has_value());
    CHECK(score(std::to_string(child->pid())) == "321\n");
    CHECK(score("self") == ours);
    input.write.reset();
    wait_exit(child->pidfd());
}

TEST_CASE("what failed before the program runs is named with its errno") {
    const auto failure = [](const SpawnSpec& spec) {
        auto child = spawn(spec);
        REQUIRE(child.has_value());
        auto started = child->wait_exec();
        REQUIRE_FALSE(started.has_value());
        CHECK(child->finish_exec().error().sys == started.error().sys);  // as often as asked
        const Exit exit = wait_exit(child->pidfd());
        CHECK(exit.exit_code == 127);
        return started.error();
    };
    SpawnSpec spec = probe({});
    spec.path = "/nonexistent/program";
    Error error = failure(spec);
    CHECK(error.sys == ENOENT);
    CHECK(error.code == Code::missing);
    CHECK(error.text == "spawn /nonexistent/program: execve: No such file or directory");

    spec.path = "/etc/passwd";
    CHECK(failure(spec).sys == EACCES);

    spec = probe({"cwd"});
    spec.directory = "/nonexistent";
    error = failure(spec);
    CHECK(error.sys == ENOENT);
    CHECK(error.code == Code::system);
    CHECK(error.text.ends_with("chdir: No such file or directory"));

    spec = probe({"fds"});
    spec.descriptors = {{999'999, 3}};
    error = failure(spec);
    CHECK(error.sys == EBADF);
    CHECK(error.text.ends_with("placing its descriptors: Bad file descriptor"));

    spec = probe({"fds"});
    spec.landlock_scope_fd = 999'999;
    const int landlock = failure(spec).sys;
    CHECK((landlock == EBADF || landlock == ENOSYS || landlock == EOPNOTSUPP));
}

TEST_CASE("a spec that can't be meant is refused before anything is made") {
    const size_t before = count_open_descriptors();
    const auto refused = [](const SpawnSpec& spec) {
        const auto child = spawn(spec);
        return !child && child.error().code == Code::invalid;
    };
    SpawnSpec spec = probe({});
    spec.path = "probe";
    CHECK(refused(spec));
    spec = probe({std::string("a\0b", 3)});
    CHECK(refused(spec));
    spec = probe({});
    spec.env = {std::string("A=\0", 3)};
    CHECK(refused(spec));
    spec = probe({});
    spec.descriptors = {{0, 4}, {1, 4}};
    CHECK(refused(spec));
    spec.descriptors = {{0, -1}};
    CHECK(refused(spec));
    spec = probe({});
    spec.argv.clear();
    CHECK(refused(spec));
    CHECK(count_open_descriptors() == before);
}

TEST_CASE("300 children at once, some of them failing, leave no descriptor and no zombie") {
    const size_t before = count_open_descriptors();
    for (int round = 0; round < 10; ++round) {
        std::vector<Spawned> children;
        for (int i = 0; i < 30; ++i) {
            SpawnSpec spec = probe({"exit", "7"});
            if (i % 5 == 0) {
                spec.path = "/nonexistent/program";
            }
            auto child = spawn(spec);
            REQUIRE(child.has_value());
            children.push_back(std::move(*child));
        }
        for (size_t i = 0; i < children.size(); ++i) {
            const bool missing = i % 5 == 0;
            if (i % 3 != 0) {  // the others are destroyed without having been asked
                CHECK(children[i].wait_exec().has_value() == !missing);
            }
            CHECK(wait_exit(children[i].pidfd()).exit_code == (missing ? 127 : 7));
        }
    }
    CHECK(count_open_descriptors() == before);
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // no child is left
    CHECK(errno == ECHILD);
}

TEST_CASE("destroying a child on its way to its program waits and disturbs nothing") {
    Pipe out = make_pipe();
    UniqueFd pidfd;
    {
        SpawnSpec spec = probe({"argv", "x"});
        spec.descriptors = {{out.write.get(), 1}};
        auto child = spawn(spec);
        REQUIRE(child.has_value());
        pidfd = child->take_pidfd();
    }
    out.write.reset();
    CHECK(read_to_end(out.read.get()) == "probe\nargv\nx\n");
    CHECK(wait_exit(pidfd.get()).exit_code == 0);
}

TEST_CASE("a child that is killed before its program runs counts as started and died") {
    for (int i = 0; i < 50; ++i) {
        Pipe input = make_pipe();
        SpawnSpec spec = probe({"wait"});
        spec.descriptors = {{input.read.get(), 0}};
        auto child = spawn(spec);
        REQUIRE(child.has_value());
        REQUIRE(signal_pidfd(child->pidfd(), SIGKILL).has_value());
        CHECK(child->wait_exec().has_value());
        CHECK(wait_exit(child->pidfd()).signal == SIGKILL);
    }
}

TEST_CASE("exec_result is readable exactly when finish_exec has its answer") {
    SpawnSpec spec = probe({"exit", "0"});
    auto child = spawn(spec);
    REQUIRE(child.has_value());
    pollfd wait{child->exec_result(), POLLIN, 0};
    if (::poll(&wait, 1, 0) == 0) {
        const auto early = child->finish_exec();
        // Between the two calls the program may have started.
        CHECK((early.has_value() || early.error().code == Code::unavailable));
    }
    REQUIRE(::poll(&wait, 1, -1) == 1);
    CHECK(child->finish_exec().has_value());
    CHECK(child->finish_exec().has_value());
    wait_exit(child->pidfd());
}

TEST_CASE("a parent of 200 MB spawns as well and loses no byte") {
    constexpr size_t kBytes = size_t{200} * 1024 * 1024;
    void* memory = ::mmap(
        nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    std::memset(memory, 0x5A, kBytes);
    for (int i = 0; i < 20; ++i) {
        CHECK(output_of(probe({"argv"})) == "probe\nargv\n");
    }
    const auto* bytes = static_cast<const unsigned char*>(memory);
    CHECK(std::all_of(bytes, bytes + kBytes, [](unsigned char byte) { return byte == 0x5A; }));
    ::munmap(memory, kBytes);
}

TEST_CASE("threads that spawn at the same time don't mix their children up") {
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([t, &wrong] {
            for (int i = 0; i < 25; ++i) {
                const std::string code = std::to_string(t * 10 + i % 10);
                auto child = spawn(probe({"exit", code}));
                if (!child || !child->wait_exec()) {
                    ++wrong[static_cast<size_t>(t)];
                    continue;
                }
                pollfd wait{child->pidfd(), POLLIN, 0};
                ::poll(&wait, 1, -1);
                const auto exit = reap(child->pidfd());
                if (!exit || std::to_string(exit->exit_code) != code) {
                    ++wrong[static_cast<size_t>(t)];
                }
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("with parent_death_kill a child dies with its parent, else it lives on") {
    for (const bool dies : {true, false}) {
        CAPTURE(dies);
        Pipe input = make_pipe();
        Pipe pids = make_pipe();
        REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
        const pid_t parent = ::fork();
        if (parent == 0) {
            SpawnSpec spec = probe({"wait"});
            spec.descriptors = {{input.read.get(), 0}};
            spec.parent_death_kill = dies;
            auto child = spawn(spec);
            const bool started = child && child->wait_exec();
            const pid_t pid = started ? child->pid() : -1;
            [[maybe_unused]] const ssize_t put = ::write(pids.write.get(), &pid, sizeof(pid));
            ::pause();
            ::_exit(0);
        }
        pid_t pid = -1;
        REQUIRE(::read(pids.read.get(), &pid, sizeof(pid)) == sizeof(pid));
        REQUIRE(pid > 0);
        const auto pidfd = open_pidfd(pid);
        REQUIRE(pidfd.has_value());
        ::kill(parent, SIGKILL);
        REQUIRE(::waitpid(parent, nullptr, 0) == parent);
        if (dies) {
            CHECK(wait_exit(pidfd->get()).signal == SIGKILL);
        } else {
            CHECK_FALSE(has_exited(pidfd->get()));
            input.write.reset();
            input.read.reset();
            CHECK(wait_exit(pidfd->get()).exit_code == 0);
        }
        ::prctl(PR_SET_CHILD_SUBREAPER, 0);
    }
}

TEST_CASE("a child enters the named Landlock domain before its program runs") {
    // Linux 6.12, include/uapi/linux/landlock.h.
    struct Ruleset {
        uint64_t handled_access_fs;
        uint64_t handled_access_net;
        uint64_t scoped;
    };

    constexpr uint64_t kScopeAbstractUnixSocket = 1;
    const Ruleset ruleset{0, 0, kScopeAbstractUnixSocket};
    const UniqueFd scope(
        static_cast<int>(::syscall(SYS_landlock_create_ruleset, &ruleset, sizeof(ruleset), 0)));
    if (!scope.valid()) {
        MESSAGE("skipped: this kernel has no Landlock scopes");
        return;
    }
    const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name = "mosaic-spawn-test-" + std::to_string(::getpid());
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length) == 0);
    REQUIRE(::listen(listener.get(), 4) == 0);

    SpawnSpec spec = probe({"abstract", name});
    CHECK(output_of(spec) == "0\n");
    spec.landlock_scope_fd = scope.get();
    CHECK(output_of(spec) == std::to_string(EPERM) + "\n");
}
