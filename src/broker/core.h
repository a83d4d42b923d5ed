#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "broker/authority.h"
#include "broker/counts.h"
#include "broker/store.h"
#include "wire/config_messages.h"
#include "wire/messages.h"

// The broker's decisions: one decoded request of one caller against the store and the host's
// configuration gives an Outcome, which is data. It knows no socket, clock or loop. The server runs
// it inside a transaction and carries the Outcome out only after the commit.

namespace mosaic::broker {

// One connection as the core sees it.
struct Caller {
    enum class Kind {
        host,
        human,
        session,
    };

    Kind kind = Kind::session;
    std::string run;  // a session's
    // The message that this connection was given by a plain receive and hasn't acked, 0: none. It
    // is why a waiting receive doesn't get the same one again.
    int64_t delivered = 0;
};

// A notification for the host: `claimed`, `released` or `needed`.
struct HostNote {
    std::string verb;
    json::Value args;
};

// A request to the host, on behalf of somebody who waits for its reply.
struct HostRequest {
    std::string verb;
    json::Value args;
};

struct Outcome {
    enum class Kind {
        reply,    // send `reply`
        wait,     // ask again when what it waits for may have come
        forward,  // ask the host `ask`, and relay its reply
    };

    Kind kind = Kind::reply;
    wire::Reply reply;
    HostRequest ask;
    // The decision whose allowance this request of the host uses up, 0: none. Given back with
    // give_back() when the host refuses.
    int64_t allowance = 0;
    std::optional<HostNote> note;
    std::string ended_run;        // not empty: its connection is to be closed
    std::vector<Seat> mailboxes;  // whose receivers may have something new now
    bool events_grew = false;
};

// The human's verb `decide` names a decision as "d<number>", messages are "m<number>". 0: not one.
[[nodiscard]] int64_t parse_number(char prefix, std::string_view text);
[[nodiscard]] std::string numbered(char prefix, int64_t number);

// Cuts at a code point's start, with "..." for what is gone.
[[nodiscard]] std::string clip(const std::string& text, size_t bytes_max);

class Core {
  public:
    explicit Core(Store& store) : store_(store) {}

    // Nobody but the host is served before.
    [[nodiscard]] bool configured() const { return configured_; }

    [[nodiscard]] const wire::BrokerConfig& config() const { return config_; }

    // What the verb `metrics` tells; the shell adds to it.
    [[nodiscard]] Counts& counts() { return counts_; }

    // `now` is in milliseconds since the epoch. An Error means that the store failed, and then
    // nothing of the request may be kept; every other problem is an error reply.
    [[nodiscard]] Result<Outcome> handle(Caller& caller, const wire::Request& request, int64_t now);

    // The same for a request that handle() answered with `wait`. Its capability was looked at then
    // and isn't kept; that the run still lives and holds its seat is checked again.
    [[nodiscard]] Result<Outcome> resume(Caller& caller, const wire::Request& request, int64_t now);

    // What was allowed once wasn't done: the same call passes again. Inside a transaction, too.
    [[nodiscard]] Result<void> give_back(int64_t allowance, int64_t now);

  private:
    // Who sends or receives: the seat, and the run for a session.
    struct Sender {
        Seat seat;
        std::string run;  // empty: the human
    };

    [[nodiscard]] Result<Outcome> handle_host(const wire::Request& request, int64_t now);
    [[nodiscard]] Result<Outcome> handle_session(Caller& caller,
                                                 const wire::Request& request,
                                                 int64_t now);
    [[nodiscard]] Result<Outcome> handle_run(Caller& caller,
                                             const Run& run,
                                             const wire::Request& request,
                                             int64_t now);
    [[nodiscard]] Result<Outcome> handle_human(Caller& caller,
                                               const wire::Request& request,
                                               int64_t now);

    // core_host.cc
    [[nodiscard]] Result<Outcome> configure(const wire::Request& request, int64_t now);
    [[nodiscard]] Result<Outcome> authorize_launch(const wire::Request& request, int64_t now);
    [[nodiscard]] Result<Outcome> bind_launch(const wire::Request& request, int64_t now);
    [[nodiscard]] Result<Outcome> bind_again(const wire::Request& request,
                                             const wire::BindLaunchArgs& args,
                                             const Run& run);
    [[nodiscard]] Result<std::string> why_not_bind(const wire::BindLaunchArgs& args);
    [[nodiscard]] Result<Outcome> end_launch(const wire::Request& request, int64_t now);
    [[nodiscard]] Result<Outcome> refuse(const wire::Request& request, int64_t now);
    [[nodiscard]] Result<Outcome> bound(const wire::Request& request);

    // core_session.cc
    [[nodiscard]] Result<Outcome> claim(const wire::Request& request, const Run& run, int64_t now);
    [[nodiscard]] Result<Outcome> release(const wire::Request& request,
                                          const Run& run,
                                          int64_t now);

    // core_config.cc
    [[nodiscard]] static Outcome ask_host(const wire::Request& request);
    [[nodiscard]] Outcome change_config(const wire::Request& request, wire::ConfigVerb verb);
    [[nodiscard]] Result<Outcome> change_config_for(const wire::Request& request,
                                                    wire::ConfigVerb verb,
                                                    const Sender& sender,
                                                    int64_t now);

    // core_metrics.cc
    [[nodiscard]] Result<Outcome> metrics(const wire::Request& request);

    // core_human.cc
    [[nodiscard]] Result<Outcome> switch_launches(const wire::Request& request,
                                                  bool allowed,
                                                  int64_t now);
    [[nodiscard]] Result<Outcome> sessions(const wire::Request& request);
    [[nodiscard]] Result<Outcome> events(const wire::Request& request);
    [[nodiscard]] Result<Outcome> decisions(const wire::Request& request);
    [[nodiscard]] Result<Outcome> decide(const wire::Request& request, int64_t now);

    // core_messages.cc
    [[nodiscard]] Result<Outcome> send(const wire::Request& request,
                                       const Sender& sender,
                                       int64_t now);
    [[nodiscard]] Result<std::optional<Outcome>> sent_before(const wire::Request& request,
                                                             const wire::MessageSendArgs& args,
                                                             const Sender& sender);
    [[nodiscard]] Result<std::optional<Outcome>> check_send(const wire::Request& request,
                                                            const wire::MessageSendArgs& args,
                                                            const Sender& sender,
                                                            int64_t now);
    [[nodiscard]] Result<std::optional<Outcome>> check_quota(const wire::Request& request,
                                                             const wire::MessageSendArgs& args,
                                                             const Sender& sender);
    [[nodiscard]] Result<Outcome> receive(const wire::Request& request,
                                          Caller& caller,
                                          const Seat& seat,
                                          int64_t now);
    [[nodiscard]] Result<Outcome> receive_reply(const wire::Request& request,
                                                const wire::MessageReceiveArgs& args,
                                                const Seat& seat,
                                                int64_t now);
    [[nodiscard]] Result<Outcome> ack(const wire::Request& request,
                                      Caller& caller,
                                      const Seat& seat,
                                      int64_t now);
    // `seat` is who reads them.
    [[nodiscard]] Result<wire::StateFacts> facts(const Seat& seat, int64_t now);

    // core_tasks.cc
    [[nodiscard]] Result<Outcome> create_task(const wire::Request& request,
                                              const Sender& sender,
                                              int64_t now);
    [[nodiscard]] Result<Outcome> list_tasks(const wire::Request& request);
    [[nodiscard]] Result<Outcome> update_task(const wire::Request& request,
                                              const Sender& sender,
                                              int64_t now);
    [[nodiscard]] Result<Outcome> request_decision(const wire::Request& request,
                                                   const Sender& sender,
                                                   int64_t now);
    // Sends the answer to a decision.request. Whose mailbox has it; nothing when there is none.
    [[nodiscard]] Result<std::optional<Seat>> tell_decision(const Decision& decision,
                                                            const wire::DecideArgs& args,
                                                            int64_t now);
    // Why the sender may not do it now; nothing when it may. Uses an allowance up, whose decision
    // it tells. The request's arguments are well-formed.
    [[nodiscard]] Result<std::optional<Outcome>> permit(const wire::Request& request,
                                                        const Sender& sender,
                                                        std::string what,
                                                        int64_t now,
                                                        int64_t* allowance = nullptr);

    // What the host is told when a human is needed.
    [[nodiscard]] static HostNote need(wire::NeedArgs::What what, std::string id, const Seat& by);

    // A call that a human decides about.
    struct GatedCall {
        Seat seat;
        std::string verb;
        std::string args;  // encoded
        std::string what;  // for the human
    };

    // core.cc. Nothing when the call was allowed; its allowance is used up then.
    [[nodiscard]] Result<std::optional<wire::Reply>> gate(int64_t id,
                                                          const GatedCall& call,
                                                          int64_t now,
                                                          int64_t* allowance = nullptr);
    // Why the seat may not leave one more decision to the human; nothing when it may.
    [[nodiscard]] Result<std::optional<std::string>> too_many_decisions(const Seat& seat);
    [[nodiscard]] Result<void> record_refusal(const wire::RefuseArgs& args, int64_t now);

    Store& store_;
    wire::BrokerConfig config_;
    Counts counts_;
    bool configured_ = false;
};

// ---- helpers of the core's files ----

[[nodiscard]] Outcome answer(int64_t id, json::Value result);
[[nodiscard]] Outcome error(int64_t id, BusError code, std::string message);
[[nodiscard]] Outcome forward(std::string verb, json::Value args);

// Members that describe a seat: instance, and thread unless it is the plain run.
[[nodiscard]] json::Value seat_fields(const Seat& seat);

}  // namespace mosaic::broker
