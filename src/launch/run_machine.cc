#include "launch/run_machine.h"

#include <array>

#include "base/assert.h"

namespace mosaic::launch {
namespace {

enum class Action : uint8_t {
    impossible,  // only a bug of ours brings this event here
    ignore,      // it comes late; what it tells no longer matters
    queue_up,    // allowed: wait for a turn to set up
    refuse,      // nothing exists yet: answer and be over
    refuse_busy,
    refuse_unasked,  // the broker doesn't answer
    refuse_stopping,
    hand_over,  // over without a trace: a warm seat goes on in its place
    prepare,
    cancel,  // can't be interrupted: be over as soon as it has come back
    spawn,
    give_up_files,  // files failed: answer, remove them, be over
    note_started,
    bind_or_record,     // a warm seat isn't bound before somebody takes it
    record_or_deliver,  // what was warm is recorded already
    deliver_or_wait,
    bind_taken,
    await_claim,
    go_live,
    condemn,  // this phase failed: kill, then end as failed
    condemn_storage,
    condemn_stopping,
    condemn_unbound,  // the broker refused to bind: kill, then be over without an end record
    stop_live,
    stop_sooner,
    kill_live,  // the stop's time is up; the exit's own reason counts
    kill_again,
    note_unbound,  // the broker holds no such run after all
    kill_started,  // it came to be after its end was decided
    exit_seen,     // the processes are gone: walk down what else exists
    log_and_unrecord,
    finish,
};

constexpr std::array<std::string_view, static_cast<size_t>(Action::finish) + 1> kActionNames = {
    "impossible",       "ignore",          "queue-up",
    "refuse",           "refuse-busy",     "refuse-unasked",
    "refuse-stopping",  "hand-over",       "prepare",
    "cancel",           "spawn",           "give-up-files",
    "note-started",     "bind-or-record",  "record-or-deliver",
    "deliver-or-wait",  "bind-taken",      "await-claim",
    "go-live",          "condemn",         "condemn-storage",
    "condemn-stopping", "condemn-unbound", "stop-live",
    "stop-sooner",      "kill-live",       "kill-again",
    "note-unbound",     "kill-started",    "exit-seen",
    "log-and-unrecord", "finish",
};

constexpr std::array<std::string_view, kPhases> kPhaseNames = {
    "authorizing",
    "queued",
    "preparing",
    "spawning",
    "binding",
    "persisting",
    "warm",
    "delivering",
    "claiming",
    "live",
    "stopping",
    "killing",
    "ending",
    "unrecording",
    "over",
};

constexpr std::array<std::string_view, kEventKinds> kEventNames = {
    "authorized", "refused",       "handed_over",  "admitted",  "prepared",       "prepare_failed",
    "started",    "start_failed",  "runner_found", "bound",     "bind_refused",   "broker_lost",
    "recorded",   "record_failed", "taken",        "delivered", "deliver_failed", "claimed",
    "exited",     "deadline",      "stop",         "ended",     "removed",
};

constexpr std::array<std::string_view, kEffectKinds> kEffectNames = {
    "authorize",     "enqueue",        "prepare",       "spawn",           "bind",        "record",
    "amend",         "deliver",        "arm_deadline",  "disarm_deadline", "term",        "kill",
    "leave_setup",   "reply_launched", "reply_refused", "log_launch",      "log_refused", "log_end",
    "end_at_broker", "unrecord",       "discard_files", "free_seat",
};

using Row = std::array<Action, kEventKinds>;

constexpr Row all(Action action) {
    Row row{};
    row.fill(action);
    return row;
}

struct Cell {
    EventKind event;
    Action action;
};

template <size_t N>
constexpr Row row(Action otherwise, const Cell (&cells)[N]) {
    Row out = all(otherwise);
    for (const Cell& cell : cells) {
        out[static_cast<size_t>(cell.event)] = cell.action;
    }
    return out;
}

using A = Action;
using E = EventKind;

// From `binding` on an answer may be under way that an earlier failure made worthless; those phases
// ignore what the earlier ones await. `impossible` stands where no request can have been made yet.
constexpr std::array<Row, kPhases> kTable = {
    // authorizing
    row(A::impossible,
        {{E::authorized, A::queue_up},
         {E::refused, A::refuse},
         {E::handed_over, A::hand_over},
         {E::deadline, A::refuse_unasked},
         {E::stop, A::refuse_stopping}}),
    // queued
    row(A::impossible,
        {{E::admitted, A::prepare}, {E::deadline, A::refuse_busy}, {E::stop, A::refuse_stopping}}),
    // preparing
    row(A::impossible,
        {{E::prepared, A::spawn},
         {E::prepare_failed, A::give_up_files},
         {E::deadline, A::ignore},
         {E::stop, A::cancel}}),
    // spawning
    row(A::impossible,
        {{E::started, A::note_started},
         {E::start_failed, A::give_up_files},
         {E::runner_found, A::bind_or_record},
         {E::exited, A::exit_seen},
         {E::deadline, A::condemn},
         {E::stop, A::condemn_stopping}}),
    // binding
    row(A::impossible,
        {{E::bound, A::record_or_deliver},
         {E::bind_refused, A::condemn_unbound},
         {E::broker_lost, A::condemn},
         {E::exited, A::exit_seen},
         {E::deadline, A::condemn},
         {E::stop, A::condemn_stopping}}),
    // persisting
    row(A::impossible,
        {{E::broker_lost, A::ignore},
         {E::recorded, A::deliver_or_wait},
         {E::record_failed, A::condemn_storage},
         {E::exited, A::exit_seen},
         {E::deadline, A::condemn},
         {E::stop, A::condemn_stopping}}),
    // warm
    row(A::impossible,
        {{E::taken, A::bind_taken},
         {E::exited, A::exit_seen},
         {E::deadline, A::ignore},
         {E::stop, A::condemn_stopping}}),
    // delivering
    row(A::impossible,
        {{E::broker_lost, A::ignore},
         {E::delivered, A::await_claim},
         {E::deliver_failed, A::condemn},
         {E::claimed, A::go_live},
         {E::exited, A::exit_seen},
         {E::deadline, A::condemn},
         {E::stop, A::condemn_stopping}}),
    // claiming
    row(A::impossible,
        {{E::broker_lost, A::ignore},
         {E::claimed, A::go_live},
         {E::exited, A::exit_seen},
         {E::deadline, A::condemn},
         {E::stop, A::condemn_stopping}}),
    // live
    row(A::impossible,
        {{E::broker_lost, A::ignore},
         {E::delivered, A::ignore},
         {E::deliver_failed, A::ignore},
         {E::claimed, A::ignore},
         {E::exited, A::exit_seen},
         {E::deadline, A::ignore},
         {E::stop, A::stop_live}}),
    // stopping
    row(A::impossible,
        {{E::broker_lost, A::ignore},
         {E::delivered, A::ignore},
         {E::deliver_failed, A::ignore},
         {E::claimed, A::ignore},
         {E::exited, A::exit_seen},
         {E::deadline, A::kill_live},
         {E::stop, A::stop_sooner}}),
    // killing
    row(A::impossible,
        {{E::started, A::kill_started},
         {E::start_failed, A::exit_seen},
         {E::runner_found, A::ignore},
         {E::bound, A::ignore},
         {E::bind_refused, A::note_unbound},
         {E::broker_lost, A::ignore},
         {E::recorded, A::ignore},
         {E::record_failed, A::ignore},
         {E::delivered, A::ignore},
         {E::deliver_failed, A::ignore},
         {E::claimed, A::ignore},
         {E::exited, A::exit_seen},
         {E::deadline, A::kill_again},
         {E::stop, A::ignore}}),
    // ending
    row(A::ignore,
        {{E::handed_over, A::impossible},
         {E::taken, A::impossible},
         {E::exited, A::impossible},
         {E::started, A::impossible},
         {E::ended, A::log_and_unrecord},
         {E::removed, A::impossible}}),
    // unrecording
    row(A::ignore,
        {{E::handed_over, A::impossible},
         {E::taken, A::impossible},
         {E::exited, A::impossible},
         {E::started, A::impossible},
         {E::removed, A::finish}}),
    // over
    all(A::ignore),
};

Action action_of(Phase phase, EventKind event) {
    return kTable[static_cast<size_t>(phase)][static_cast<size_t>(event)];
}

// Facts that a phase allows; entering it with others is a bug.
void check_facts(Phase phase, const Facts& facts) {
    const bool delivered_later = phase == Phase::delivering || phase == Phase::claiming ||
                                 phase == Phase::live || phase == Phase::stopping;
    // The capability leaves only when the record is durable.
    MOSAIC_ASSERT(!delivered_later ||
                  (facts.bound && facts.recorded && facts.durable && facts.alive));
    // What nobody has asked for is nobody's: the broker doesn't know it, no caller waits for it.
    MOSAIC_ASSERT(!facts.warm || (!facts.bound && facts.replied));
    MOSAIC_ASSERT(phase != Phase::warm || (facts.warm && facts.durable && facts.alive));
    MOSAIC_ASSERT(phase != Phase::live || facts.claimed);
    MOSAIC_ASSERT(phase != Phase::ending || (!facts.alive && facts.bound));
    MOSAIC_ASSERT(phase != Phase::unrecording || !facts.alive);
    MOSAIC_ASSERT(phase != Phase::over || (!facts.alive && !facts.in_setup));
}

// Builds one step. The only writer of `phase`.
class Builder {
  public:
    explicit Builder(const RunState& state) : step_{state, {}} {}

    RunState& state() { return step_.next; }

    Facts& facts() { return step_.next.facts; }

    Builder& enter(Phase phase) {
        check_facts(phase, facts());
        step_.next.phase = phase;
        return *this;
    }

    Builder& effect(EffectKind kind) {
        step_.effects.push_back(Effect{kind});
        return *this;
    }

    // Another launch may set up: this one has claimed or failed.
    Builder& leave_setup() {
        if (facts().in_setup) {
            facts().in_setup = false;
            effect(EffectKind::leave_setup);
        }
        return *this;
    }

    Builder& refuse(Refusal code) {
        state().refusal = code;
        return *this;
    }

    // Over, with nothing at the broker: the caller and the log learn the refusal, the files go.
    Step over_unknown() {
        leave_setup();
        effect(EffectKind::disarm_deadline);
        if (!facts().warm) {
            effect(EffectKind::log_refused);
        }
        if (facts().has_files) {
            facts().has_files = false;
            effect(EffectKind::discard_files);
        }
        return answer_and_free();
    }

    Step answer_and_free() {
        if (!facts().replied) {
            facts().replied = true;
            effect(EffectKind::reply_refused);
        }
        effect(EffectKind::free_seat);
        return enter(Phase::over).done();
    }

    // This phase failed: the processes go first, then the rest is walked down in `killing`.
    Step condemn(Refusal code) {
        refuse(code);
        state().failed_in = state().phase;
        state().reason = EndReason::failed;
        facts().condemned = true;
        leave_setup();
        effect(EffectKind::kill).effect(EffectKind::arm_deadline);
        return enter(Phase::killing).done();
    }

    [[nodiscard]] Step done() const { return step_; }

  private:
    Step step_;
};

Step start_spawn(Builder b) {
    if (b.facts().cancelled) {
        return b.over_unknown();
    }
    b.effect(EffectKind::spawn).effect(EffectKind::arm_deadline);
    return b.enter(Phase::spawning).done();
}

Step give_up_files(Builder b, const Event& event) {
    if (!b.facts().cancelled) {
        b.refuse(event.kind == EventKind::prepare_failed ? event.refusal : Refusal::launch_failed);
    }
    b.state().failed_in = b.state().phase;
    return b.over_unknown();
}

// The processes are gone. What the broker holds is ended first, then logged, then the entry goes:
// ending again must always be possible, and an entry that went first could leave a role held.
Step walk_down(Builder b, EndReason exit_reason) {
    b.facts().alive = false;
    if (!b.facts().condemned) {
        b.state().failed_in = b.state().phase;
        b.state().reason = exit_reason;
        b.facts().condemned = true;
    }
    b.leave_setup();
    if (b.facts().bound) {
        b.effect(EffectKind::disarm_deadline).effect(EffectKind::end_at_broker);
        return b.enter(Phase::ending).done();
    }
    if (b.facts().recorded) {
        b.effect(EffectKind::disarm_deadline).effect(EffectKind::unrecord);
        return b.enter(Phase::unrecording).done();
    }
    return b.over_unknown();
}

Step go_live(Builder b) {
    b.facts().claimed = true;
    b.facts().replied = true;
    b.leave_setup();
    b.effect(EffectKind::disarm_deadline)
        .effect(EffectKind::log_launch)
        .effect(EffectKind::reply_launched);
    if (b.facts().unnamed) {
        b.facts().unnamed = false;
        b.effect(EffectKind::amend);
    }
    return b.enter(Phase::live).done();
}

Step log_and_unrecord(Builder b) {
    b.effect(EffectKind::log_end);
    if (!b.facts().recorded) {
        return b.answer_and_free();
    }
    b.effect(EffectKind::unrecord);
    return b.enter(Phase::unrecording).done();
}

// A seat that was warm may have an entry without the broker ever having held the run.
Step finish(Builder b) {
    b.facts().recorded = false;
    return b.facts().bound ? b.answer_and_free() : b.over_unknown();
}

Step hand_over(Builder b) {
    b.facts().replied = true;
    b.effect(EffectKind::disarm_deadline);
    return b.enter(Phase::over).done();
}

Step bind(Builder b) {
    // From here the broker may hold the run, whatever becomes of its answer.
    b.facts().bound = true;
    b.effect(EffectKind::bind).effect(EffectKind::arm_deadline);
    return b.enter(Phase::binding).done();
}

Step record(Builder b) {
    b.facts().recorded = true;
    b.effect(EffectKind::record);
    return b.enter(Phase::persisting).done();
}

// Once its runner is known: what nobody asked for is recorded and waits.
Step bind_or_record(Builder b) {
    if (!b.facts().warm) {
        return bind(b);
    }
    b.effect(EffectKind::arm_deadline);
    return record(b);
}

Step record_or_deliver(Builder b) {
    if (!b.facts().durable) {
        return record(b);
    }
    // The entry that is durable names the processes, so the next host would find them; that the
    // broker holds the run tells it the rest. The caller's name isn't written before the claim,
    // which would wait for the disk beside it.
    b.effect(EffectKind::deliver);
    return b.enter(Phase::delivering).done();
}

Step deliver_or_wait(Builder b) {
    b.facts().durable = true;
    if (b.facts().warm) {
        b.leave_setup();
        b.effect(EffectKind::disarm_deadline);
        return b.enter(Phase::warm).done();
    }
    b.effect(EffectKind::deliver);
    return b.enter(Phase::delivering).done();
}

Step bind_taken(Builder b) {
    b.facts().warm = false;
    b.facts().replied = false;
    b.facts().unnamed = true;
    return bind(b);
}

// Setting up, forwards.
Step advance(Action action, Builder b) {
    if (action == Action::queue_up) {
        b.effect(EffectKind::enqueue).effect(EffectKind::arm_deadline);
        return b.enter(Phase::queued).done();
    }
    if (action == Action::prepare) {
        b.facts().in_setup = true;
        b.facts().has_files = true;
        b.effect(EffectKind::disarm_deadline).effect(EffectKind::prepare);
        return b.enter(Phase::preparing).done();
    }
    if (action == Action::note_started) {
        b.facts().alive = true;
        return b.done();
    }
    if (action == Action::bind_or_record) {
        return bind_or_record(b);
    }
    if (action == Action::record_or_deliver) {
        return record_or_deliver(b);
    }
    if (action == Action::deliver_or_wait) {
        return deliver_or_wait(b);
    }
    if (action == Action::bind_taken) {
        return bind_taken(b);
    }
    MOSAIC_ASSERT(action == Action::await_claim);
    return b.enter(Phase::claiming).done();
}

Step stop_live(Builder b) {
    b.effect(EffectKind::term).effect(EffectKind::arm_deadline);
    return b.enter(Phase::stopping).done();
}

Step kill_live(Builder b) {
    b.effect(EffectKind::kill).effect(EffectKind::arm_deadline);
    return b.enter(Phase::killing).done();
}

Step run(Action action, const RunState& state, const Event& event) {
    Builder b(state);
    switch (action) {
        case Action::impossible:
            MOSAIC_ASSERT(action != Action::impossible);
            return b.done();
        case Action::ignore:
            return b.done();
        case Action::queue_up:
        case Action::prepare:
        case Action::note_started:
        case Action::bind_or_record:
        case Action::record_or_deliver:
        case Action::deliver_or_wait:
        case Action::bind_taken:
        case Action::await_claim:
            return advance(action, b);
        case Action::refuse:
            return b.refuse(event.refusal).over_unknown();
        case Action::refuse_busy:
            return b.refuse(Refusal::busy).over_unknown();
        case Action::refuse_unasked:
            return b.refuse(Refusal::broker_unavailable).over_unknown();
        case Action::refuse_stopping:
            return b.refuse(event.refusal).over_unknown();
        case Action::hand_over:
            return hand_over(b);
        case Action::cancel:
            b.facts().cancelled = true;
            return b.refuse(event.refusal).done();
        case Action::spawn:
            return start_spawn(b);
        case Action::give_up_files:
            return give_up_files(b, event);
        case Action::go_live:
            return go_live(b);
        case Action::condemn:
            return b.condemn(Refusal::launch_failed);
        case Action::condemn_storage:
            return b.condemn(Refusal::storage_unavailable);
        case Action::condemn_stopping:
            return b.condemn(event.refusal);
        case Action::condemn_unbound:
            b.facts().bound = false;
            return b.condemn(Refusal::launch_failed);
        case Action::stop_live:
            return stop_live(b);
        case Action::stop_sooner:
            return b.effect(EffectKind::arm_deadline).done();
        case Action::kill_live:
            return kill_live(b);
        case Action::kill_again:
            return b.effect(EffectKind::kill).effect(EffectKind::arm_deadline).done();
        case Action::note_unbound:
            b.facts().bound = false;
            return b.done();
        case Action::kill_started:
            b.facts().alive = true;
            return b.effect(EffectKind::kill).done();
        case Action::exit_seen:
            return walk_down(b, event.reason);
        case Action::log_and_unrecord:
            return log_and_unrecord(b);
        case Action::finish:
            return finish(b);
    }
    return b.done();
}

}  // namespace

Step begin() {
    Builder b(RunState{});
    return b.effect(EffectKind::authorize).effect(EffectKind::arm_deadline).done();
}

Step begin_warm() {
    Builder b(RunState{});
    b.facts().warm = true;
    b.facts().replied = true;  // until somebody asks
    b.facts().in_setup = true;
    b.facts().has_files = true;
    b.effect(EffectKind::prepare);
    return b.enter(Phase::preparing).done();
}

Step step(const RunState& state, const Event& event) {
    return run(action_of(state.phase, event.kind), state, event);
}

std::string_view action_name(Phase phase, EventKind event) {
    return kActionNames[static_cast<size_t>(action_of(phase, event))];
}

std::string_view to_string(Phase phase) {
    return kPhaseNames[static_cast<size_t>(phase)];
}

std::string_view to_string(EventKind event) {
    return kEventNames[static_cast<size_t>(event)];
}

std::string_view to_string(EffectKind effect) {
    return kEffectNames[static_cast<size_t>(effect)];
}

bool is_launching(Phase phase) {
    return phase < Phase::live;
}

}  // namespace mosaic::launch
