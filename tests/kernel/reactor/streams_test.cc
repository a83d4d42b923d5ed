// Pipes, sockets and pidfds on the real ring: what a supervisor waits for.

#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "fixture.h"

using namespace reactor_test;

TEST_CASE("a read of a pipe waits, gives what is there, and then the end of file") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    Ends pipe = make_pipe();
    Op op;
    std::array<char, 64> buffer{};
    ring->read(op, pipe.a.get(), buffer.data(), buffer.size());
    CHECK(tick_now(*ring).empty());
    CHECK(op.phase() == OpPhase::in_flight);

    REQUIRE(::write(pipe.b.get(), "partial", 7) == 7);
    CHECK(finish(*ring, op) == 7);
    CHECK(std::string(buffer.data(), 7) == "partial");

    pipe.b.reset();
    ring->read(op, pipe.a.get(), buffer.data(), buffer.size());
    CHECK(finish(*ring, op) == 0);
}

TEST_CASE("a write to a pipe without a reader gives EPIPE and kills nobody") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    Ends pipe = make_pipe();
    pipe.a.reset();
    Op op;
    ring->write(op, pipe.b.get(), "x", 1);
    CHECK(finish(*ring, op) == -EPIPE);
}

TEST_CASE("a write to a full pipe waits for its reader") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    Ends pipe = make_pipe();
    const int size = ::fcntl(pipe.b.get(), F_GETPIPE_SZ);
    REQUIRE(size > 0);
    const std::string full(static_cast<size_t>(size), 'f');
    REQUIRE(::write(pipe.b.get(), full.data(), full.size()) == size);

    Op op;
    ring->write(op, pipe.b.get(), "tail", 4);
    CHECK(tick_now(*ring).empty());
    std::string taken(full.size(), '\0');
    REQUIRE(::read(pipe.a.get(), taken.data(), taken.size()) == size);
    CHECK(finish(*ring, op) == 4);
}

TEST_CASE("sockets: send and recv carry bytes, recv gives 0 at the peer's end") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    Ends sockets = make_socketpair();
    Op send;
    Op recv;
    std::array<char, 4> buffer{};
    ring->recv(recv, sockets.b.get(), buffer.data(), buffer.size());
    ring->send(send, sockets.a.get(), "sixchr", 6);
    CHECK(finish(*ring, send) == 6);
    CHECK(finish(*ring, recv) == 4);
    CHECK(std::string(buffer.data(), 4) == "sixc");

    ring->recv(recv, sockets.b.get(), buffer.data(), buffer.size());
    CHECK(finish(*ring, recv) == 2);

    sockets.a.reset();
    ring->recv(recv, sockets.b.get(), buffer.data(), buffer.size());
    CHECK(finish(*ring, recv) == 0);
}

TEST_CASE("a send to a socket whose peer is gone gives EPIPE, even with SIGPIPE deadly") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    ::signal(SIGPIPE, SIG_DFL);
    Ends sockets = make_socketpair();
    sockets.b.reset();
    Op op;
    ring->send(op, sockets.a.get(), "x", 1);
    CHECK(finish(*ring, op) == -EPIPE);
    ::signal(SIGPIPE, SIG_IGN);
}

TEST_CASE("accept gives close-on-exec descriptors, one for each connection") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    // An autobound abstract address: no file to clean up, no port to collide with.
    UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(listener.valid());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socklen_t size = sizeof(sa_family_t);
    REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    size = sizeof(address);
    REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    REQUIRE(::listen(listener.get(), 16) == 0);

    Op op;
    for (int i = 0; i < 3; ++i) {
        ring->accept(op, listener.get());
        CHECK(tick_now(*ring).empty());
        UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        REQUIRE(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
        const int32_t result = finish(*ring, op);
        REQUIRE(result >= 0);
        UniqueFd accepted(result);
        CHECK((::fcntl(accepted.get(), F_GETFD) & FD_CLOEXEC) != 0);
        REQUIRE(::write(client.get(), "hi", 2) == 2);
        std::array<char, 2> got{};
        CHECK(::read(accepted.get(), got.data(), got.size()) == 2);
    }
}

TEST_CASE("accept without descriptors left gives EMFILE and works again later") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socklen_t size = sizeof(sa_family_t);
    REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    size = sizeof(address);
    REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    REQUIRE(::listen(listener.get(), 16) == 0);
    UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);

    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    const int lowest_free = ::dup(0);
    ::close(lowest_free);
    rlimit tight = before;
    tight.rlim_cur = static_cast<rlim_t>(lowest_free);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &tight) == 0);
    Op op;
    ring->accept(op, listener.get());
    const int32_t refused = finish(*ring, op);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(refused == -EMFILE);

    ring->accept(op, listener.get());
    const UniqueFd accepted(finish(*ring, op));
    CHECK(accepted.valid());
}

TEST_CASE("a poll of a child's pidfd completes at its exit, and leaves it to be reaped") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    Ends pipe = make_pipe();
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        char byte = 0;
        const ssize_t size = ::read(pipe.a.get(), &byte, 1);
        ::_exit(size == 1 ? 7 : 1);
    }
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
    REQUIRE(pidfd.valid());
    Op op;
    ring->poll(op, pidfd.get(), POLLIN);
    CHECK(tick_now(*ring).empty());

    REQUIRE(::write(pipe.b.get(), "x", 1) == 1);
    CHECK(finish(*ring, op) == POLLIN);
    siginfo_t info{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG) == 0);
    CHECK(info.si_pid == child);
    CHECK(info.si_code == CLD_EXITED);
    CHECK(info.si_status == 7);
}

TEST_CASE("a poll of a process that has already exited completes at once") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::_exit(0);
    }
    siginfo_t info{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
    Op op;
    ring->poll(op, pidfd.get(), POLLIN);
    CHECK(finish(*ring, op) == POLLIN);
    CHECK(::waitpid(child, nullptr, 0) == child);
}

TEST_CASE("a poll reports a hang-up that was not asked for") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    Ends pipe = make_pipe();
    Op op;
    ring->poll(op, pipe.a.get(), POLLIN);
    CHECK(tick_now(*ring).empty());
    pipe.b.reset();
    CHECK((finish(*ring, op) & POLLHUP) != 0);
}

TEST_CASE("an op can be armed again, for another operation, while its completion is handled") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    Ends sockets = make_socketpair();
    Op op;
    op.set_owner(3, 44);
    std::array<char, 8> buffer{};
    std::vector<Op*> done;
    for (int round = 0; round < 100; ++round) {
        const bool sending = round % 2 == 0;
        if (sending) {
            ring->send(op, sockets.a.get(), "round", 5);
        } else {
            ring->recv(op, sockets.b.get(), buffer.data(), buffer.size());
        }
        REQUIRE(ring->tick(Ring::kForever, done).has_value());
        take_all(done);
        REQUIRE(done.size() == 1);
        REQUIRE(done[0] == &op);
        CHECK(op.result() == 5);
        CHECK(op.kind() ==
              (sending ? mosaic::reactor::OpKind::send : mosaic::reactor::OpKind::recv));
        CHECK(op.owner_kind() == 3);
        CHECK(op.owner() == 44);
    }
    CHECK(ring->in_flight() == 0);
}
