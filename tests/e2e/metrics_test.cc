// Goal: an operator and a scraper read what the product did, sessions don't read more than counts,
// and nothing about a broker that is gone or hangs keeps the rest from being read. Method: the real
// programs, the port by plain sockets.

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <csignal>
#include <string>

#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

sockaddr_in loopback(int64_t port) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    out.sin_port = htons(static_cast<uint16_t>(port));
    return out;
}

// One that nobody has now.
int64_t free_port() {
    const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    return ntohs(address.sin_port);
}

UniqueFd connect_to(int64_t port) {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(port);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        socket.reset();
    }
    return socket;
}

// All that comes until the other end closes.
std::string read_all(const UniqueFd& socket) {
    std::string out;
    while (true) {
        pollfd ready{.fd = socket.get(), .events = POLLIN, .revents = 0};
        REQUIRE(::poll(&ready, 1, kWaitMs) == 1);
        std::array<char, 65536> buffer{};
        const ssize_t n = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
        if (n <= 0) {
            return out;
        }
        out.append(buffer.data(), static_cast<size_t>(n));
    }
}

std::string get(int64_t port, const std::string& path) {
    const UniqueFd socket = connect_to(port);
    REQUIRE(socket.valid());
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    REQUIRE(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(request.size()));
    return read_all(socket);
}

// Nobody listens there any more: the host closes once its last wait on the socket is over.
bool closes(int64_t port) {
    const int64_t deadline = now_ms() + kWaitMs;
    while (connect_to(port).valid()) {
        if (now_ms() > deadline) {
            return false;
        }
    }
    return true;
}

void set_port(World& world, int64_t port) {
    world.system.set("metrics", object({{"port", port}}));
}

}  // namespace

TEST_CASE("metrics tell what host and broker did as text and as data") {
    World world;
    world.start();
    world.launch("coder");
    CHECK(world.launch_refused("coder") == "instance-running");
    world.launch("reviewer");
    CHECK(trim(world.ask("reviewer", "echo here")) == "here");
    world.stop_run("coder");
    const Finished text = world.mosaic({"metrics"});
    CHECK(text.exit.code == 0);
    for (const char* line : {"\nmosaic_launches_total{result=\"launched\"} 2\n",
                             "\nmosaic_launches_total{result=\"instance-running\"} 1\n",
                             "\nmosaic_launch_seconds_count{seat=\"cold\"} 2\n",
                             "\nmosaic_launch_stage_seconds_count{stage=\"claimed\"} 2\n",
                             "\nmosaic_spawn_seconds_count 2\n",
                             "\nmosaic_sessions{state=\"live\"} 1\n",
                             "\nmosaic_session_ends_total{reason=\"stopped\"} 1\n",
                             "\nmosaic_broker_up 1\n",
                             "\nmosaic_broker_restarts_total 0\n",
                             "\nmosaic_broker_live_runs 1\n",
                             "\nmosaic_broker_requests_total{from=\"session\",class=\"role\"} "}) {
        CHECK_CONTAINS(text.out, line);
    }
    CHECK(text.out.starts_with("# HELP mosaic_launches_total "));
    // Counts, and nobody's name.
    for (const char* name : {"coder", "reviewer", "jordan", "acme", kProvider}) {
        CHECK_FALSE(contains(text.out, name));
    }
    const json::Value data = world.mosaic({"metrics", "--json"}).json();
    REQUIRE(data.array() != nullptr);
    for (const json::Value& family : *data.array()) {
        if (e2e::text(family, "name") == "mosaic_broker_commit_seconds") {
            const json::Value& one = family.find("metrics")->array()->front();
            CHECK(number(one, "count") > 0);
            CHECK(number(*one.find("buckets"), "+Inf") == number(one, "count"));
            return;
        }
    }
    FAIL("no commits among the families");
}

TEST_CASE("metrics without a host name the socket") {
    World world;
    world.start();
    world.stop();
    const Finished none = world.mosaic({"metrics"});
    CHECK(none.exit.code == 1);
    CHECK(none.out.empty());
    CHECK_CONTAINS(none.err, "admin.sock");
}

TEST_CASE("the metrics port serves a scraper and nobody else") {
    World world;
    const int64_t port = free_port();
    set_port(world, port);
    world.start();
    world.launch("coder");
    const std::string found = get(port, "/metrics");
    CHECK(found.starts_with("HTTP/1.0 200 OK\r\n"));
    CHECK_CONTAINS(found, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
    CHECK_CONTAINS(found, "\nmosaic_launches_total{result=\"launched\"} 1\n");
    CHECK_CONTAINS(found, "\nmosaic_broker_live_runs 1\n");
    CHECK_FALSE(contains(found, "coder"));
    CHECK(get(port, "/").starts_with("HTTP/1.0 404 "));
    // Loopback's, and no other address's.
    sockaddr_in elsewhere = loopback(port);
    elsewhere.sin_addr.s_addr = htonl(0x7f000002);  // 127.0.0.2
    const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    CHECK(::connect(
              socket.get(), reinterpret_cast<const sockaddr*>(&elsewhere), sizeof elsewhere) != 0);
    // Connections that say nothing hold up neither launches nor who asks.
    std::vector<UniqueFd> idle;
    for (int i = 0; i < 40; ++i) {
        idle.push_back(connect_to(port));
    }
    world.launch("reviewer");
    CHECK_CONTAINS(get(port, "/metrics"), "\nmosaic_launches_total{result=\"launched\"} 2\n");
}

TEST_CASE("the metrics port can be switched on and off while the host runs") {
    World world;
    world.start();
    const int64_t port = free_port();
    CHECK_FALSE(connect_to(port).valid());
    set_port(world, port);
    world.write_config();
    CHECK(world.mosaic({"reload"}).exit.code == 0);
    CHECK(get(port, "/metrics").starts_with("HTTP/1.0 200 OK\r\n"));
    set_port(world, 0);
    world.write_config();
    CHECK(world.mosaic({"reload"}).exit.code == 0);
    CHECK(closes(port));
    set_port(world, 65'536);
    world.write_config();
    const Finished refused = world.mosaic({"reload"});
    CHECK(refused.exit.code == 3);
    CHECK_CONTAINS(refused.err, "/metrics/port");
}

TEST_CASE("a metrics port that is taken keeps no host from serving") {
    World world;
    const UniqueFd taker(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    REQUIRE(::bind(taker.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(taker.get(), 1) == 0);
    REQUIRE(::getsockname(taker.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    set_port(world, ntohs(address.sin_port));
    world.start();
    world.launch("coder");
    CHECK_CONTAINS(world.host_log(), "metrics can't be served on 127.0.0.1:");
}

TEST_CASE("a broker that hangs leaves the host's own metrics") {
    World world;
    const int64_t port = free_port();
    set_port(world, port);
    world.start();
    const pid_t broker = world.broker_pid();
    REQUIRE(broker > 0);
    ::kill(broker, SIGSTOP);
    const std::string alone = get(port, "/metrics");
    ::kill(broker, SIGCONT);
    CHECK(alone.starts_with("HTTP/1.0 200 OK\r\n"));
    CHECK_CONTAINS(alone, "\nmosaic_launches_total{");
    CHECK_FALSE(contains(alone, "mosaic_broker_commit_seconds"));
    CHECK_CONTAINS(get(port, "/metrics"), "mosaic_broker_commit_seconds");
    ::kill(broker, SIGKILL);
    REQUIRE(wait_gone(broker));
    // Asked through the next broker.
    CHECK_CONTAINS(world.mosaic({"metrics"}).out, "\nmosaic_broker_restarts_total 1\n");
}
