// launch.sock's connections on the real ring: order, bounds, and clients that behave in any way.

#include "host/clients.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "rig.h"
#include "wire/limits.h"

using namespace mosaic;
using namespace mosaic::test;
using host::Clients;

namespace {

constexpr SlotRef kRun{0, 1};
constexpr SlotRef kOther{1, 1};

struct Talking : Rig {
    Talking() {
        if (ok()) {
            clients = std::make_unique<Clients>(loop);
        }
    }

    // The client's end of a new connection of this run's runner.
    UniqueFd connect(SlotRef run) {
        Ends ends = make_socketpair();
        clients->add(std::move(ends.a), run);
        return std::move(ends.b);
    }

    // Ticks until so many requests came since the last call of take().
    void expect(size_t requests_wanted) {
        run_until([&] { return requests.size() >= requests_wanted; });
        CHECK(requests.size() == requests_wanted);
    }

    host::ClientRequest take() {
        REQUIRE_FALSE(requests.empty());
        host::ClientRequest request = std::move(requests.front());
        requests.pop_front();
        return request;
    }

    // Ticks until nothing more can happen without somebody else: what is armed only waits.
    void settle() {
        for (int i = 0; i < 10; ++i) {
            tick_now();
        }
    }

    void answer(const host::ClientRequest& request, const std::string& text) {
        clients->answer(request.client, request.number, text);
    }

    // Ticks until so many bytes came from the host.
    std::string receive(int fd, size_t bytes) {
        std::string text;
        while (text.size() < bytes) {
            wait_readable(fd);
            std::array<char, 65536> buffer{};
            const ssize_t n = ::recv(
                fd, buffer.data(), std::min(buffer.size(), bytes - text.size()), MSG_DONTWAIT);
            if (n <= 0) {
                break;
            }
            text.append(buffer.data(), static_cast<size_t>(n));
        }
        return text;
    }

    // Ticks until the host has closed, and nothing came before that.
    bool closes(int fd) {
        wait_readable(fd);
        char byte = 0;
        const ssize_t n = ::recv(fd, &byte, 1, MSG_DONTWAIT);
        return n == 0 || (n < 0 && errno == ECONNRESET);
    }
};

void send(int fd, const std::string& text) {
    REQUIRE(::send(fd, text.data(), text.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(text.size()));
}

}  // namespace

TEST_CASE("requests come whole, whatever pieces they were sent in") {
    Talking rig;
    if (!rig.ok()) {
        return;
    }
    const UniqueFd client = rig.connect(kRun);
    send(client.get(), "one\ntwo\nthr");
    rig.expect(2);
    for (const char* piece : {"e", "", "e", "\n"}) {
        send(client.get(), piece);
        rig.settle();
    }
    rig.expect(3);
    uint64_t number = 0;
    for (const char* text : {"one", "two", "three"}) {
        const host::ClientRequest request = rig.take();
        CHECK(request.line == text);
        CHECK(request.number == number++);
        CHECK(request.run == kRun);
        CHECK_FALSE(request.overlong);
    }
}

TEST_CASE("replies go out in the order of the requests, in whatever order they are given") {
    Talking rig;
    if (!rig.ok()) {
        return;
    }
    std::array<size_t, 4> order{0, 1, 2, 3};
    do {
        const UniqueFd client = rig.connect(kRun);
        send(client.get(), "a\nb\nc\nd\n");
        rig.expect(4);
        std::vector<host::ClientRequest> requests;
        for (size_t i = 0; i < 4; ++i) {
            requests.push_back(rig.take());
        }
        for (const size_t i : order) {
            rig.answer(requests[i], "reply to " + requests[i].line + "\n");
            rig.settle();
        }
        CHECK(rig.receive(client.get(), 44) == "reply to a\nreply to b\nreply to c\nreply to d\n");
    } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("a request that comes in the tick in which a reply was sent isn't lost") {
    for (const bool last_first : {false, true}) {
        CAPTURE(last_first);
        Talking rig;
        if (!rig.ok()) {
            return;
        }
        rig.last_first = last_first;
        const UniqueFd client = rig.connect(kRun);
        send(client.get(), "one\n");
        rig.expect(1);
        // Both are done before the ring is looked at again.
        for (const char* text : {"two", "three", "four"}) {
            rig.answer(rig.take(), "yes\n");
            send(client.get(), std::string(text) + "\n");
            rig.expect(1);
            CHECK(rig.requests.front().line == text);
            CHECK(rig.receive(client.get(), 4) == "yes\n");
        }
    }
}

TEST_CASE("with sixteen requests outstanding reading stops until one is answered") {
    Talking rig;
    if (!rig.ok()) {
        return;
    }
    const UniqueFd client = rig.connect(kRun);
    constexpr size_t kSent = 3 * limits::kLaunchOutstandingMax;
    std::string lines;
    for (size_t i = 0; i < kSent; ++i) {
        lines += "request " + std::to_string(i) + "\n";
    }
    send(client.get(), lines);
    rig.expect(limits::kLaunchOutstandingMax);
    // More would be there, and nobody waits for it.
    send(client.get(), "and another\n");
    rig.settle();
    CHECK(rig.requests.size() == limits::kLaunchOutstandingMax);
    CHECK(rig.loop.ring->in_flight() == 0);

    for (size_t i = 0; i <= kSent; ++i) {
        rig.run_until([&] { return !rig.requests.empty(); });
        CHECK(rig.requests.size() <= limits::kLaunchOutstandingMax);
        const host::ClientRequest request = rig.take();
        CHECK(request.number == i);
        CHECK(request.line == (i < kSent ? "request " + std::to_string(i) : "and another"));
        rig.answer(request, "ok\n");
        rig.settle();
    }
    CHECK(rig.receive(client.get(), 3 * (kSent + 1)).size() == 3 * (kSent + 1));
}

TEST_CASE("answers to the youngest alone let nothing more in") {
    Talking rig;
    if (!rig.ok()) {
        return;
    }
    const UniqueFd client = rig.connect(kRun);
    std::string lines;
    for (size_t i = 0; i < 2 * limits::kLaunchOutstandingMax; ++i) {
        lines += "x\n";
    }
    send(client.get(), lines);
    rig.expect(limits::kLaunchOutstandingMax);
    const host::ClientRequest oldest = rig.take();
    while (!rig.requests.empty()) {
        rig.answer(rig.take(), "ok\n");
    }
    rig.settle();
    CHECK(rig.requests.empty());
    rig.answer(oldest, "ok\n");
    rig.expect(limits::kLaunchOutstandingMax);
}

TEST_CASE("the longest line is a request, one byte more ends the connection with its reply") {
    Talking rig;
    if (!rig.ok()) {
        return;
    }
    const UniqueFd client = rig.connect(kRun);
    const std::string longest(limits::kLaunchLineBytesMax, 'x');
    send(client.get(), longest + "\n");
    rig.expect(1);
    host::ClientRequest request = rig.take();
    CHECK(request.line == longest);
    CHECK_FALSE(request.overlong);
    rig.answer(request, "fine\n");
    CHECK(rig.receive(client.get(), 5) == "fine\n");

    send(client.get(), longest + "x\nnever a request\n");
    rig.expect(1);
    request = rig.take();
    CHECK(request.overlong);
    CHECK(request.line.empty());
    rig.answer(request, "too long\n");
    CHECK(rig.receive(client.get(), 9) == "too long\n");
    CHECK(rig.closes(client.get()));
    CHECK(rig.clients->open_connections() == 0);
    CHECK(rig.requests.empty());
}

TEST_CASE("a line without end is stopped at the limit") {
    Talking rig;
    if (!rig.ok()) {
        return;
    }
    const UniqueFd client = rig.connect(kRun);
    const std::string piece(16384, 'x');
    size_t sent = 0;
    bool refused = false;
    while (sent < size_t{64} * 1024 * 1024) {
        const ssize_t n =
            ::send(client.get(), piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            sent += static_cast<size_t>(n);
        } else if (errno != EAGAIN) {
            refused = errno == EPIPE || errno == ECONNRESET;
            break;
        } else if (!rig.requests.empty()) {
            rig.answer(rig.take(), "too long\n");
        }
        rig.tick_now();
    }
    CHECK(refused);
    // What the limit and the socket's own buffer hold, and no more.
    CHECK(sent < size_t{2} * 1024 * 1024);
    CHECK(rig.receive(client.get(), 9) == "too long\n");
    CHECK(rig.clients->open_connections() == 0);
}

TEST_CASE("a last line without its newline is a request too, and gets its reply") {
    Talking rig;
    if (!rig.ok()) {
        return;
    }
    const UniqueFd client = rig.connect(kRun);
    send(client.get(), "first\nlast");
    REQUIRE(::shutdown(client.get(), SHUT_WR) == 0);
    rig.expect(2);
    const host::ClientRequest first = rig.take();
    const host::ClientRequest last = rig.take();
    CHECK(last.line == "last");
    rig.settle();
    CHECK(rig.clients->open_connections() == 1);
    rig.answer(last, "two\n");
    rig.answer(first, "one\n");
    CHECK(rig.receive(client.get(), 8) == "one\ntwo\n");
    CHECK(rig.closes(client.get()));
    CHECK(rig.clients->open_connections() == 0);
}

TEST_CASE("a client that says nothing more and waits for nothing is let go") {
    Talking rig;
    if (!rig.ok()) {
        return;
    }
    const UniqueFd client = rig.connect(kRun);
    REQUIRE(::shutdown(client.get(), SHUT_WR) == 0);
    CHECK(rig.closes(client.get()));
    CHECK(rig.clients->open_connections() == 0);
    CHECK(rig.requests.empty());
}

TEST_CASE("a client that never reads costs the others nothing and is bounded") {
    Talking rig;
    if (!rig.ok()) {
        return;
    }
    UniqueFd deaf = rig.connect(kRun);
    const UniqueFd good = rig.connect(kOther);
    const std::string reply = std::string(16383, 'r') + "\n";
    std::string lines;
    for (size_t i = 0; i < 2000; ++i) {
        lines += "x\n";
    }
    send(deaf.get(), lines);
    // Answered at once, until its socket is full and what it asked stays unread.
    size_t answered = 0;
    for (int idle = 0; idle < 20;) {
        rig.tick_now();
        idle = rig.requests.empty() ? idle + 1 : 0;
        while (!rig.requests.empty()) {
            rig.answer(rig.take(), reply);
            ++answered;
        }
    }
    CHECK(answered < 200);
    for (int i = 0; i < 5; ++i) {
        send(good.get(), "hello\n");
        rig.expect(1);
        rig.answer(rig.take(), "hi\n");
        CHECK(rig.receive(good.get(), 3) == "hi\n");
    }
    // It comes to its senses: everything is there, in order.
    CHECK(rig.receive(deaf.get(), answered * reply.size()).size() == answered * reply.size());
    deaf.reset();
    rig.run_until([&] {
        while (!rig.requests.empty()) {
            rig.answer(rig.take(), reply);
        }
        return rig.clients->open_connections() == 1;
    });
}

TEST_CASE("a new connection of a run replaces its older one, and no other run's") {
    Talking rig;
    if (!rig.ok()) {
        return;
    }
    const UniqueFd old = rig.connect(kRun);
    const UniqueFd other = rig.connect(kOther);
    send(old.get(), "asked on the old one\nand half a li");
    rig.expect(1);
    const host::ClientRequest asked = rig.take();
    rig.settle();
    const UniqueFd fresh = rig.connect(kRun);
    CHECK(rig.closes(old.get()));
    rig.run_until([&] { return rig.clients->open_connections() == 2; });
    CHECK(rig.requests.empty());
    // The answer belongs to the connection that asked, and that is gone.
    rig.answer(asked, "late\n");
    send(fresh.get(), "new\n");
    rig.expect(1);
    rig.answer(rig.take(), "fresh\n");
    CHECK(rig.receive(fresh.get(), 6) == "fresh\n");
    send(other.get(), "still here\n");
    rig.expect(1);
    rig.answer(rig.take(), "yes\n");
    CHECK(rig.receive(other.get(), 4) == "yes\n");
}

TEST_CASE("the same run in another life of its slot is another run") {
    Talking rig;
    if (!rig.ok()) {
        return;
    }
    const UniqueFd first = rig.connect({5, 1});
    const UniqueFd second = rig.connect({5, 2});
    rig.settle();
    CHECK(rig.clients->open_connections() == 2);
    rig.clients->end_of_run({5, 1});
    CHECK(rig.closes(first.get()));
    CHECK(rig.clients->open_connections() == 1);
}

TEST_CASE("at the end of its run a connection gets its replies, and asks nothing more") {
    Talking rig;
    if (!rig.ok()) {
        return;
    }
    const UniqueFd client = rig.connect(kRun);
    send(client.get(), "a\nb\n");
    rig.expect(2);
    const host::ClientRequest a = rig.take();
    const host::ClientRequest b = rig.take();
    send(client.get(), "cut sho");
    rig.settle();
    rig.clients->end_of_run(kRun);
    rig.clients->end_of_run(kRun);  // twice is once
    rig.settle();
    CHECK(rig.requests.empty());
    CHECK(rig.clients->open_connections() == 1);
    rig.answer(b, "B\n");
    rig.answer(a, "A\n");
    CHECK(rig.receive(client.get(), 4) == "A\nB\n");
    CHECK(rig.closes(client.get()));
    CHECK(rig.clients->open_connections() == 0);
    CHECK(rig.requests.empty());
}

TEST_CASE("a client may hang up at any point, and its slot is free afterwards") {
    Talking rig;
    if (!rig.ok()) {
        return;
    }
    const std::string reply(50'000, 'r');
    for (const bool with_unread : {false, true}) {
        for (int point = 0; point <= 7; ++point) {
            CAPTURE(point);
            CAPTURE(with_unread);
            UniqueFd client = rig.connect(kRun);
            std::vector<host::ClientRequest> requests;
            const auto hang_up = [&] {
                if (!with_unread && client.valid()) {
                    // Without an unread byte the close is an end of file, else a reset.
                    std::array<char, 65536> buffer{};
                    while (::recv(client.get(), buffer.data(), buffer.size(), MSG_DONTWAIT) > 0) {
                    }
                }
                client.reset();
            };
            for (int step = 0; step < 7; ++step) {
                if (step == point) {
                    hang_up();
                }
                if (step == 0 && client.valid()) {
                    send(client.get(), "first li");
                } else if (step == 1 && client.valid()) {
                    send(client.get(), "ne\nsecond\n");
                } else if (step == 2 && client.valid()) {
                    rig.expect(2);
                } else if (step == 3 && client.valid()) {
                    send(client.get(), "third\nha");
                } else if (step >= 4) {
                    while (!rig.requests.empty()) {
                        requests.push_back(rig.take());
                    }
                    const auto i = static_cast<size_t>(step - 4);
                    if (i < requests.size()) {
                        rig.answer(requests[i], reply);
                    }
                }
                rig.settle();
            }
            hang_up();
            while (rig.clients->open_connections() > 0) {
                // Whatever it had asked by then is still answered, to nobody.
                while (!rig.requests.empty()) {
                    requests.push_back(rig.take());
                }
                for (const host::ClientRequest& request : requests) {
                    rig.answer(request, reply);
                }
                rig.tick_now();
            }
            CHECK(rig.loop.ring->in_flight() == 0);
            rig.requests.clear();
        }
    }
}

TEST_CASE("a slot that is used again gets no answer of its earlier life") {
    Talking rig;
    if (!rig.ok()) {
        return;
    }
    std::vector<host::ClientRequest> old;
    for (int life = 0; life < 20; ++life) {
        UniqueFd client = rig.connect(kRun);
        send(client.get(), "of life " + std::to_string(life) + "\n");
        rig.expect(1);
        const host::ClientRequest request = rig.take();
        // One slot, the same number in it, another generation each time.
        CHECK(request.client.index == 0);
        CHECK(request.number == 0);
        for (const host::ClientRequest& earlier : old) {
            CHECK_FALSE(earlier.client == request.client);
            rig.answer(earlier, "not yours\n");
        }
        rig.answer(request, "yours\n");
        CHECK(rig.receive(client.get(), 6) == "yours\n");
        send(client.get(), "never answered\n");
        rig.expect(1);
        old.push_back(rig.take());
        // Not by a close of the client, which would have to wait for its reply.
        const UniqueFd next = rig.connect(kRun);
        rig.run_until([&] { return rig.clients->open_connections() == 1; });
        REQUIRE(::shutdown(next.get(), SHUT_WR) == 0);
        rig.run_until([&] { return rig.clients->open_connections() == 0; });
    }
}

TEST_CASE("past the limit of connections a new one is told that the host is busy and closed") {
    Talking rig;
    if (!rig.ok()) {
        return;
    }
    std::vector<UniqueFd> clients;
    for (uint32_t i = 0; i < limits::kLaunchClientsMax; ++i) {
        clients.push_back(rig.connect({i, 1}));
    }
    const UniqueFd more = rig.connect({limits::kLaunchClientsMax, 1});
    std::array<char, 256> told{};
    const ssize_t size = ::recv(more.get(), told.data(), told.size(), MSG_DONTWAIT);
    REQUIRE(size > 0);
    CHECK(std::string_view(told.data(), static_cast<size_t>(size)) ==
          wire::encode_launch_refusal(Refusal::busy, "", ""));
    CHECK(rig.closes(more.get()));
    CHECK(rig.clients->open_connections() == limits::kLaunchClientsMax);
    // One goes, one may come.
    clients.front().reset();
    rig.run_until([&] { return rig.clients->open_connections() == limits::kLaunchClientsMax - 1; });
    const UniqueFd again = rig.connect({limits::kLaunchClientsMax, 1});
    send(again.get(), "x\n");
    rig.expect(1);
}
