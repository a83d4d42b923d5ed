#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/instant.h"
#include "base/unique_fd.h"
#include "runner/capability.h"
#include "runner/outbox.h"
#include "runner/poll_set.h"
#include "runner/socket_path.h"
#include "wire/lines.h"
#include "wire/messages.h"

namespace mosaic::runner {

// How long to wait for the next attempt, in milliseconds. After the n-th loss or failure in a row
// (n >= 1): 100 at first, at most 2,000.
[[nodiscard]] int64_t wait_after_losses_ms(int64_t losses);

// ... and after the n-th look in a row (n >= 1) that found the broker's queue full: 10 at first, at
// most 1,000.
[[nodiscard]] int64_t wait_for_room_ms(int64_t looks);

// The one connection to the broker: requests of all parts of the runner, told apart by their ids.
//
// It connects, claims the role and keeps both over losses: after one it comes back with back-off,
// claims again, and sends again every request that has had no reply, in their order. So a caller
// asks once and gets one reply, whatever happened in between; what the broker had already done and
// only the reply was lost is done twice, which the broker's verbs allow for: a message has a key by
// which it is known again. A full queue is no failure: it waits for room for as long as it takes.
class Bus {
  public:
    enum class State {
        apart,     // waiting for the next attempt
        claiming,  // connected, the claim is on its way
        claimed,
        refused,    // the claim was refused: for good
        exhausted,  // as many attempts in a row failed as are allowed: for good
    };

    struct Options {
        std::string path;
        std::string run;
        int64_t retries_max = 0;  // attempts after a failed first one, or after a loss
    };

    // `capability` must outlive the Bus.
    Bus(Options options, const CapabilityPage& capability);

    [[nodiscard]] State state() const { return state_; }

    // What refused or exhausted came of, for the log.
    [[nodiscard]] const std::string& problem() const { return problem_; }

    // How often the role was claimed so far.
    [[nodiscard]] int64_t claims() const { return claims_; }

    // The id under which the reply will come. The request is kept until then.
    int64_t request(std::string verb, json::Value args);

    // Once a round: connects when it is time, and sends what waits.
    void work(Instant now);

    [[nodiscard]] std::optional<Instant> next_attempt() const;

    void add_to(PollSet& polls) const;

    // Reads what came. The replies to requests of request(), oldest first.
    [[nodiscard]] std::vector<wire::Reply> read(const PollSet& polls, Instant now);

  private:
    struct Request {
        std::string verb;
        json::Value args;
    };

    void connect(Instant now);
    void wait_for_room(Instant now);
    void flush(Instant now);
    void lose(Instant now, const std::string& why);
    void send(int64_t id, const std::string& verb, const json::Value& args);
    void take_line(const std::string& line, Instant now, std::vector<wire::Reply>& out);
    void take_claim(const wire::Reply& reply, Instant now);

    Options options_;
    const CapabilityPage& capability_;
    SocketPath path_;
    State state_ = State::apart;
    std::string problem_;
    UniqueFd fd_;
    wire::LineBuffer input_;
    Outbox outbox_;
    std::map<int64_t, Request> unanswered_;
    int64_t next_id_ = 1;
    int64_t claim_id_ = 0;
    int64_t claims_ = 0;
    int64_t failures_ = 0;  // in a row
    Instant attempt_at_;
    int64_t full_looks_ = 0;  // that found no room, since there was a connection
};

}  // namespace mosaic::runner
