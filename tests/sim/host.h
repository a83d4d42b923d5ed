#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launch/deadlines.h"
#include "launch/leftovers.h"
#include "launch/requests.h"
#include "launch/run_machine.h"
#include "launch/setup_queue.h"
#include "launch/warm_pool.h"
#include "registry/entries.h"
#include "registry/store.h"
#include "sim/broker.h"
#include "sim/sessions.h"

namespace mosaic::sim {

class World;
struct Wakeup;

// What an operation of the host's is; Wakeup::sub of Wake::host_op.
enum class HostOp : uint8_t {
    files,          // a: slot, b: its generation
    status_pid,     // a: session, b: its life
    status_over,    // the same
    outer_exited,   // the same
    stdin_done,     // a: slot, b: its generation
    store,          // the one under way
    log,            // the same
    leftover_gone,  // a: the leftover's process
    broker_exited,  // a: its epoch
    request,        // a: the ask
    removed,        // run directories
    signal,         // to end
};

struct SlotRef {
    uint32_t index = UINT32_MAX;
    uint32_t generation = 0;

    bool operator==(const SlotRef&) const = default;
};

// The shell: what src/host does around the machines, with the disk, the processes and the broker of
// the world. The machines, their queue, their requests, their entries and their leftovers are the
// product's own. It dies between two effects when chance says so.
class Host {
  public:
    explicit Host(World& world);

    void begin();
    void complete(const Wakeup& op);
    // One more frame of the broker's can be read.
    void frame_is_there();
    void on_tick(const Wakeup& wakeup);
    void signal_stop();
    // How many warm seats each instance shall have, now: none while all is calm.
    void want_warm();
    // Its operations under way finish or don't.
    void settle_operations();

    [[nodiscard]] bool dead() const { return dead_; }

    [[nodiscard]] bool over() const { return state_ == State::over; }

    [[nodiscard]] bool serving() const { return state_ == State::serving; }

    // Why it isn't at rest, empty when it is.
    [[nodiscard]] std::string unrest() const;
    [[nodiscard]] std::string describe() const;

  private:
    enum class State : uint8_t {
        starting,
        recovering,
        serving,
        stopping,
        finishing,
        over
    };
    enum class Link : uint8_t {
        down,
        starting,
        asking,
        ready
    };
    enum class TimerKind : uint8_t {
        run_deadline,
        run_term,
        leftover_deadline,
        broker_restart,
        ends_retry,
        store_retry,
        log_retry,
        warm_retry,
        stop_all,
    };
    enum class From : uint8_t {
        human,
        session,
        start
    };

    struct Slot {
        uint32_t generation = 0;
        bool in_use = false;
        launch::RunState state;
        uint32_t run = 0;
        uint32_t seat = 0;
        uint32_t model = 0;
        uint32_t ask = 0;
        int64_t asked_as = 0;  // the human's request on the control pair
        uint32_t caller_run = 0;
        From from = From::human;
        uint32_t session = UINT32_MAX;
        Handle outer;
        Handle runner;
        bool found = false;
        bool reaped = false;
        bool status_over = true;
        bool has_turn = false;
        bool discarded = false;
        bool was_warm = false;
        bool stop_asked = false;
        uint32_t kind = 0;  // what its sandbox is made of
        bool end_first = true;
        uint64_t cap = 0;
        uint64_t cap_hash = 0;     // of what was delivered
        uint32_t cap_written = 0;  // in halves
        int64_t cap_result = 0;
        OuterExit exit;
        bool exit_reported = false;
        uint32_t operations = 0;  // under way
        bool files_fail = false;
        std::vector<int64_t> stops;  // the humans' requests to answer when it is over
        int64_t stop_ms = 0;
        uint32_t deadline_generation = 0;
        int64_t deadline_at = 0;
        int64_t armed_awake = 0;
        int64_t armed_for = 0;
        bool term_timer = false;
        int64_t spawned_at = 0;
    };

    struct RunEvent {
        SlotRef run;
        launch::Event event;
        uint32_t deadline = 0;
    };

    struct LeftoverEvent {
        uint32_t leftover = 0;
        launch::LeftoverEvent event = launch::LeftoverEvent::gone;
    };

    struct Timer {
        int64_t at = 0;
        uint64_t sequence = 0;
        TimerKind kind = TimerKind::run_deadline;
        uint32_t owner = 0;
        uint32_t generation = 0;
    };

    struct Pending {
        launch::RequestKind kind = launch::RequestKind::refuse;
        SlotRef slot;
        uint32_t leftover = 0;
        ToBroker request;
    };

    struct Waiter {
        SlotRef slot;
        std::optional<uint32_t> leftover;
    };

    struct LeftoverProcess {
        Handle process;
        bool inner = false;
        bool gone = false;
        uint32_t leftover = 0;
    };

    struct Ask {
        From from = From::human;
        uint32_t seat = 0;
        uint32_t ask = 0;
        int64_t asked_as = 0;
        uint32_t caller_run = 0;  // of a session
    };

    // ---- the loop (host.cc) ----
    void dispatch(const Wakeup& op);
    void dispatch_session(const Wakeup& op);
    void on_stdin_done(SlotRef ref);
    [[nodiscard]] Slot& living(SlotRef ref);
    void dispatch_timers();
    void drain();
    void plan_tick(int64_t at);
    void set_timer(TimerKind kind, uint32_t owner, uint32_t generation, int64_t after_ns);
    [[nodiscard]] bool dies_here();
    void on_frame();
    void stay_away(int64_t since, int64_t deadline);
    void take_request(uint32_t ask);
    void consider(const Ask& ask);
    void refuse(const Ask& ask, Refusal code);
    void answer(const Slot& s, bool ok);
    void answer(const Ask& ask, bool ok, uint32_t run, Refusal refusal);
    void begin_stop();
    void stop_when_over();
    void check_ends_recorded() const;
    void check_nothing_left();

    // ---- runs (host_runs.cc) ----
    void begin_run(const Ask& ask);
    [[nodiscard]] uint32_t new_slot(uint32_t seat);
    void take_step(uint32_t index, const launch::Event& event);
    // ---- warm seats (host_warm.cc) ----
    [[nodiscard]] bool fill_warm();
    void begin_warm(uint32_t seat);
    void discard_warm(uint32_t seat, uint32_t kind);
    [[nodiscard]] bool is_warm(const Slot& s) const;
    [[nodiscard]] bool holds_seat(const Slot& s) const;
    [[nodiscard]] std::optional<uint32_t> find_warm(const Slot& launch) const;
    void hand_over(uint32_t from, uint32_t to);
    void warm_over(const Slot& s);
    void step(const RunEvent& event);
    void carry_out(uint32_t index, launch::EffectKind effect);
    void admit();
    void give_turn_back(Slot& s);
    void prepare(uint32_t index);
    void spawn(uint32_t index);
    void find_runner_of(uint32_t index);
    void kill(Slot& s);
    void report_exit(uint32_t index);
    void bind(uint32_t index);
    void record(uint32_t index);
    [[nodiscard]] registry::SessionEntry entry_of(const Slot& s) const;
    void amend(uint32_t index);
    void deliver(uint32_t index);
    void write_capability(uint32_t index);
    void arm_deadline(uint32_t index);
    void send_term(uint32_t index);
    void end_at_broker(uint32_t index);
    void unrecord(uint32_t index);
    void free_seat(uint32_t index);
    void log_end(uint32_t run);
    void check_deadline(const Slot& s) const;
    void on_claimed(uint32_t run);
    void stop(int64_t asked_as, uint32_t seat, int64_t timeout_ms);
    void stop_all(int64_t timeout_ms);
    [[nodiscard]] int64_t stop_time(const Slot& s, int64_t timeout_ms) const;
    void recycle();
    [[nodiscard]] Slot* find(SlotRef ref);
    [[nodiscard]] SlotRef ref_of(uint32_t index) const;
    [[nodiscard]] bool is_taken(uint32_t seat) const;
    [[nodiscard]] uint32_t count(uint32_t model) const;

    void post(SlotRef run, launch::Event event) { run_events_.push_back({run, event, 0}); }

    void post(SlotRef run, launch::EventKind kind) { post(run, launch::Event{kind}); }

    void remove_directory(uint32_t run);
    void remove_more();
    void keep_directory(uint32_t run);
    void write_log();

    // ---- sessions.json (host_store.cc) ----
    void changed(uint64_t version);
    void feed(const registry::StoreEvent& event);
    void carry_out(const registry::StoreEffect& effect);
    void begin_store_op(registry::StoreEventKind awaited);
    void perform_store_op();
    void report_durable(uint64_t version);
    void report_failed(uint64_t version);

    // ---- the broker's link (host_link.cc) ----
    void start_broker();
    void arm_restart();
    void lose_broker();
    void restart_when_quiet();
    void ask_broker(launch::RequestKind kind, Pending pending);
    void send_end(Pending pending);
    void send_ends();
    void handle_reply(const ToHost& reply);
    void on_bound_reply(const ToHost& reply);
    void on_end_reply(const Pending& pending, const ToHost& reply);
    void on_bind_reply(const Pending& pending, const ToHost& reply);
    void reply_to_broker(int64_t asked_as, bool ok, uint32_t run);

    // ---- recovery (host_recovery.cc) ----
    void begin_recovery(const ToHost& bound);
    [[nodiscard]] bool is_warm_entry(uint32_t run) const;
    void scan();
    void note_entry_processes(uint32_t index);
    void add_process(uint32_t leftover, Handle process, bool inner);
    void step_leftover(const LeftoverEvent& event);
    void carry_out(uint32_t index, launch::LeftoverEffect effect);
    void kill_leftover(uint32_t index);
    void on_process_gone(uint32_t process);
    void forget_orphans(const ToHost& bound);
    void serve_when_recovered();
    void on_broker_again(const ToHost& bound);
    void check_processes_known() const;
    void check_has_line(uint32_t run) const;

    World& world_;
    State state_ = State::starting;
    bool dead_ = false;
    int64_t last_tick_ = 0;
    int64_t away_ns_ = 0;  // in which it was stopped
    uint64_t tick_number_ = 0;
    int64_t planned_at_ = INT64_MAX;
    std::vector<Wakeup> done_;
    std::vector<Timer> timers_;
    uint64_t timer_sequence_ = 0;
    std::deque<RunEvent> run_events_;
    std::deque<LeftoverEvent> leftover_events_;

    std::vector<Slot> slots_;
    launch::SetupQueue<SlotRef> setup_;
    launch::WarmPool warm_;
    std::deque<Ask> waiting_;
    std::deque<uint32_t> log_waiting_;
    std::deque<uint32_t> log_under_way_;
    bool log_failing_ = false;
    bool log_busy_ = false;
    bool removal_busy_ = false;
    uint32_t frames_due_ = 0;
    int log_result_ = 0;
    std::deque<uint32_t> to_remove_;
    std::deque<uint32_t> removing_;
    std::deque<uint32_t> kept_;

    registry::Entries<Waiter> entries_;
    registry::StoreState store_;
    bool store_busy_ = false;
    registry::StoreEventKind awaited_ = registry::StoreEventKind::opened;
    int64_t store_result_ = 0;
    std::string image_;
    uint64_t write_offset_ = 0;
    bool wrote_short_ = false;
    bool pretend_synced_ = false;

    Link link_ = Link::down;
    bool broker_running_ = false;
    uint32_t broker_epoch_ = 0;
    uint32_t restarts_ = 0;
    uint32_t restart_generation_ = 0;
    launch::Requests<Pending> requests_;
    std::map<int64_t, int64_t> asked_;
    int64_t next_asked_ = 1;
    bool ends_retry_armed_ = false;
    bool stopping_link_ = false;
    std::vector<uint32_t> candidates_;

    registry::SessionsFile left_;
    launch::Leftovers leftovers_;
    std::vector<std::vector<uint32_t>> processes_of_;  // by leftover
    std::vector<LeftoverProcess> processes_;
    bool recovery_begun_ = false;

    // For the checker of a stop.
    int64_t stop_began_ = 0;
    std::set<uint32_t> ends_asked_;  // runs
};

}  // namespace mosaic::sim
