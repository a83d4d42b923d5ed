#pragma once

#include <memory>
#include <string>
#include <variant>

#include "rig.h"
#include "wire/lines.h"
#include "wire/messages.h"

namespace mosaic::test {

// The launch that these tests are about: pm's of coder.
constexpr SlotRef kSlot{3, 7};
constexpr const char* kRunName = "r0123456789ab";
[[nodiscard]] wire::AuthorizeLaunchArgs authorize_args();

// A broker link whose brokers are real child processes that say what the test says: puppet.cc
// relays descriptor 3 of each to a socket here.
class BrokerRig : public Rig {
  public:
    BrokerRig();
    ~BrokerRig() override;

    // Ticks until the next broker that was started is there.
    void accept_broker();
    // Ticks until its next request; its replies to what the test asked are read by next_reply.
    wire::Request next_request(const std::string& verb);
    wire::Reply next_reply();

    // Whichever of the two comes next.
    [[nodiscard]] std::variant<wire::Request, wire::Reply> next_frame();

    void say(const std::string& bytes);

    void say(const wire::Reply& reply) { say(wire::encode(reply)); }

    void say(const wire::Request& request) { say(wire::encode(request)); }

    // The same, and returns when the link could read it, without a tick in which it would.
    void say_unread(const wire::Request& request);

    // Answers config and bound, so that the link is ready.
    void serve_start(const wire::BoundResult& bound = {});
    // The broker's process is gone, as seen at its socket. What it was sent before is dropped.
    void expect_dead();
    void exit_with(int code);

    // Ticks until news of this kind come; drops what came before.
    host::BrokerNews next_news(host::BrokerNews::Kind kind);

    Scratch scratch;

  private:
    UniqueFd listener_;
    UniqueFd broker_end_;
    wire::LineBuffer lines_;
    UniqueFd bus_;
    UniqueFd admin_;
};

[[nodiscard]] json::Value empty_object();

}  // namespace mosaic::test
