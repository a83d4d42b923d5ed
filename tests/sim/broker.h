#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "wire/codes.h"

namespace mosaic::sim {

class World;

struct Who {
    uint32_t pid = 0;
    uint64_t start = 0;
    uint32_t outer_pid = 0;
    uint64_t outer_start = 0;

    bool operator==(const Who&) const = default;
};

enum class Verb : uint8_t {
    // The host's.
    config,
    bound,
    authorize,
    bind,
    end,
    refuse,
    reply,  // to a forwarded request
    // A session's.
    claim,
    release,
    send,
    receive,
    ack,
    // The human's.
    launch,
    stop,
    switch_launches,
    human_send,
};

struct ToBroker {
    Verb verb = Verb::refuse;
    int64_t id = 0;
    uint32_t run = 0;
    uint32_t seat = 0;
    Who who;
    uint64_t cap = 0;
    EndReason reason = EndReason::failed;
    bool flag = false;  // authorize: the human asks; reply: ok; switch: allowed;
                        // a session's: with a capability that isn't its own
    uint32_t session = UINT32_MAX;
    uint32_t life = 0;
    uint32_t ask = 0;
    uint64_t message = 0;
    int64_t timeout_ms = 0;
    std::vector<uint32_t> runs{};  // bound: the candidates
};

struct BoundItem {
    uint32_t run = 0;
    uint32_t seat = 0;
    Who who;
    bool claimed = false;
};

struct ToHost {
    enum class Kind : uint8_t {
        reply,
        claimed,
        released,
        launch,
        stop,
        end_of_file
    };
    Kind kind = Kind::reply;
    int64_t id = 0;
    bool ok = false;
    bool storage = false;
    Refusal refusal = Refusal::broker_unavailable;
    uint64_t cap = 0;
    bool first = false;
    EndReason reason = EndReason::failed;
    uint32_t run = 0;
    uint32_t seat = 0;
    int64_t timeout_ms = 0;
    std::vector<BoundItem> bound{};
    std::vector<uint32_t> known{};
};

struct ToSession {
    Verb verb = Verb::claim;
    uint32_t session = 0;
    uint32_t life = 0;
    bool ok = false;
    bool storage = false;  // the store couldn't; ask again
    uint64_t message = 0;
};

// The broker: its decisions as broker/core_host.cc and core_session.cc make them, its store with
// one transaction a turn, and its lives. State is changed in place and undone when a turn doesn't
// commit, so what is here outside of a turn is what is durable.
class Broker {
  public:
    explicit Broker(World& world) : world_(world) {}

    // ---- its life; the host's child ----
    void start();
    void on_up();
    void die();
    // It finishes its turn and exits by itself.
    void finish();

    [[nodiscard]] bool alive() const { return alive_; }

    [[nodiscard]] uint32_t epoch() const { return epoch_; }

    // ---- its input ----
    void from_host(ToBroker request);
    void from_session(ToBroker request);
    void from_human(const ToBroker& request);
    void on_host_frame();
    void on_turn();
    void on_commit();

    // ---- for checkers and sessions' connections ----
    // Whether the runner would be let in at accept.
    [[nodiscard]] bool lets_in(uint32_t run, const Who& who) const;

    [[nodiscard]] size_t live_runs() const { return live_.size(); }

    [[nodiscard]] bool holds(uint64_t message) const;
    [[nodiscard]] std::string describe_live() const;
    // This run holds its seat.
    [[nodiscard]] bool holds_run(uint32_t run) const;
    // Runs that hold their seat, besides those that a broker found since then, of a commit that was
    // answered as failed.
    [[nodiscard]] bool holds_more_than_found(int64_t since) const;
    // A run that nobody launched claims a seat that is held: for the canary.
    [[nodiscard]] bool plant_second_holder();

    // The next broker may find it, of a commit that was answered as failed.
    [[nodiscard]] bool may_find(uint32_t run) const;

    // Nobody asks about it any more.
    void forget(uint32_t run) { runs_.erase(run); }

    // Commits that were answered and aren't on the disk go with it.
    void machine_died();

  private:
    struct Run {
        bool exists = false;
        bool bound = false;
        bool claimed = false;
        bool released = false;
        bool ended = false;
        uint32_t seat = 0;
        uint64_t cap = 0;  // 0: none alive
        Who who;
        EndReason reason = EndReason::failed;

        [[nodiscard]] bool live() const { return bound && !ended; }

        [[nodiscard]] bool holds() const { return live() && claimed && !released; }
    };

    struct Undo {
        enum class Kind : uint8_t {
            run,
            sent,
            acked,
            switched
        };
        Kind kind = Kind::run;
        uint32_t run = 0;
        Run before{};
        uint64_t message = 0;
        uint32_t to = 0;
        bool allowed = true;
    };

    struct Outcome {
        ToBroker request;
        ToHost to_host;
        ToSession to_session;
        bool answers_host = false;
        bool answers_session = false;
        bool note_claimed = false;
        bool note_released = false;
        bool forward = false;
    };

    Run& change(uint32_t run);
    [[nodiscard]] const Run* find(uint32_t run) const;
    [[nodiscard]] Outcome handle(const ToBroker& request);
    void handle_host(const ToBroker& request, Outcome& out);
    void handle_session(const ToBroker& request, Outcome& out);
    void bind(const ToBroker& request, Outcome& out);
    void end(const ToBroker& request, Outcome& out);
    void list_bound(const ToBroker& request, Outcome& out);
    void claim(const ToBroker& request, const Run& run, Outcome& out);
    void mail(const ToBroker& request, const Run& run, Outcome& out);
    void undo(std::vector<Undo>& log);
    void set(uint32_t run, const Run& to);
    void fail_turn();
    void tell_truth(uint32_t run);
    void send(const Outcome& outcome);
    void send_to_host(ToHost frame);
    void plan_turn();
    [[nodiscard]] bool dies_here();
    [[nodiscard]] std::vector<uint32_t> changed_runs() const;

    World& world_;
    bool alive_ = false;
    bool up_ = false;  // has its store open
    bool configured_ = false;
    bool turn_planned_ = false;
    bool in_turn_ = false;
    bool finishing_ = false;
    uint32_t epoch_ = 0;
    std::deque<ToBroker> frames_;  // of the host's, on their way
    int64_t last_frame_at_ = 0;
    std::deque<ToBroker> input_;
    std::vector<Outcome> outcomes_;
    std::vector<Undo> undo_;
    std::vector<Undo> unsynced_;  // only when a commit isn't synced
    uint32_t unsynced_commits_ = 0;
    uint64_t next_cap_ = 1;
    uint64_t next_message_ = 1;
    int64_t next_forward_ = 1;
    std::unordered_map<int64_t, uint32_t> forwarded_;  // id -> ask
    std::unordered_map<uint32_t, Run> runs_;
    std::vector<uint32_t> live_;
    std::vector<std::deque<uint64_t>> mailboxes_;
    std::unordered_map<uint64_t, uint32_t> receivers_;  // of the messages in them
    // A commit that was answered as failed, and whose bytes may be in the file all the same: the
    // next broker may find it.
    std::vector<std::pair<uint32_t, Run>> ghost_;
    bool launches_allowed_ = true;

  public:
    // The frames that are on their way to the host.
    std::deque<ToHost> to_host;
    int64_t last_to_host_at = 0;
};

}  // namespace mosaic::sim
