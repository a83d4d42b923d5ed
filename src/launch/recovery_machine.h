#pragma once

#include <cstdint>
#include <string_view>

#include "base/fixed_vector.h"

// One leftover of a host that died hard: an entry of sessions.json, a run that the broker holds as
// bound, or a process that no entry names. Pure, like run_machine.h.
//
// Its processes are killed and waited for, then the broker records the end `host-lost`, then the
// launch log, then the entry goes. Each part is there or not, and each can be repeated: the next
// host may die on any line as well.

namespace mosaic::launch {

enum class LeftoverPhase : uint8_t {
    waiting,      // SIGKILL was sent to what matched; waits for it to be gone
    ending,       // the broker is told
    unrecording,  // the entry is being removed
    over,
};
constexpr size_t kLeftoverPhases = static_cast<size_t>(LeftoverPhase::over) + 1;

enum class LeftoverEvent : uint8_t {
    gone,          // no process of it is left
    deadline,      // still there after the time that a SIGKILL may take
    ended,         // the broker has the end on record, the launch log no line of it
    ended_before,  // ... it has: no second line
    removed,       // the entry's removal is durable
};
constexpr size_t kLeftoverEvents = static_cast<size_t>(LeftoverEvent::removed) + 1;

enum class LeftoverEffect : uint8_t {
    kill,  // runner first, then outer -> gone | deadline
    arm_deadline,
    report_stuck,   // a person should know: seat and entry stay until it is gone
    end_at_broker,  // endLaunch host-lost -> ended | ended_before
    log_end,
    unrecord,  // -> removed
    settle,    // seat free; launches of it may pass
};
constexpr size_t kLeftoverEffects = static_cast<size_t>(LeftoverEffect::settle) + 1;

struct LeftoverFacts {
    bool alive = false;      // a process matched
    bool in_broker = false;  // has to end there: entries that aren't warm, bound runs
    bool recorded = false;   // sessions.json holds an entry

    bool operator==(const LeftoverFacts&) const = default;
};

struct LeftoverState {
    LeftoverPhase phase = LeftoverPhase::waiting;
    LeftoverFacts facts;
    bool reported = false;

    bool operator==(const LeftoverState&) const = default;
};

struct LeftoverStep {
    LeftoverState next;
    FixedVector<LeftoverEffect, 4> effects;
};

[[nodiscard]] LeftoverStep begin_leftover(const LeftoverFacts& facts);

// Total; pairs that only a bug of ours can produce assert.
[[nodiscard]] LeftoverStep step(const LeftoverState& state, LeftoverEvent event);

[[nodiscard]] std::string_view action_name(LeftoverPhase phase, LeftoverEvent event);
[[nodiscard]] std::string_view to_string(LeftoverPhase phase);
[[nodiscard]] std::string_view to_string(LeftoverEvent event);
[[nodiscard]] std::string_view to_string(LeftoverEffect effect);

}  // namespace mosaic::launch
