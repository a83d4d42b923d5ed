#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host/loop.h"
#include "launch/requests.h"
#include "process/spawn.h"
#include "wire/config_messages.h"
#include "wire/lines.h"
#include "wire/messages.h"

namespace mosaic::host {

// What the link tells the host, in the order it happened.
struct BrokerNews {
    enum class Kind {
        ready,      // a broker serves: our config is accepted, its bound runs are in `bound`
        gone,       // it died or hung up; it will be started again
        fatal,      // it ended in a way that starting again can't mend (`text`)
        claimed,    // run
        released,   // run
        launch,     // a human's launch: reply() with request_id as its id
        stop,       // a human's stop: the same
        routes,     // what launches would take now: the same
        change,     // of the configuration: the same
        reload,     // of the configuration: the same
        metrics,    // a human wants them: the same
        measured,   // the answer to ask_metrics(): `text`, empty when no broker could tell
        recovered,  // the answer to endLaunch for a leftover: `end`
        end,        // the answer to endLaunch for a run: `end`
        bound,      // the answer to bindLaunch: `cap`, or why not: `text`
        decision,   // an authorization waits for `decision`; its run event follows
        needed,     // a session needs the human: `need`
    };
    Kind kind = Kind::gone;
    std::string run;
    std::string text;
    int64_t request_id = 0;  // ours, unique over all brokers
    wire::BoundResult bound;
    wire::HumanLaunchArgs launch;
    wire::StopArgs stop;
    wire::ConfigChangeArgs change;
    SlotRef slot;
    uint32_t leftover = 0;
    wire::EndLaunchResult end;
    std::string cap;  // wipe after use
    std::string decision;
    wire::NeedArgs need;
};

struct BrokerPrograms {
    std::string broker;  // path of mosaic-broker
    std::string store;   // path of broker.sqlite
};

// Silence is counted in looks and not in time: when the host itself was held up, that was one look.
// No look is taken while nothing is asked, so an idle host sleeps.
constexpr int64_t kBrokerLookMs = 10'000;
constexpr uint32_t kBrokerSilentLooksMax = 3;
// Until it has accepted the configuration: it checks its whole store first.
constexpr uint32_t kBrokerSilentLooksMaxAtStart = 60;

// The broker child and the socketpair to it. Starts it, starts it again with a growing delay when
// it dies alone, and keeps what must not be lost: an endLaunch is sent again to the next broker
// until it is answered. Other requests of a dead broker are answered as failed to their run.
// A broker that lives and says nothing for kBrokerSilentLooksMax looks of kBrokerLookMs, while
// something is asked of it, is killed and replaced: it hangs, or somebody stopped it.
class BrokerLink {
  public:
    // The listening sockets stay ours and open; each broker inherits them.
    BrokerLink(Loop& loop, BrokerPrograms programs, int bus_socket, int admin_socket);
    ~BrokerLink();
    BrokerLink(const BrokerLink&) = delete;
    BrokerLink& operator=(const BrokerLink&) = delete;

    // Sent to every broker first, and to the living one at once. Its news become an event; they are
    // sent until a broker has recorded them.
    void set_config(wire::BrokerConfig config);

    // Which runs the first question for bound runs asks about.
    void set_candidates(std::vector<std::string> runs) { candidates_ = std::move(runs); }

    void start();
    // Ends the broker: it finishes what it has and exits. broker_gone() tells when.
    void shut_down();

    [[nodiscard]] bool ready() const { return state_ == State::ready; }

    [[nodiscard]] bool broker_gone() const { return state_ == State::down && !running_; }

    // Answers by run events: authorized or refused; bound (see take_news) or bind_refused or
    // broker_lost; ended (see take_news).
    void authorize(SlotRef slot, const wire::AuthorizeLaunchArgs& args);
    // The broker has nothing to say against the human: asked nothing, it only has to be there.
    void authorize_human(SlotRef slot);
    void bind(SlotRef slot, const wire::BindLaunchArgs& args);
    void end(SlotRef slot, const wire::EndLaunchArgs& args);
    void end_leftover(uint32_t leftover, const wire::EndLaunchArgs& args);
    void refuse(const wire::RefuseArgs& args);
    // Answered by one piece of news, `measured`, unless the broker hangs.
    void ask_metrics();

    // Replies to the broker's own requests (human launches and stops), once each. The reply to one
    // of a broker that is gone is dropped: the next broker numbers its requests from 1 again.
    void reply(const wire::Reply& reply);

    // Endings that the broker has yet to confirm.
    [[nodiscard]] size_t ends_waiting() const;

    // The next piece of news.
    [[nodiscard]] std::optional<BrokerNews> take_news();

    void on_recv_done();
    void on_send_done();
    void on_exit();
    void on_exec();
    void on_restart(uint32_t generation);
    void on_watch(uint32_t generation);
    void on_ends_retry();

  private:
    enum class State {
        down,      // no broker
        starting,  // spawned, config not accepted yet
        asking,    // config accepted, bound runs asked for
        ready,
    };
    using Kind = launch::RequestKind;

    struct Pending {
        Kind kind = Kind::refuse;
        SlotRef slot;
        uint32_t leftover = 0;
        wire::EndLaunchArgs end;  // kept to be sent again
    };

    void send_config();
    void send_request(const std::string& verb, json::Value args, Pending pending);
    void send_end(Pending pending);
    void send_text(std::string text);
    void send_more();
    void shut_when_sent();
    void lose(const std::string& why);
    void watch();
    void restart_when_quiet();
    void arm_restart();
    void send_reply(const wire::Reply& reply);
    int64_t remember(int64_t brokers_id);
    void fail_pending();
    void send_ends();
    void handle_line(std::string line);
    void handle_reply(const wire::Reply& reply);
    void handle_request(const wire::Request& request);
    [[nodiscard]] static Result<BrokerNews> read_request(const wire::Request& request);
    void on_config_reply(const wire::Reply& reply);
    void on_bound_reply(const wire::Reply& reply);
    void ask_bound();
    void on_authorize_reply(const Pending& pending, const wire::Reply& reply);
    void on_bind_reply(const Pending& pending, const wire::Reply& reply);
    void on_end_reply(const Pending& pending, const wire::Reply& reply);
    void on_metrics_reply(const wire::Reply& reply);
    void tell_measured(std::string text);

    Loop& loop_;
    BrokerPrograms programs_;
    int bus_socket_;
    int admin_socket_;
    wire::BrokerConfig config_;
    std::vector<std::string> candidates_;
    State state_ = State::down;
    bool running_ = false;         // a child exists
    bool stopping_ = false;        // no restart
    bool shut_ = false;            // nothing more is sent
    bool started_before_ = false;  // another broker than the first is another start
    uint32_t restarts_ = 0;
    uint32_t generation_ = 0;
    bool watching_ = false;      // a timer for the next look is set
    bool heard_ = false;         // something came from the broker since the last look
    uint32_t silent_looks_ = 0;  // in a row
    std::optional<process::Spawned> child_;
    UniqueFd control_;
    wire::LineBuffer lines_;
    std::array<char, 65536> buffer_{};
    std::string sending_;
    size_t sent_ = 0;
    std::string to_send_;
    launch::Requests<Pending> requests_;
    std::map<int64_t, int64_t> asked_;  // request_id of news -> the living broker's id of it
    int64_t next_asked_ = 1;
    wire::BoundResult bound_;  // the answers so far
    size_t asked_about_ = 0;   // of the candidates
    bool ends_retry_armed_ = false;
    std::deque<BrokerNews> news_;
    std::deque<BrokerNews> early_;  // what was asked before the broker was ready
    reactor::Op recv_op_;
    reactor::Op send_op_;
    reactor::Op exit_op_;
    reactor::Op exec_op_;
};

}  // namespace mosaic::host
