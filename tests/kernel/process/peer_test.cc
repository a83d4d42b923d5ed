// Goal: only a live process whose identity can be read, and that no session made, passes. Method:
// real processes connect to a real socket.
#include "process/peer.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstddef>
#include <cstdlib>

#include "process/proc.h"
#include "support.h"

using namespace mosaic;
using namespace mosaic::process;
using namespace mosaic::test;

namespace {

class Listener {
  public:
    Listener() {
        std::string pattern = "/var/tmp/mosaic-peer-XXXXXX";
        REQUIRE(::mkdtemp(pattern.data()) != nullptr);
        directory_ = pattern;
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path().copy(address.sun_path, sizeof(address.sun_path) - 1);
        socket_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        REQUIRE(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
        REQUIRE(::chmod(directory_.c_str(), 0755) == 0);
        REQUIRE(::chmod(path().c_str(), 0666) == 0);
        REQUIRE(::listen(socket_.get(), 8) == 0);
    }

    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    ~Listener() {
        ::unlink(path().c_str());
        ::rmdir(directory_.c_str());
    }

    [[nodiscard]] std::string path() const { return directory_ + "/s"; }

    [[nodiscard]] UniqueFd accept() const {
        UniqueFd connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        REQUIRE(connection.valid());
        return connection;
    }

    // A connected socket of this very process.
    [[nodiscard]] UniqueFd connect() const {
        UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path().copy(address.sun_path, sizeof(address.sun_path) - 1);
        REQUIRE(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) ==
                0);
        return client;
    }

  private:
    std::string directory_;
    UniqueFd socket_;
};

// A probe that is connected until `input` closes.
struct Connected {
    Spawned child;
    Pipe input;

    ~Connected() {
        input.write.reset();
        wait_exit(child.pidfd());
    }
};

Connected connect_probe(const Listener& listener, const char* how) {
    Pipe input = make_pipe();
    Pipe out = make_pipe();
    SpawnSpec spec = probe({how, listener.path()});
    spec.descriptors = {{input.read.get(), 0}, {out.write.get(), 1}};
    auto child = spawn(spec);
    REQUIRE(child.has_value());
    REQUIRE(child->wait_exec().has_value());
    REQUIRE(read_line(out.read.get()) == "connected");
    return Connected{std::move(*child), std::move(input)};
}

// Runs `act` in a fork of this process and waits until its end; `act` tells what it needs to by
// the pipe. Exits without destructors: they belong to the parent.
template <class Act>
pid_t in_fork(Act act) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        act();
        ::_exit(0);
    }
    return child;
}

// From now on this process's kernel doesn't know SO_PEERPIDFD (77), as before Linux 6.5.
bool forget_peer_pidfd() {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsockopt, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 77, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{sizeof(filter) / sizeof(filter[0]), filter};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

void write_pid(int fd, pid_t pid) {
    if (::write(fd, &pid, sizeof(pid)) != sizeof(pid)) {
        ::_exit(1);
    }
}

pid_t read_pid(int fd) {
    pid_t pid = -1;
    REQUIRE(::read(fd, &pid, sizeof(pid)) == sizeof(pid));
    return pid;
}

}  // namespace

TEST_CASE("a peer is the process that connected, with its start time") {
    const Listener listener;
    const Connected probe = connect_probe(listener, "connect");
    const UniqueFd connection = listener.accept();
    const auto peer = peer_of(connection.get());
    REQUIRE(peer.has_value());
    CHECK(peer->pid == probe.child.pid());
    CHECK(peer->uid == ::geteuid());
    CHECK(peer->start_time == read_stat(probe.child.pid())->start_time);
    CHECK(check_human(*peer, {}).has_value());
}

TEST_CASE("a peer that has exited is refused, a zombie and a reaped one") {
    const Listener listener;
    UniqueFd connection;
    {
        Connected probe = connect_probe(listener, "connect");
        connection = listener.accept();
        REQUIRE(signal_pidfd(probe.child.pidfd(), SIGKILL).has_value());
        pollfd wait{probe.child.pidfd(), POLLIN, 0};
        REQUIRE(::poll(&wait, 1, -1) == 1);
        CHECK(peer_of(connection.get()).error().code == Code::unavailable);
    }
    CHECK(peer_of(connection.get()).error().code == Code::unavailable);
}

TEST_CASE("a child that connects and exits while its parent stays gives no peer") {
    const Listener listener;
    const Connected probe = connect_probe(listener, "connect-child");
    const UniqueFd connection = listener.accept();
    CHECK(peer_of(connection.get()).error().code == Code::unavailable);
}

TEST_CASE("a kernel without SO_PEERPIDFD gives the same answers") {
    const Listener listener;
    const Connected alive = connect_probe(listener, "connect");
    const UniqueFd connection = listener.accept();
    const Connected parent_of_gone = connect_probe(listener, "connect-child");
    const UniqueFd gone = listener.accept();
    const pid_t alive_pid = alive.child.pid();
    const std::string start_time = read_stat(alive_pid)->start_time;
    const pid_t child = in_fork([&] {
        if (!forget_peer_pidfd()) {
            ::_exit(2);
        }
        const auto peer = peer_of(connection.get());
        if (!peer || peer->pid != alive_pid || peer->start_time != start_time) {
            ::_exit(3);
        }
        const auto nobody = peer_of(gone.get());
        ::_exit(!nobody && nobody.error().code == Code::unavailable ? 0 : 4);
    });
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("what is no connected socket gives no peer") {
    const Pipe pipe = make_pipe();
    CHECK_FALSE(peer_of(pipe.read.get()).has_value());
    const UniqueFd unconnected(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    CHECK_FALSE(peer_of(unconnected.get()).has_value());
}

TEST_CASE("a peer is no human when it or an ancestor is a session's process") {
    const Listener listener;
    const UniqueFd client = listener.connect();
    const UniqueFd connection = listener.accept();
    const auto peer = peer_of(connection.get());
    REQUIRE(peer.has_value());
    CHECK(peer->pid == ::getpid());
    CHECK(check_human(*peer, {}).has_value());
    CHECK(check_human(*peer, {999'999}).has_value());
    CHECK(check_human(*peer, {::getpid()}).error().code == Code::unsafe);
    CHECK(check_human(*peer, {999'999, ::getppid()}).error().code == Code::unsafe);
    const pid_t grandparent = read_stat(::getppid())->parent;
    if (grandparent > 0) {
        CHECK(check_human(*peer, {grandparent}).error().code == Code::unsafe);
    }
}

TEST_CASE("a peer whose number belongs to somebody else by now is no human") {
    Peer peer{::getpid(), ::geteuid(), read_stat(::getpid())->start_time};
    REQUIRE(check_human(peer, {}).has_value());
    peer.start_time += "1";
    CHECK(check_human(peer, {}).error().code == Code::unavailable);
}

TEST_CASE("a peer of another user is no human") {
    if (::geteuid() != 0) {
        MESSAGE("skipped: needs root to become another user");
        return;
    }
    const Listener listener;
    Pipe hold = make_pipe();
    const pid_t child = in_fork([&] {
        hold.write.reset();
        if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) {
            ::_exit(1);
        }
        const UniqueFd client = listener.connect();
        char byte = 0;
        [[maybe_unused]] const ssize_t got = ::read(hold.read.get(), &byte, 1);
    });
    const UniqueFd connection = listener.accept();
    const auto peer = peer_of(connection.get());
    REQUIRE(peer.has_value());
    CHECK(peer->uid == 65534);
    CHECK(check_human(*peer, {}).error().code == Code::unsafe);
    hold.write.reset();
    REQUIRE(::waitpid(child, nullptr, 0) == child);
}

TEST_CASE("a peer in another PID namespace is no human") {
    const Listener listener;
    Pipe hold = make_pipe();
    Pipe said = make_pipe();
    const pid_t child = in_fork([&] {
        hold.write.reset();
        const bool ready = ::unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0;
        const pid_t inner = ready ? ::fork() : -1;
        if (inner == 0) {
            const UniqueFd client = listener.connect();
            char byte = 0;
            [[maybe_unused]] const ssize_t got = ::read(hold.read.get(), &byte, 1);
            ::_exit(0);
        }
        write_pid(said.write.get(), inner);
        ::waitpid(inner, nullptr, 0);
    });
    const pid_t inner = read_pid(said.read.get());
    if (inner < 0) {
        MESSAGE("skipped: no user or PID namespaces here");
    } else {
        const UniqueFd connection = listener.accept();
        const auto peer = peer_of(connection.get());
        REQUIRE(peer.has_value());
        CHECK(peer->pid == inner);
        CHECK(read_ns_pids(inner) == std::vector<pid_t>{inner, 1});
        CHECK(check_human(*peer, {}).error().code == Code::unsafe);
    }
    hold.write.reset();
    REQUIRE(::waitpid(child, nullptr, 0) == child);
}

TEST_CASE("a peer outside our own PID namespace can't be found and is refused") {
    const Listener listener;
    Pipe said = make_pipe();
    const UniqueFd client = listener.connect();
    const pid_t child = in_fork([&] {
        const bool ready = ::unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0;
        const pid_t inner = ready ? ::fork() : -1;
        if (inner == 0) {
            const UniqueFd connection = listener.accept();
            const auto peer = peer_of(connection.get());
            write_pid(said.write.get(), !peer && peer.error().code == Code::unavailable ? 1 : 0);
            ::_exit(0);
        }
        if (inner < 0) {
            write_pid(said.write.get(), -1);
        }
        ::waitpid(inner, nullptr, 0);
    });
    const pid_t refused = read_pid(said.read.get());
    if (refused < 0) {
        MESSAGE("skipped: no user or PID namespaces here");
    } else {
        CHECK(refused == 1);
    }
    REQUIRE(::waitpid(child, nullptr, 0) == child);
}
