#include "launch/recovery_machine.h"

#include <array>

#include "base/assert.h"

namespace mosaic::launch {
namespace {

enum class Action : uint8_t {
    impossible,
    ignore,
    processes_gone,
    kill_again,
    log_and_unrecord,
    unrecord,
    settle,
};

constexpr std::array<std::string_view, 7> kActionNames = {"impossible",
                                                          "ignore",
                                                          "processes-gone",
                                                          "kill-again",
                                                          "log-and-unrecord",
                                                          "unrecord",
                                                          "settle"};
constexpr std::array<std::string_view, kLeftoverPhases> kPhaseNames = {
    "waiting", "ending", "unrecording", "over"};
constexpr std::array<std::string_view, kLeftoverEvents> kEventNames = {
    "gone", "deadline", "ended", "ended_before", "removed"};
constexpr std::array<std::string_view, kLeftoverEffects> kEffectNames = {
    "kill", "arm_deadline", "report_stuck", "end_at_broker", "log_end", "unrecord", "settle"};

using A = Action;

constexpr std::array<std::array<Action, kLeftoverEvents>, kLeftoverPhases> kTable = {{
    // gone, deadline, ended, ended_before, removed
    {A::processes_gone, A::kill_again, A::impossible, A::impossible, A::impossible},  // waiting
    {A::impossible, A::ignore, A::log_and_unrecord, A::unrecord, A::impossible},      // ending
    {A::impossible, A::ignore, A::ignore, A::ignore, A::settle},                      // unrecording
    {A::ignore, A::ignore, A::ignore, A::ignore, A::ignore},                          // over
}};

Action action_of(LeftoverPhase phase, LeftoverEvent event) {
    return kTable[static_cast<size_t>(phase)][static_cast<size_t>(event)];
}

LeftoverStep settle(LeftoverStep out) {
    out.next.facts.recorded = false;
    out.next.phase = LeftoverPhase::over;
    out.effects.push_back(LeftoverEffect::settle);
    return out;
}

LeftoverStep unrecord(LeftoverStep out) {
    if (!out.next.facts.recorded) {
        return settle(out);
    }
    out.next.phase = LeftoverPhase::unrecording;
    out.effects.push_back(LeftoverEffect::unrecord);
    return out;
}

LeftoverStep end_or_unrecord(LeftoverStep out) {
    out.next.facts.alive = false;
    if (!out.next.facts.in_broker) {
        return unrecord(out);
    }
    out.next.phase = LeftoverPhase::ending;
    out.effects.push_back(LeftoverEffect::end_at_broker);
    return out;
}

LeftoverStep kill_again(LeftoverStep out) {
    if (!out.next.reported) {
        out.next.reported = true;
        out.effects.push_back(LeftoverEffect::report_stuck);
    }
    out.effects.push_back(LeftoverEffect::kill);
    out.effects.push_back(LeftoverEffect::arm_deadline);
    return out;
}

}  // namespace

LeftoverStep begin_leftover(const LeftoverFacts& facts) {
    LeftoverStep out{LeftoverState{LeftoverPhase::waiting, facts, false}, {}};
    if (!facts.alive) {
        return end_or_unrecord(out);
    }
    out.effects.push_back(LeftoverEffect::kill);
    out.effects.push_back(LeftoverEffect::arm_deadline);
    return out;
}

LeftoverStep step(const LeftoverState& state, LeftoverEvent event) {
    LeftoverStep out{state, {}};
    const Action action = action_of(state.phase, event);
    switch (action) {
        case Action::impossible:
            MOSAIC_ASSERT(action != Action::impossible);
            return out;
        case Action::ignore:
            return out;
        case Action::processes_gone:
            return end_or_unrecord(out);
        case Action::kill_again:
            return kill_again(out);
        case Action::log_and_unrecord:
            out.effects.push_back(LeftoverEffect::log_end);
            return unrecord(out);
        case Action::unrecord:
            return unrecord(out);
        case Action::settle:
            return settle(out);
    }
    return out;
}

std::string_view action_name(LeftoverPhase phase, LeftoverEvent event) {
    return kActionNames[static_cast<size_t>(action_of(phase, event))];
}

std::string_view to_string(LeftoverPhase phase) {
    return kPhaseNames[static_cast<size_t>(phase)];
}

std::string_view to_string(LeftoverEvent event) {
    return kEventNames[static_cast<size_t>(event)];
}

std::string_view to_string(LeftoverEffect effect) {
    return kEffectNames[static_cast<size_t>(effect)];
}

}  // namespace mosaic::launch
