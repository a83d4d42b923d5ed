// Warm seats, as src/host/runs.cc and warm_seats.cc keep them.

#include <algorithm>
#include <utility>

#include "sim/host.h"
#include "sim/world.h"

namespace mosaic::sim {

using launch::Event;
using launch::EventKind;
using launch::Phase;

bool Host::holds_seat(const Slot& s) const {
    const bool lost = s.was_warm && world_.mutated(Mutation::warm_seat_not_counted);
    return s.in_use && s.state.phase != Phase::over && !s.state.facts.warm && !lost;
}

bool Host::is_warm(const Slot& s) const {
    return s.in_use && s.state.facts.warm && s.state.phase < Phase::live && !s.stop_asked;
}

void Host::want_warm() {
    std::map<std::string, int64_t> wanted;
    for (uint32_t seat = 1; seat < world_.shape.seats && !world_.calm; seat += 3) {
        wanted.emplace(seat_name(seat), world_.shape.warm);
    }
    warm_.want(wanted);
    if (world_.calm) {
        for (uint32_t seat = 0; seat < world_.shape.seats; ++seat) {
            discard_warm(seat, UINT32_MAX);
        }
    }
    plan_tick(world_.now);
}

void Host::discard_warm(uint32_t seat, uint32_t kind) {
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        Slot& s = slots_[i];
        const bool blind = world_.mutated(Mutation::warm_stale_taken) && !world_.calm;
        if (is_warm(s) && s.seat == seat && s.kind != kind && !blind) {
            s.stop_asked = true;
            post(ref_of(i), Event{EventKind::stop, Refusal::launch_failed});
        }
    }
}

bool Host::fill_warm() {
    if (state_ != State::serving || world_.calm) {
        return false;
    }
    const auto instance = warm_.next(Instant{world_.now});
    if (!instance) {
        if (const auto at = warm_.next_at()) {
            set_timer(TimerKind::warm_retry, 0, 0, at->ns - world_.now);
        }
        return false;
    }
    const bool held_up = std::any_of(slots_.begin(), slots_.end(), [](const Slot& s) {
        const bool waits_for_word = s.state.phase == Phase::authorizing;
        const bool is_taken = s.was_warm && launch::is_launching(s.state.phase);
        const bool in_setup = s.state.facts.warm && s.state.facts.in_setup;
        return s.in_use && (waits_for_word || is_taken || in_setup);
    });
    if (held_up) {
        return false;
    }
    if (world_.chance.below(256) == 0) {
        static_cast<void>(warm_.not_begun(*instance, Instant{world_.now}));
        return true;
    }
    const auto still_waits = [&](const SlotRef& ref) {
        const Slot* s = find(ref);
        return s != nullptr && s->state.phase <= Phase::queued;
    };
    if (!world_.mutated(Mutation::warm_refill_out_of_turn) && !setup_.grant_spare(still_waits)) {
        return false;
    }
    warm_.begun(*instance);
    begin_warm(static_cast<uint32_t>(std::stoul(instance->substr(1))));
    return true;
}

void Host::begin_warm(uint32_t seat) {
    const uint32_t index = new_slot(seat);
    Slot& s = slots_[index];
    world_.truth[s.run].warm = true;
    ++world_.counters.warm_begun;
    s.has_turn = !world_.mutated(Mutation::warm_refill_out_of_turn);
    const launch::Step first = launch::begin_warm();
    s.state = first.next;
    for (const launch::Effect& effect : first.effects) {
        if (dies_here()) {
            return;
        }
        carry_out(index, effect.kind);
    }
}

std::optional<uint32_t> Host::find_warm(const Slot& launch) const {
    const bool any = world_.mutated(Mutation::warm_stale_taken);
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        const Slot& s = slots_[i];
        if (is_warm(s) && s.state.phase == Phase::warm && s.seat == launch.seat &&
            (s.kind == launch.kind || any) && !launch.stop_asked &&
            !world_.sessions.exited(s.outer) && !world_.sessions.exited(s.runner)) {
            return i;
        }
    }
    return std::nullopt;
}

// The launch's slot is over in the same step: its seat is held by one of the two throughout.
void Host::hand_over(uint32_t from, uint32_t to) {
    const Slot& launch = slots_[from];
    Slot& seat = slots_[to];
    seat.was_warm = true;
    if (!world_.mutated(Mutation::warm_asker_forgotten)) {
        seat.ask = launch.ask;
        seat.asked_as = launch.asked_as;
        seat.from = launch.from;
    }
    seat.caller_run = launch.caller_run;
    seat.spawned_at = world_.now;
    world_.clients.begun(seat.ask, seat.run);
    warm_.taken(seat_name(seat.seat));
    world_.truth.warm_taken(seat.run, seat.kind == launch.kind);
    take_step(to, Event{EventKind::taken});
    if (dead_) {
        return;
    }
    if (world_.mutated(Mutation::warm_launch_goes_on)) {
        take_step(from, Event{EventKind::authorized});
        return;
    }
    world_.truth.run_over(launch.run);
    take_step(from, Event{EventKind::handed_over});
}

void Host::warm_over(const Slot& s) {
    if (s.stop_asked) {
        warm_.discarded(seat_name(s.seat));
    } else {
        static_cast<void>(warm_.failed(
            seat_name(s.seat), Instant{world_.now}, Duration{world_.now - s.spawned_at}));
    }
}

}  // namespace mosaic::sim
