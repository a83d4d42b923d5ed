#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "reactor/ring.h"

// What the tests of the real ring share. Where the machine has no io_uring, the tests say so and
// pass, unless MOSAIC_MUST_WORK=1.

namespace reactor_test {

using mosaic::Instant;
using mosaic::UniqueFd;
using mosaic::reactor::Op;
using mosaic::reactor::OpPhase;
using mosaic::reactor::Ring;
using mosaic::reactor::RingOptions;

// Null where io_uring can't be used; the test returns then. Small queues, because an ordinary
// user's rings share a limit and give their part back late (TRAP-19).
inline std::unique_ptr<Ring> make_ring(RingOptions options = {.entries = 64,
                                                              .operations_max = 512}) {
    // As the host does (TRAP-07).
    ::signal(SIGPIPE, SIG_IGN);
    auto ring = Ring::create(options);
    if (ring.has_value()) {
        return std::move(*ring);
    }
    const char* must = ::getenv("MOSAIC_MUST_WORK");
    if (must != nullptr && std::string(must) == "1") {
        FAIL(ring.error().text);
    }
    MESSAGE("skipped: ", ring.error().text);
    return nullptr;
}

inline void take_all(const std::vector<Op*>& done) {
    for (Op* op : done) {
        op->take();
    }
}

// Ticks until `op` is idle and returns its result; other completions on the way are dropped.
inline int32_t finish(Ring& ring, const Op& op) {
    std::vector<Op*> done;
    while (!op.idle()) {
        const auto ticked = ring.tick(Ring::kForever, done);
        REQUIRE(ticked.has_value());
        take_all(done);
    }
    return op.result();
}

// Ticks until nothing is in flight, cancels included; the ops in the order they came.
inline std::vector<Op*> drain(Ring& ring) {
    std::vector<Op*> all;
    std::vector<Op*> done;
    while (ring.in_flight() > 0) {
        const auto ticked = ring.tick(Ring::kForever, done);
        REQUIRE(ticked.has_value());
        CHECK(done.size() <= Ring::kDoneMax);
        take_all(done);
        all.insert(all.end(), done.begin(), done.end());
    }
    return all;
}

// One tick that doesn't wait.
inline std::vector<Op*> tick_now(Ring& ring) {
    std::vector<Op*> done;
    const auto ticked = ring.tick(Instant{0}, done);
    REQUIRE(ticked.has_value());
    take_all(done);
    return done;
}

struct Ends {
    UniqueFd a;  // a pipe's read end
    UniqueFd b;  // a pipe's write end
};

inline Ends make_pipe() {
    int ends[2] = {-1, -1};
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    return Ends{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

inline Ends make_socketpair() {
    int ends[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    return Ends{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace reactor_test
