#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/broker_link.h"
#include "host/clients.h"
#include "host/data_root.h"
#include "host/launch_log.h"
#include "host/run_slot.h"
#include "host/session_store.h"
#include "launch/deadlines.h"
#include "launch/setup_queue.h"
#include "sandbox/control_groups.h"

namespace mosaic::host {

// What carrying out the effects of runs needs of the host. All of it outlives Runs.
struct RunParts {
    Loop& loop;
    const DataRoot& root;
    SessionStore& store;
    BrokerLink& broker;
    Clients& clients;
    LaunchLog& log;
    sandbox::RunGroups& groups;
    config::Limits limits;
    std::string business;
    std::string human;
};

// A launch's answer for the human or the start, who get more than a session does.
struct HumanAnswer {
    Caller caller;
    std::optional<wire::LaunchResult> result;
    Refusal refusal = Refusal::launch_failed;
    std::string reason;
};

// What became of a warm seat.
struct WarmNews {
    enum class Kind {
        taken,      // a launch has it
        discarded,  // it was told to end, and nothing of it is left
        failed,     // it couldn't be made or ended by itself (`why`), and nothing of it is left
    };
    Kind kind = Kind::failed;
    std::string instance;
    std::string why;
    Duration waited;  // since its sandbox was started
};

// The runs: a pool of slots, one machine each. Steps them and carries out their effects.
class Runs {
  public:
    explicit Runs(RunParts parts);

    // For what begins from now on, and for the deadlines that are armed from now on.
    void set_limits(const config::Limits& limits);

    // Starts the machine of a run whose checks passed. The caller is answered when it is decided.
    void begin(Ask ask, Plan plan);

    // Whether a warm seat may be begun: no other is being set up, and no launch waits for the
    // broker's word or for the claim of a seat that was warm; those would be held up.
    [[nodiscard]] bool may_warm() const;
    // Starts a warm seat, unless there is no turn to set up that no launch wants: then false.
    [[nodiscard]] bool begin_warm(Plan plan);
    // Throws away the instance's warm seats that aren't of this kind, and those beyond `most`.
    void discard_warm(const std::string& instance, const std::string& fit, int64_t most);
    // The instances that have warm seats.
    [[nodiscard]] std::set<std::string> warm_instances() const;
    // What became of them, in the order it happened.
    [[nodiscard]] std::optional<WarmNews> take_warm_news();

    // A refusal by the checks: answered, logged, told the broker. No slot was made.
    void refuse(const Ask& ask, Refusal code, const std::string& reason);

    // Takes the next queued event of a run through its machine.
    void step(const RunEvent& event);

    // The human wants it to end; answered when it is over.
    void stop(int64_t request_id, const wire::StopArgs& args);
    // The host ends: everything ends.
    void stop_all(int64_t timeout_ms);
    // The host wants this live session to end; `detail` stands in its end. One that is no longer
    // live is left alone.
    void stop_live(const std::string& run, const std::string& detail);

    // News of the broker that belong to a run's slot, before its event is stepped.
    void on_bound(BrokerNews& news);
    void on_ended(const BrokerNews& news);
    // Who asked for the launch; empty when the slot is another's by now.
    std::string on_decision(const BrokerNews& news);
    void on_claimed(const std::string& run);

    void on_files_done(uint32_t index);
    void on_exec(uint32_t index);
    void on_exit(uint32_t index);
    void on_status(uint32_t index);
    void on_stdin_done(uint32_t index);
    void on_deadline(uint32_t index, uint32_t generation);
    // False for a deadline that was superseded, or of a run that is over.
    [[nodiscard]] bool awaits_deadline(uint32_t index, uint32_t generation) const;
    void on_term_timer(uint32_t index, uint32_t generation);
    void on_group_timer();

    // Control groups of these runs, which an earlier host left: what is in them is killed, and they
    // go.
    void sweep_groups(const std::vector<std::string>& runs);

    // The seat is running, launching or ending. Warm seats count neither here nor below, but for
    // active().
    [[nodiscard]] bool is_taken(const Seat& seat) const;
    // Sessions of this model, under way, running or ending.
    [[nodiscard]] int64_t count(const std::string& provider, const std::string& model) const;
    // Sessions whose credential counts as this account.
    [[nodiscard]] int64_t count_account(const std::string& account) const;
    [[nodiscard]] size_t active() const;
    [[nodiscard]] Census census() const;
    // The runs of the sessions that are live.
    [[nodiscard]] std::vector<std::string> live() const;
    // The staged trees of sessions under way, running or ending.
    [[nodiscard]] std::vector<std::string> stage_dirs() const;
    // Some session has become live since this was asked last.
    [[nodiscard]] bool take_went_live();
    // So many sessions count that are under way, running or ending.
    [[nodiscard]] int64_t count() const;
    // The runs that the broker holds as far as we know, or may.
    [[nodiscard]] std::set<std::string> bound() const;

    // The live run whose runner this is, nothing when there is none.
    [[nodiscard]] std::optional<SlotRef> find_runner(int64_t pid, const std::string& start) const;
    // The run, when this is the hash of its capability and it still has processes; else null.
    [[nodiscard]] const RunSlot* find_capability(SlotRef run, const std::string& hash) const;

    // Answers for the human and the start.
    [[nodiscard]] std::optional<HumanAnswer> take_answer();
    // Run directories that nobody ever knew: to be removed.
    [[nodiscard]] std::optional<std::string> take_discarded();
    // Runs that are over and keep their directory.
    [[nodiscard]] std::optional<std::string> take_ended();
    // A spawn failed in a way that says the sandbox doesn't work any more.
    [[nodiscard]] bool take_sandbox_doubt();

    void recycle();

  private:
    RunSlot& slot(uint32_t index) { return *slots_[index]; }

    RunSlot* find(SlotRef ref);
    void carry_out(uint32_t index, const launch::Step& step);
    void carry_out(uint32_t index, launch::EffectKind effect);
    uint32_t new_slot(Plan plan);
    void take_step(uint32_t index, const launch::Event& event);
    [[nodiscard]] bool waits_for_turn(SlotRef ref);
    [[nodiscard]] std::optional<uint32_t> find_warm(const RunSlot& launch) const;
    void hand_over(uint32_t from, uint32_t to);
    void tell_warm(const RunSlot& s);
    void stamp(RunSlot& s, launch::EventKind event) const;
    void admit();
    void give_turn_back(RunSlot& s);
    void ask_to_stop(uint32_t index, Refusal refusal, const std::string& why);
    void send_term(uint32_t index);
    [[nodiscard]] Duration time_for(const RunSlot& s) const;
    [[nodiscard]] int64_t stop_time(const RunSlot& s, int64_t timeout_ms) const;
    void authorize(uint32_t index);
    void prepare(uint32_t index);
    void start_outer(uint32_t index);
    [[nodiscard]] Result<void> start_behind_gate(RunSlot& s);
    void spawn(uint32_t index);
    void open_gate(uint32_t index);
    void find_runner_of(uint32_t index);
    void kill(RunSlot& s);
    void drop_group(RunSlot& s);
    void remove_group(const std::string& run);
    void report_exit(uint32_t index);
    void bind(uint32_t index);
    void record(uint32_t index);
    [[nodiscard]] registry::SessionEntry entry_of(const RunSlot& s) const;
    void deliver(uint32_t index);
    void close_capability(RunSlot& s);
    void arm_deadline(uint32_t index);
    void end_at_broker(uint32_t index);
    void reply_launched(RunSlot& s);
    void answer_refusal(const Caller& caller,
                        Refusal code,
                        const std::string& decision,
                        const std::string& reason);
    void log_launch(const RunSlot& s);
    void log_refused(const RunSlot& s);
    void log_end(const RunSlot& s);
    void free_seat(uint32_t index);
    [[nodiscard]] SlotRef ref_of(uint32_t index) const;

    RunParts parts_;
    std::vector<std::unique_ptr<RunSlot>> slots_;
    launch::SetupQueue<SlotRef> setup_{0};
    std::deque<HumanAnswer> answers_;
    std::deque<std::string> discarded_;
    std::deque<std::string> ended_;
    std::deque<WarmNews> warm_news_;
    bool sandbox_doubt_ = false;
    bool went_live_ = false;

    // Groups that aren't removed yet.
    struct GroupLeft {
        std::string run;
        sandbox::GroupWalk walk{};
        Instant due{};
        bool held = false;
        int tries = 0;
    };

    // True: it is no longer to be thought of.
    [[nodiscard]] bool try_group(GroupLeft& group, int& steps);
    void arm_group_timer();

    std::vector<GroupLeft> groups_left_;
    bool group_timer_ = false;
};

}  // namespace mosaic::host
