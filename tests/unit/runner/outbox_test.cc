// Goal: lines arrive whole and in order with the capability in front, however little the socket
// takes at a time.

#include "runner/outbox.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <string>

#include "base/unique_fd.h"

using namespace mosaic;
using namespace mosaic::runner;

TEST_CASE("lines reach a slow reader whole and in order") {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    const UniqueFd near(ends[0]);
    const UniqueFd far(ends[1]);
    const int small = 1;  // the kernel takes its own minimum
    REQUIRE(::setsockopt(near.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) == 0);
    Outbox outbox;
    std::string expected;
    for (int i = 0; i < 50; ++i) {
        const std::string rest =
            "\"n\":\"" + std::string(static_cast<size_t>(i) * 200, 'x') + "\"}\n";
        outbox.push("{" + rest);
        expected += "{\"cap\":\"secret\"," + rest;
    }
    std::string got;
    while (got.size() < expected.size()) {
        REQUIRE(outbox.flush(near.get(), "secret").has_value());
        char bytes[777];
        const ssize_t n = ::recv(far.get(), bytes, sizeof(bytes), 0);
        REQUIRE(n > 0);
        got.append(bytes, static_cast<size_t>(n));
    }
    CHECK(got == expected);
    CHECK(outbox.empty());
}

TEST_CASE("a peer that is gone is an error, not a signal") {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    const UniqueFd near(ends[0]);
    UniqueFd far(ends[1]);
    far.reset();
    Outbox outbox;
    outbox.push("{\"a\":1}\n");
    CHECK_FALSE(outbox.flush(near.get(), "c").has_value());
}

TEST_CASE("what a lost peer got in part is sent to no other") {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    UniqueFd near(ends[0]);
    UniqueFd far(ends[1]);
    Outbox outbox;
    outbox.push("{\"n\":\"" + std::string(size_t{4} * 1024 * 1024, 'x') + "\"}\n");
    REQUIRE(outbox.flush(near.get(), "c").has_value());
    REQUIRE_FALSE(outbox.empty());
    outbox.clear();
    CHECK(outbox.empty());
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    near.reset(ends[0]);
    far.reset(ends[1]);
    outbox.push("{\"a\":1}\n");
    REQUIRE(outbox.flush(near.get(), "c").has_value());
    char bytes[64];
    const ssize_t n = ::recv(far.get(), bytes, sizeof(bytes), 0);
    REQUIRE(n > 0);
    CHECK(std::string(bytes, static_cast<size_t>(n)) == "{\"cap\":\"c\",\"a\":1}\n");
}
