#pragma once

#include <cstdint>
#include <string_view>

#include "base/fixed_vector.h"
#include "wire/codes.h"

// One run from the passed checks to the freed seat, as a pure machine: step(state, event) gives the
// next state and the effects to carry out. It sees no descriptor, clock, path or process; the shell
// keeps those in the run's slot. The same machine runs under the host and under the simulator.
//
// `phase` says what is waited for; `facts` say what exists and must be undone. Ending walks the
// facts down in one fixed order, whatever the phase it starts from: processes, broker, log, record,
// seat.
//
// A warm seat is a run that begins without anybody having asked for it: it is set up and recorded,
// waits in `warm` for its capability, and is a run like any other once a launch has taken it. Until
// then its end is nobody's: no answer, no line, no word to the broker. The launch that takes it was
// a run of its own up to the broker's word, and is over with that.

namespace mosaic::launch {

enum class Phase : uint8_t {
    authorizing,  // the broker was asked whether the caller may
    queued,       // waits for its turn to set up
    preparing,    // the run directory and its files are being written
    spawning,     // the sandbox is starting; the runner isn't known yet
    binding,      // the broker records the run and mints its capability
    persisting,   // the entry is on its way to sessions.json
    warm,         // set up and recorded; waits for a launch to take it
    delivering,   // the capability is being written to the runner's stdin
    claiming,     // the runner has to claim its role
    live,         // claimed; the session works
    stopping,     // asked to end; the shell sends SIGTERM again until it does
    killing,      // SIGKILL was sent; waits for the outer process to end
    ending,       // the broker is told
    unrecording,  // the entry is being removed from sessions.json
    over,         // nothing of it is left; late events are ignored
};
constexpr size_t kPhases = static_cast<size_t>(Phase::over) + 1;

enum class EventKind : uint8_t {
    authorized,      // the broker allows it
    refused,         // it does not, or can't be asked (`refusal`)
    handed_over,     // the broker allows it, and a warm seat becomes the run in its place
    admitted,        // its turn to set up
    prepared,        // run directory, session.json and bundle are written
    prepare_failed,  // not all of them (`refusal`: storage_unavailable or launch_failed)
    started,         // the outer process exists
    start_failed,    // no process was made
    runner_found,    // the runner's pid is known and checked
    bound,           // recorded by the broker; its capability is in the slot
    bind_refused,    // the broker refused for good: it holds no such run
    broker_lost,     // the broker went away with our request
    recorded,        // the entry is durable
    record_failed,   // it is not
    taken,           // an allowed launch hands over to this warm seat
    delivered,       // the capability's bytes are in the pipe
    deliver_failed,  // they are not
    claimed,         // the broker accepted the claim
    exited,          // the outer process was reaped, the runner killed (`reason`)
    deadline,        // the timer of this phase fired
    stop,            // the human or the host's end wants it to end
    ended,           // the broker has the end on record
    removed,         // the entry's removal is durable
};
constexpr size_t kEventKinds = static_cast<size_t>(EventKind::removed) + 1;

struct Event {
    EventKind kind = EventKind::deadline;
    Refusal refusal =
        Refusal::launch_failed;            // refused, prepare_failed, stop: what the caller gets
    EndReason reason = EndReason::failed;  // exited: what the exit alone would mean
};

enum class EffectKind : uint8_t {
    authorize,        // -> authorized | refused
    enqueue,          // -> admitted, or deadline
    prepare,          // -> prepared | prepare_failed
    spawn,            // -> started | start_failed, then runner_found | exited | deadline
    bind,             // -> bound | bind_refused | broker_lost
    record,           // -> recorded | record_failed
    amend,            // the entry of a warm seat gets its caller; nothing waits for the disk
    deliver,          // -> delivered | deliver_failed
    arm_deadline,     // the timer for the phase just entered, or a sooner one for a second stop;
                      // replaces the older one -> deadline
    disarm_deadline,  // no timer any more
    term,             // SIGTERM to the runner, again each second while it is stopping
    kill,             // SIGKILL: runner first, then outer, then their process group -> exited
    leave_setup,      // another launch may set up
    reply_launched,   // the caller gets the run
    reply_refused,    // the caller gets state.refusal, unless it was answered
    log_launch,
    log_refused,    // the launch log's `refused` line, and the broker's event
    log_end,        // the launch log's `end` line
    end_at_broker,  // endLaunch, sent again to a restarted broker until answered -> ended
    unrecord,       // -> removed; retried by the shell until it succeeds
    discard_files,  // the run directory goes: the broker never knew this run
    free_seat,      // seat and capacity are free; the slot may be reused once quiescent
};
constexpr size_t kEffectKinds = static_cast<size_t>(EffectKind::free_seat) + 1;

struct Effect {
    EffectKind kind = EffectKind::free_seat;

    bool operator==(const Effect&) const = default;
};

struct Facts {
    bool warm = false;       // nobody has asked for it yet
    bool in_setup = false;   // admitted, counts as being set up
    bool has_files = false;  // a run directory may exist
    bool alive = false;      // the outer process exists
    bool bound = false;      // the broker holds the run, or may
    bool recorded = false;   // sessions.json holds the entry, or may
    bool durable = false;    // ... and has done so on the disk
    bool unnamed = false;    // ... and says warm there, though a launch has taken it
    bool claimed = false;
    bool replied = false;
    bool condemned = false;  // the host decided the end's reason before the exit did
    bool cancelled = false;  // over as soon as what is under way has come back

    bool operator==(const Facts&) const = default;
};

struct RunState {
    Phase phase = Phase::authorizing;
    Facts facts;
    Phase failed_in = Phase::authorizing;      // the phase that failed, for `detail`
    Refusal refusal = Refusal::launch_failed;  // for the caller
    EndReason reason = EndReason::failed;      // for the record

    bool operator==(const RunState&) const = default;
};

constexpr size_t kEffectsMax = 8;

struct Step {
    RunState next;
    FixedVector<Effect, kEffectsMax> effects;
};

// The first step of a run whose checks passed: the broker is asked.
[[nodiscard]] Step begin();
// The first step of a warm seat, which has its turn to set up.
[[nodiscard]] Step begin_warm();

// Total: every event may come in every phase. Pairs that only a bug of ours can produce assert.
[[nodiscard]] Step step(const RunState& state, const Event& event);

// What a step does with a pair, by name, for docs/design.md and its test.
[[nodiscard]] std::string_view action_name(Phase phase, EventKind event);

[[nodiscard]] std::string_view to_string(Phase phase);
[[nodiscard]] std::string_view to_string(EventKind event);
[[nodiscard]] std::string_view to_string(EffectKind effect);

// Whether a run in this phase hasn't claimed yet and isn't ending.
[[nodiscard]] bool is_launching(Phase phase);

}  // namespace mosaic::launch
