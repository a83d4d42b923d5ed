#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/instant.h"
#include "runner/bus.h"
#include "runner/launch_link.h"
#include "runner/tool_server.h"
#include "wire/messages.h"

namespace mosaic::runner {

// Carries out the calls of tools.sock: launches at the host, everything else at the broker. Works
// beside a turn and for many clients at once.
//
// A reply that comes after its client stopped waiting is not lost: the broker counts it as
// delivered, so take_late() hands it out to be treated like a message that was received.
class Tools {
  public:
    // All three must outlive this.
    Tools(ToolServer& server, Bus& bus, LaunchLink& launches)
        : server_(server), bus_(bus), launches_(launches) {}

    void start(const ToolServer::Pending& call);

    // False when this isn't the reply to a request of a tool.
    [[nodiscard]] bool take(const wire::Reply& reply, Instant now);

    // Passes the host's answers on.
    void take_launches();

    // Answers those whose wait has run out.
    void expire(Instant now);

    [[nodiscard]] std::optional<Instant> deadline() const;

    [[nodiscard]] std::vector<wire::MessageReceiveResult> take_late();

  private:
    // A request at the broker that a tool call made.
    struct Step {
        uint64_t token = 0;  // 0: the client was answered already
        int64_t wait_seconds = 0;
        std::string message;  // waiting for the reply to this message; empty: being sent
        std::optional<Instant> until;
        bool plain = false;  // the request's result is the tool's
    };

    void start_send(uint64_t token, const SendCall& call);
    void take_sent(const Step& step, const wire::Reply& reply, Instant now);
    void take_received(const Step& step, const wire::Reply& reply);
    [[nodiscard]] size_t waits() const;

    ToolServer& server_;
    Bus& bus_;
    LaunchLink& launches_;
    std::map<int64_t, Step> steps_;  // by the request's id
    std::vector<wire::MessageReceiveResult> late_;
};

}  // namespace mosaic::runner
