#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "base/unique_fd.h"
#include "broker/core.h"
#include "wire/limits.h"
#include "wire/lines.h"

// One peer: the host on the control pair, a session's runner on bus.sock, or a command of the human
// on admin.sock. Owned by the server; a turn works on it.

namespace mosaic::broker {

struct Connection {
    Connection() = default;
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    ~Connection() { in.wipe_all(); }  // lines carry capabilities

    // Requests without a reply yet; past limits::kBusOutstandingMax no more are read.
    [[nodiscard]] size_t outstanding() const { return waits + forwards; }

    [[nodiscard]] bool may_ask_more() const {
        return !former &&
               (caller.kind == Caller::Kind::host || outstanding() < limits::kBusOutstandingMax);
    }

    [[nodiscard]] size_t unsent() const { return out.size() - sent; }

    uint64_t id = 0;
    UniqueFd fd;
    Caller caller;
    int64_t delivered_before = 0;  // caller.delivered as of the last turn that came through
    Seat mailbox;                  // whose messages it receives

    wire::LineBuffer in{limits::kFrameBytesMax};
    std::string out;
    size_t sent = 0;  // bytes of `out` that the kernel took

    size_t waits = 0;     // requests that wait for a message or an event
    size_t forwards = 0;  // requests that the host works on

    bool has_lines = false;  // `in` may hold a whole line
    bool queued = false;     // in the server's list of those whose turn comes
    bool ended = false;      // the peer writes no more
    bool hung_up = false;    // the peer is gone
    bool closing = false;    // one last write, then close
    bool former = false;     // of a human who isn't any more: gets the host's answers, then close
    uint32_t armed = 0;      // what epoll watches it for
};

}  // namespace mosaic::broker
