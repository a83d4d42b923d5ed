// Goal: whoever asks on the port for metrics gets them, once, and nobody can hold anything up by
// it: who says nothing, says it slowly, says too much, doesn't listen, or comes too often. Method:
// real connections on the real ring, time passed by the rig.

#include "host/metrics_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "rig.h"

using namespace mosaic;
using namespace mosaic::test;
using host::kMetricsClientMs;
using host::kMetricsClientsMax;
using host::MetricsPort;

namespace {

const std::string kText = "# HELP a A.\n# TYPE a gauge\na 1\n";
const std::string kGet = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

sockaddr_in loopback(int64_t port) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    out.sin_port = htons(static_cast<uint16_t>(port));
    return out;
}

UniqueFd tcp_socket() {
    UniqueFd out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(out.valid());
    return out;
}

// Bound to a port of the kernel's choice.
struct Held {
    UniqueFd socket = tcp_socket();
    int64_t port = 0;

    Held() {
        sockaddr_in address = loopback(0);
        socklen_t size = sizeof address;
        REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
        REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
        port = ntohs(address.sin_port);
    }
};

class Serving : public Rig {
  public:
    Serving() {
        if (!ok()) {
            return;
        }
        metrics = std::make_unique<MetricsPort>(loop);
        // Somebody else may take a port between our look and our use.
        for (int tries = 0; metrics->port() == 0 && tries < 20; ++tries) {
            Held held;
            const int64_t port = held.port;
            held.socket.reset();
            metrics->serve(port);
        }
        REQUIRE(metrics->port() != 0);
    }

    [[nodiscard]] UniqueFd connect() {
        UniqueFd out = tcp_socket();
        const sockaddr_in address = loopback(metrics->port());
        REQUIRE(::connect(out.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
                0);
        return out;
    }

    // A connection that was accepted.
    [[nodiscard]] UniqueFd accepted() {
        const size_t before = metrics->open_connections();
        UniqueFd out = connect();
        run_until([&] { return metrics->open_connections() > before; });
        return out;
    }

    void say(const UniqueFd& fd, const std::string& bytes) {
        REQUIRE(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()));
    }

    // All that comes until the end of the stream.
    std::string rest(const UniqueFd& fd) {
        std::string out;
        while (true) {
            wait_readable(fd.get());
            std::array<char, 65536> buffer{};
            const ssize_t n = ::recv(fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
            if (n <= 0) {
                return out;
            }
            out.append(buffer.data(), static_cast<size_t>(n));
        }
    }

    void settle() {
        for (int i = 0; i < 10; ++i) {
            tick_now();
        }
    }

    [[nodiscard]] bool ended(const UniqueFd& fd) {
        std::array<char, 64> buffer{};
        const ssize_t n = ::recv(fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        return n == 0 || (n < 0 && errno != EAGAIN);
    }

    std::string text = kText;
    int questions = 0;
    bool answers = true;

  protected:
    void after_tick() override {
        if (metrics->take_question()) {
            ++questions;
            if (answers) {
                metrics->answer(text);
            }
        }
    }
};

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a request for the metrics gets them and the connection ends") {
    Serving rig;
    if (!rig.ok()) {
        return;
    }
    for (const bool closes_its_side : {false, true}) {
        UniqueFd client = rig.connect();
        rig.say(client, kGet);
        if (closes_its_side) {
            REQUIRE(::shutdown(client.get(), SHUT_WR) == 0);
        }
        const std::string response = rig.rest(client);
        CHECK(response.starts_with("HTTP/1.0 200 OK\r\n"));
        CHECK(response.ends_with("\r\n\r\n" + kText));
        client.reset();
        rig.run_until([&] { return rig.metrics->open_connections() == 0; });
    }
    CHECK(rig.questions == 2);
}

TEST_CASE("nobody reaches the port but by 127.0.0.1") {
    Serving rig;
    if (!rig.ok()) {
        return;
    }
    sockaddr_in elsewhere = loopback(rig.metrics->port());
    elsewhere.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    const UniqueFd client = tcp_socket();
    CHECK(::connect(
              client.get(), reinterpret_cast<const sockaddr*>(&elsewhere), sizeof elsewhere) != 0);
    CHECK(errno == ECONNREFUSED);
}

TEST_CASE("a request in the smallest pieces is one") {
    Serving rig;
    if (!rig.ok()) {
        return;
    }
    const UniqueFd client = rig.connect();
    for (const char c : kGet) {
        rig.say(client, std::string(1, c));
        rig.settle();
    }
    CHECK(rig.rest(client).ends_with(kText));
}

TEST_CASE("a text larger than any buffer arrives whole") {
    Serving rig;
    if (!rig.ok()) {
        return;
    }
    rig.text = std::string(size_t{32} * 1024 * 1024, 'x');
    const UniqueFd client = rig.connect();
    rig.say(client, kGet);
    CHECK(rig.rest(client).ends_with(rig.text));
}

TEST_CASE("anything else is refused by its status and asks nothing") {
    Serving rig;
    if (!rig.ok()) {
        return;
    }
    const std::string endless = "GET /metrics HTTP/1.1\r\nA: " + std::string(16384, 'a');
    for (const auto& [request, status] : std::vector<std::pair<std::string, std::string>>{
             {"GET / HTTP/1.1\r\n\r\n", "404"},
             {"GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n", "404"},
             {"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405"},
             {"hello\r\n\r\n", "400"},
             {endless, "400"}}) {
        CAPTURE(request);
        const UniqueFd client = rig.connect();
        rig.say(client, request);
        CHECK(rig.rest(client).starts_with("HTTP/1.0 " + status + " "));
    }
    CHECK(rig.questions == 0);
}

TEST_CASE("only the first request of a connection counts") {
    Serving rig;
    if (!rig.ok()) {
        return;
    }
    const UniqueFd client = rig.connect();
    rig.say(client, kGet + kGet + kGet);
    const std::string response = rig.rest(client);
    CHECK(response.find("200 OK") == response.rfind("200 OK"));
    CHECK(rig.questions == 1);
}

TEST_CASE("one question is for all who wait") {
    Serving rig;
    if (!rig.ok()) {
        return;
    }
    rig.answers = false;
    std::vector<UniqueFd> clients;
    for (int i = 0; i < 4; ++i) {
        clients.push_back(rig.accepted());
        rig.say(clients.back(), kGet);
    }
    rig.run_until([&] { return rig.questions > 0; });
    rig.settle();
    rig.metrics->answer(kText);
    for (const UniqueFd& client : clients) {
        CHECK(rig.rest(client).ends_with(kText));
    }
    CHECK_FALSE(rig.metrics->take_question());
}

TEST_CASE("who is slow, silent or deaf is let go at the deadline") {
    Serving rig;
    if (!rig.ok()) {
        return;
    }
    const UniqueFd silent = rig.accepted();
    const UniqueFd slow = rig.accepted();
    rig.say(slow, "GET /metr");
    const UniqueFd unanswered = rig.accepted();
    rig.answers = false;
    rig.say(unanswered, kGet);
    rig.run_until([&] { return rig.questions == 1; });
    rig.answers = true;
    rig.text = std::string(size_t{16} * 1024 * 1024, 'x');
    const UniqueFd deaf = rig.accepted();
    rig.say(deaf, kGet);
    const UniqueFd stays = rig.accepted();
    rig.say(stays, "GET / HTTP/1.1\r\n\r\n");
    rig.run_until([&] { return rig.questions == 2; });
    rig.settle();
    rig.pass(milliseconds(kMetricsClientMs));
    rig.run_until([&] { return rig.metrics->open_connections() == 0; });
    for (const UniqueFd* client : {&silent, &slow}) {
        CHECK(rig.ended(*client));
    }
    // And another is served as ever.
    rig.text = kText;
    const UniqueFd next = rig.connect();
    rig.say(next, kGet);
    CHECK(rig.rest(next).ends_with(kText));
}

TEST_CASE("one byte now and then gains no time") {
    Serving rig;
    if (!rig.ok()) {
        return;
    }
    const UniqueFd client = rig.accepted();
    for (int64_t passed = 0; passed < kMetricsClientMs; passed += 500) {
        ignore(::send(client.get(), "G", 1, MSG_NOSIGNAL), "it may be closed by then");
        rig.settle();
        rig.pass(milliseconds(500));
    }
    rig.run_until([&] { return rig.metrics->open_connections() == 0; });
}

TEST_CASE("who sends without end after its request is cut off") {
    Serving rig;
    if (!rig.ok()) {
        return;
    }
    const UniqueFd client = rig.accepted();
    rig.say(client, "GET / HTTP/1.1\r\n\r\n");
    // Long before its time is over, and far past what it may send and what sockets hold.
    constexpr size_t kMuch = size_t{8} * 1024 * 1024;
    const std::string piece(16384, 'x');
    size_t sent = 0;
    bool cut = false;
    while (!cut && sent < kMuch) {
        const ssize_t n =
            ::send(client.get(), piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        sent += n > 0 ? static_cast<size_t>(n) : 0;
        cut = n < 0 && errno != EAGAIN;
        rig.tick_now();
    }
    CHECK(cut);
    // Less is read and dropped, or the close could take the answer with it.
    CHECK(sent > size_t{64} * 1024);
    rig.run_until([&] { return rig.metrics->open_connections() == 0; });
}

TEST_CASE("however many say nothing one who asks is served") {
    Serving rig;
    if (!rig.ok()) {
        return;
    }
    std::vector<UniqueFd> idle;
    for (size_t i = 0; i < 3 * kMetricsClientsMax; ++i) {
        idle.push_back(rig.connect());
        rig.settle();
        CHECK(rig.metrics->open_connections() <= kMetricsClientsMax);
    }
    const UniqueFd client = rig.connect();
    rig.say(client, kGet);
    CHECK(rig.rest(client).ends_with(kText));
    // The oldest went, the youngest are still there.
    CHECK(rig.ended(idle.front()));
    CHECK_FALSE(rig.ended(idle.back()));
}

TEST_CASE("a client may hang up at any point and its slot is free afterwards") {
    Serving rig;
    if (!rig.ok()) {
        return;
    }
    rig.text = std::string(size_t{8} * 1024 * 1024, 'x');
    for (size_t sent = 0; sent <= kGet.size(); ++sent) {
        for (const bool reset : {false, true}) {
            UniqueFd client = rig.connect();
            rig.say(client, kGet.substr(0, sent));
            if (sent % 3 == 0) {
                rig.settle();
            }
            if (reset) {
                const linger now{.l_onoff = 1, .l_linger = 0};
                ::setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
            }
            client.reset();
            rig.settle();
        }
    }
    rig.run_until([&] { return rig.metrics->open_connections() == 0; });
    CHECK(rig.loop.ring->in_flight() == 1);  // the accept
}

TEST_CASE("the port can change and be given up while the host runs") {
    Serving rig;
    if (!rig.ok()) {
        return;
    }
    const int64_t first = rig.metrics->port();
    const UniqueFd before = rig.accepted();
    rig.metrics->serve(0);
    rig.run_until([&] { return rig.loop.ring->in_flight() == 1; });  // the client's recv
    const sockaddr_in address = loopback(first);
    const UniqueFd refused = tcp_socket();
    CHECK(::connect(refused.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
          0);
    // Who was there is still served.
    rig.say(before, kGet);
    CHECK(rig.rest(before).ends_with(kText));
    rig.metrics->serve(first);
    CHECK(rig.metrics->port() == first);
    const UniqueFd after = rig.connect();
    rig.say(after, kGet);
    CHECK(rig.rest(after).ends_with(kText));
}

TEST_CASE("a port that somebody else has is said once and tried again") {
    Serving rig;
    if (!rig.ok()) {
        return;
    }
    Held held;
    REQUIRE(::listen(held.socket.get(), 1) == 0);
    const StderrCapture log;
    rig.metrics->serve(held.port);
    rig.run_until([&] { return has(log.text(), "can't be served"); });
    rig.pass(seconds(10));
    rig.pass(seconds(10));
    CHECK(times(log.text(), "can't be served") == 1);
    CHECK(rig.metrics->port() == 0);
    held.socket.reset();
    rig.pass(seconds(10));
    rig.run_until([&] { return rig.metrics->port() == held.port; });
    CHECK(times(log.text(), "serving metrics at http://127.0.0.1:") == 1);
}
