// Cancelling on the real ring. The truth is always the op's own completion.

#include <poll.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>

#include "fixture.h"

using namespace reactor_test;

TEST_CASE("a cancelled op of each waiting kind completes once, with ECANCELED") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    const Ends pipe = make_pipe();
    const Ends full = make_pipe();
    const std::string filling(static_cast<size_t>(::fcntl(full.b.get(), F_GETPIPE_SZ)), 'f');
    REQUIRE(::write(full.b.get(), filling.data(), filling.size()) > 0);
    const Ends sockets = make_socketpair();
    const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)) ==
            0);
    REQUIRE(::listen(listener.get(), 1) == 0);
    std::array<char, 8> buffer{};

    Op ops[5];
    ring->poll(ops[0], pipe.a.get(), POLLIN);
    ring->read(ops[1], pipe.a.get(), buffer.data(), buffer.size());
    ring->write(ops[2], full.b.get(), "x", 1);
    ring->recv(ops[3], sockets.a.get(), buffer.data(), buffer.size());
    ring->accept(ops[4], listener.get());
    CHECK(tick_now(*ring).empty());
    CHECK(ring->in_flight() == 5);
    for (Op& op : ops) {
        ring->cancel(op);
        CHECK(op.phase() == OpPhase::canceling);
        ring->cancel(op);  // asking twice changes nothing
    }
    CHECK(ring->in_flight() == 10);
    const std::vector<Op*> done = drain(*ring);
    CHECK(done.size() == 5);
    for (const Op& op : ops) {
        CAPTURE(static_cast<int>(op.kind()));
        CHECK(op.idle());
        CHECK(op.result() == -ECANCELED);
    }
}

TEST_CASE("an op cancelled before it was submitted is given up all the same") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    const Ends pipe = make_pipe();
    Op op;
    ring->poll(op, pipe.a.get(), POLLIN);
    ring->cancel(op);
    CHECK(drain(*ring) == std::vector<Op*>{&op});
    CHECK(op.result() == -ECANCELED);
}

TEST_CASE("cancelling an idle op does nothing") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    Op never;
    ring->cancel(never);
    CHECK(never.idle());
    CHECK(ring->in_flight() == 0);
}

TEST_CASE("a cancel that comes after the completion changes no result") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    const Ends pipe = make_pipe();
    Op op;
    std::array<char, 8> buffer{};
    ring->read(op, pipe.a.get(), buffer.data(), buffer.size());
    CHECK(tick_now(*ring).empty());
    // The read is fulfilled in the kernel, its completion not seen yet.
    REQUIRE(::write(pipe.b.get(), "won", 3) == 3);
    ring->cancel(op);
    CHECK(drain(*ring) == std::vector<Op*>{&op});
    // Either side may win the race; a result of the op's own is never both.
    const bool won = op.result() == 3;
    const bool gave_up = op.result() == -ECANCELED;
    CHECK((won || gave_up));
    if (gave_up) {
        CHECK(::read(pipe.a.get(), buffer.data(), buffer.size()) == 3);
    }
}

TEST_CASE("a cancel meets only the activation it was asked for") {
    const auto ring = make_ring({.entries = 8, .operations_max = 64});
    if (ring == nullptr) {
        return;
    }
    const Ends pipe = make_pipe();
    std::vector<Op*> done;
    for (int round = 0; round < 50; ++round) {
        const Ends own = make_pipe();
        Op op;
        ring->poll(op, own.a.get(), POLLIN);
        CHECK(tick_now(*ring).empty());
        REQUIRE(::write(own.b.get(), "x", 1) == 1);
        // Asked for before the completion was seen, answered at any time.
        ring->cancel(op);
        while (!op.idle()) {
            REQUIRE(ring->tick(Ring::kForever, done).has_value());
            take_all(done);
        }
        // The same op again at once, while the cancel may be unanswered.
        ring->poll(op, pipe.a.get(), POLLIN);
        CHECK(tick_now(*ring).empty());
        CHECK(op.phase() == OpPhase::in_flight);
        ring->cancel(op);
        CHECK(finish(*ring, op) == -ECANCELED);
    }
    drain(*ring);
}

TEST_CASE("a slot's next op is not met by a cancel of its last") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    const Ends pipe = make_pipe();
    for (int round = 0; round < 50; ++round) {
        {
            const Ends own = make_pipe();
            Op first;
            ring->poll(first, own.a.get(), POLLIN);
            CHECK(tick_now(*ring).empty());
            ring->cancel(first);
            REQUIRE(::write(own.b.get(), "x", 1) == 1);
            finish(*ring, first);
        }
        Op second;  // takes the slot that `first` left
        ring->poll(second, pipe.a.get(), POLLIN);
        CHECK(tick_now(*ring).empty());
        CHECK(second.phase() == OpPhase::in_flight);
        ring->cancel(second);
        CHECK(finish(*ring, second) == -ECANCELED);
    }
    drain(*ring);
}

TEST_CASE("the ring's end gives up all that is in flight, and then the ops may go") {
    const Ends pipe = make_pipe();
    Op ops[100];
    {
        const auto ring = make_ring({.entries = 4, .operations_max = 128});
        if (ring == nullptr) {
            return;
        }
        for (Op& op : ops) {
            ring->poll(op, pipe.a.get(), POLLIN);
        }
        CHECK(tick_now(*ring).empty());
        CHECK(ring->in_flight() == 100);
    }
    for (const Op& op : ops) {
        CHECK(op.idle());
        CHECK(op.result() == -ECANCELED);
    }
}

TEST_CASE("an open that blocks in a kernel worker can be cancelled") {
    const std::string path =
        std::string(MOSAIC_BUILD_DIR "/reactor-fifo-") + std::to_string(::getpid());
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    Op op;
    // Waits for a writer that never comes; O_CREAT sends the open to a worker.
    ring->openat(op, AT_FDCWD, path.c_str(), O_RDONLY | O_CREAT, 0600);
    CHECK(tick_now(*ring).empty());
    ring->cancel(op);
    const int32_t result = finish(*ring, op);
    CAPTURE(result);
    CHECK((result == -ECANCELED || result == -EINTR));
    drain(*ring);
    ::unlink(path.c_str());
}
