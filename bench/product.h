#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "bench/sample.h"
#include "bench/scratch.h"
#include "bench/waiter.h"
#include "wire/lines.h"
#include "wire/messages.h"

namespace mosaic::bench {

// Launches and stops sessions of a running host as its human, over one connection to admin.sock.
class Product {
  public:
    Product(const Scratch& scratch, Waiter& waiter) : scratch_(scratch), waiter_(waiter) {}

    [[nodiscard]] Result<void> connect();

    // Launches seats first, first + 1, ..., with at most `in_flight` unanswered requests. All must
    // be granted.
    [[nodiscard]] Result<Group> launch(int first, int count, int in_flight);
    // Stops them again and waits until nothing of them is left.
    [[nodiscard]] Result<void> stop(int first, int count);
    // Waits until each of them has a warm seat.
    [[nodiscard]] Result<void> wait_warm(int first, int count);
    // Waits until sessions.json holds no session.
    [[nodiscard]] Result<void> wait_none();
    // What host and broker count: the text of `mosaic metrics`.
    [[nodiscard]] Result<std::string> metrics();

    // Microseconds from the request to the end of each stage.
    struct Stages {
        std::vector<int64_t> at;  // in the order of stage_names()
    };

    [[nodiscard]] static const std::vector<std::string>& stage_names();
    // By run, from the host's launch log: read it when the host has stopped.
    [[nodiscard]] Result<std::map<std::string, Stages>> read_stages() const;

  private:
    [[nodiscard]] Result<void> send(const std::string& verb, json::Value args);
    // Waits for one reply, of any request; an error reply is an error.
    [[nodiscard]] Result<wire::Reply> receive(const char* what);

    // Waits until `done` holds of what sessions.json says; looks whenever it was replaced.
    template <class Done>
    [[nodiscard]] Result<void> wait_sessions(const char* what, Done done);

    const Scratch& scratch_;
    Waiter& waiter_;
    UniqueFd socket_;
    wire::LineBuffer lines_{size_t{1024} * 1024};
    int64_t next_id_ = 1;
};

}  // namespace mosaic::bench
