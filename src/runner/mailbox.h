#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/instant.h"
#include "runner/bus.h"
#include "wire/messages.h"

namespace mosaic::runner {

// The messages of the role, one turn each: asks the broker for the next one, hands it out, sends
// the turn's reply, acks the message, asks again. A message whose turn is over is never handed out
// a second time, also when the broker delivers it again.
class Mailbox {
  public:
    struct Incoming {
        wire::Message message;
        wire::StateFacts state;
    };

    // `bus` must outlive this.
    explicit Mailbox(Bus& bus) : bus_(bus) {}

    // Asks for the next message or sends a refused reply again, when it is time. Once a round while
    // the role is claimed.
    void work(Instant now);

    [[nodiscard]] std::optional<Instant> deadline() const;

    // False when this isn't the reply to a request of ours.
    [[nodiscard]] bool take(const wire::Reply& reply, Instant now);

    // A reply that a tool waited for and that came too late: a message like others, but acked
    // already.
    void add_late(wire::MessageReceiveResult late);

    // The message whose turn is next; nothing while another one's isn't finished.
    [[nodiscard]] std::optional<Incoming> take_next();

    // The turn of the message that was handed out is over. `body` is what its sender gets; only a
    // REQUEST is answered.
    void finished(std::string body);

    // The role is given back: whatever the broker still answers is dropped, nothing is asked again.
    void close() { closed_ = true; }

    // The broker said that the capability is dead: the run was ended elsewhere.
    [[nodiscard]] bool dead() const { return dead_; }

  private:
    enum class Stage {
        free,      // no message in hand
        turn,      // handed out
        replying,  // the reply is on its way, or waits to be sent again
        acking,
    };

    struct Held {
        wire::Message message;
        wire::StateFacts state;
        bool acked = false;
    };

    void take_received(const wire::Reply& reply, Instant now);
    void take_replied(const wire::Reply& reply, Instant now);
    void send_reply();
    void acknowledge();
    void settle();

    Bus& bus_;
    Stage stage_ = Stage::free;
    std::optional<Held> current_;
    std::deque<Held> queue_;
    bool delivered_ = false;     // the broker gave a message that has no ack yet
    std::string last_finished_;  // the id of the last received message whose turn is over
    std::string reply_;
    int64_t receive_id_ = 0;  // 0: no such request under way
    int64_t reply_id_ = 0;
    int64_t ack_id_ = 0;
    std::optional<Instant> receive_at_;
    std::optional<Instant> reply_at_;
    Duration reply_wait_ = seconds(1);
    bool dead_ = false;
    bool closed_ = false;
};

}  // namespace mosaic::runner
