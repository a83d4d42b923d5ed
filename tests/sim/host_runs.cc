// The runs: what each effect does, as src/host/runs.cc and run_processes.cc do it.

#include <algorithm>
#include <utility>

#include "sim/host.h"
#include "sim/world.h"

namespace mosaic::sim {

using launch::EffectKind;
using launch::Event;
using launch::EventKind;
using launch::Phase;

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr launch::Times kTimes{60'000, 5'000, 10'000, 0};

// What the outer's exit means.
EndReason meaning_of(const OuterExit& exit, bool told_code) {
    if (exit.signal != 0 || exit.code > 128) {
        return EndReason::killed;
    }
    if (exit.code != 0 && !told_code) {
        return EndReason::failed;  // the sandbox's own
    }
    switch (exit.code) {
        case runner_exit::kStopped:
            return EndReason::stopped;
        case runner_exit::kFounderCredentials:
            return EndReason::founder_credentials;
        case runner_exit::kClaimRefused:
            return EndReason::claim_refused;
        case runner_exit::kSessionInvalid:
            return EndReason::session_invalid;
        case runner_exit::kBrokerUnreachable:
            return EndReason::broker_unreachable;
        default:
            return EndReason::failed;
    }
}

}  // namespace

SlotRef Host::ref_of(uint32_t index) const {
    return {index, slots_[index].generation};
}

Host::Slot* Host::find(SlotRef ref) {
    if (ref.index >= slots_.size()) {
        return nullptr;
    }
    Slot& s = slots_[ref.index];
    return s.in_use && s.generation == ref.generation ? &s : nullptr;
}

bool Host::is_taken(uint32_t seat) const {
    const bool early = world_.mutated(Mutation::seat_free_too_early);
    const bool running = std::any_of(slots_.begin(), slots_.end(), [&](const Slot& s) {
        const bool holds = !early || s.state.phase < Phase::ending;
        return holds_seat(s) && holds && s.seat == seat;
    });
    return running || leftovers_.is_taken({seat_name(seat), ""});
}

uint32_t Host::count(uint32_t model) const {
    auto running =
        static_cast<uint32_t>(std::count_if(slots_.begin(), slots_.end(), [&](const Slot& s) {
            return holds_seat(s) && s.model == model;
        }));
    if (!world_.mutated(Mutation::stuck_leftover_not_counted)) {
        running += static_cast<uint32_t>(leftovers_.count("p", "m" + std::to_string(model)));
    }
    return running;
}

uint32_t Host::new_slot(uint32_t seat) {
    auto free = std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.in_use; });
    if (free == slots_.end()) {
        slots_.emplace_back();
        free = slots_.end() - 1;
    }
    const auto index = static_cast<uint32_t>(free - slots_.begin());
    const uint32_t run = world_.truth.begin_run();
    Slot& s = slots_[index];
    s.in_use = true;
    s.run = run;
    s.seat = seat;
    s.model = seat % world_.shape.models;
    s.kind = world_.kinds[seat];
    RunTruth& truth = world_.truth[run];
    truth.seat = s.seat;
    truth.model = s.model;
    truth.in_host = true;
    return index;
}

void Host::begin_run(const Ask& ask) {
    discard_warm(ask.seat, world_.kinds[ask.seat]);
    const uint32_t index = new_slot(ask.seat);
    ++world_.counters.launches;
    Slot& s = slots_[index];
    s.ask = ask.ask;
    s.asked_as = ask.asked_as;
    s.from = ask.from;
    s.caller_run = ask.caller_run;
    world_.truth.seat_starts(s.run);
    world_.clients.begun(ask.ask, s.run);
    const launch::Step first = launch::begin();
    s.state = first.next;
    for (const launch::Effect& effect : first.effects) {
        if (dies_here()) {
            return;
        }
        carry_out(index, effect.kind);
    }
}

void Host::step(const RunEvent& event) {
    Slot* s = find(event.run);
    if (s == nullptr) {
        return;
    }
    const bool is_deadline = event.event.kind == EventKind::deadline;
    if (is_deadline && event.deadline != s->deadline_generation &&
        !world_.mutated(Mutation::old_deadline_counts)) {
        return;  // another timer took its place while it waited in the queue
    }
    if (is_deadline) {
        check_deadline(*s);
    }
    if (event.event.kind == EventKind::authorized && s->state.phase == Phase::authorizing) {
        if (const auto warm = find_warm(*s)) {
            hand_over(event.run.index, *warm);
            return;
        }
    }
    take_step(event.run.index, event.event);
}

void Host::take_step(uint32_t index, const Event& event) {
    Slot& s = slots_[index];
    const bool decided = s.state.facts.condemned;
    world_.note(
        "run event", s.run, static_cast<uint64_t>(s.state.phase), launch::to_string(event.kind));
    const launch::Step next = launch::step(s.state, event);
    s.state = next.next;
    world_.trace.mix((static_cast<uint64_t>(s.state.phase) << 8U) | next.effects.size());
    if (event.kind == EventKind::exited && !decided && s.state.facts.condemned) {
        const EndReason real = meaning_of(s.exit, s.exit.told_code);
        if (s.state.reason != real) {
            world_.fail("the reason is the exit's",
                        "run " + std::to_string(s.run) + " ended " + std::string(to_string(real)) +
                            ", noted " + std::string(to_string(s.state.reason)));
        }
    }
    for (const launch::Effect& effect : next.effects) {
        if (dies_here()) {
            return;
        }
        carry_out(index, effect.kind);
    }
    // Before its claim the host may not know yet whom to kill.
    ++world_.counters.checks;
    if (s.state.phase == Phase::killing && s.state.facts.claimed &&
        world_.truth[s.run].acting > 0) {
        world_.fail("whose time is up is killed", "run " + std::to_string(s.run) + " runs on");
    }
}

// A deadline counts the time in which the host could do something about it.
void Host::check_deadline(const Slot& s) const {
    ++world_.counters.checks;
    const int64_t awake = world_.now - away_ns_ - s.armed_awake;
    if (awake < s.armed_for) {
        world_.fail("a deadline gives its whole time",
                    "run " + std::to_string(s.run) + " had " + std::to_string(awake / kMs) +
                        " ms of " + std::to_string(s.armed_for / kMs));
    }
    const RunTruth& truth = world_.truth[s.run];
    const bool launching = launch::is_launching(s.state.phase);
    if (launching && truth.claimed && world_.now - truth.claimed_at - away_ns_ > 8'000 * kMs) {
        world_.fail("a claim is heard", "run " + std::to_string(s.run) + " claimed long ago");
    }
}

void Host::carry_out(uint32_t index, EffectKind effect) {
    Slot& s = slots_[index];
    world_.note("effect", s.run, static_cast<uint64_t>(effect), launch::to_string(effect));
    switch (effect) {
        case EffectKind::authorize: {
            Pending pending;
            pending.slot = ref_of(index);
            pending.request.verb = Verb::authorize;
            pending.request.flag = s.from != From::session;
            pending.request.run = s.caller_run;
            ask_broker(launch::RequestKind::authorize, std::move(pending));
            break;
        }
        case EffectKind::enqueue:
            setup_.enter(ref_of(index));
            admit();
            break;
        case EffectKind::prepare:
            prepare(index);
            break;
        case EffectKind::spawn:
            spawn(index);
            break;
        case EffectKind::bind:
            bind(index);
            break;
        case EffectKind::record:
            record(index);
            break;
        case EffectKind::amend:
            amend(index);
            break;
        case EffectKind::deliver:
            deliver(index);
            break;
        case EffectKind::arm_deadline:
            arm_deadline(index);
            break;
        case EffectKind::disarm_deadline:
            ++s.deadline_generation;
            break;
        case EffectKind::term:
            send_term(index);
            break;
        case EffectKind::kill:
            if (!world_.mutated(Mutation::kill_left_out)) {
                kill(s);
            }
            break;
        case EffectKind::leave_setup:
            if (!world_.mutated(Mutation::turn_not_given_back)) {
                give_turn_back(s);
            }
            break;
        case EffectKind::reply_launched:
            if (!world_.mutated(Mutation::launch_not_answered)) {
                world_.truth.reply_launched(s.run);
                answer(s, true);
            }
            break;
        case EffectKind::reply_refused:
            if (!world_.mutated(Mutation::refusal_not_answered)) {
                answer(s, false);
            }
            break;
        case EffectKind::log_launch:
        case EffectKind::log_refused:
            break;
        case EffectKind::log_end:
            if (s.end_first || !world_.mutated(Mutation::end_line_only_when_first)) {
                log_end(s.run);
            }
            break;
        case EffectKind::end_at_broker:
            end_at_broker(index);
            break;
        case EffectKind::unrecord:
            unrecord(index);
            break;
        case EffectKind::discard_files:
            s.discarded = true;
            if (!world_.mutated(Mutation::directory_kept_of_unknown_run) &&
                !(s.state.facts.warm && world_.mutated(Mutation::warm_directory_kept))) {
                remove_directory(s.run);
            }
            break;
        case EffectKind::free_seat:
            free_seat(index);
            break;
    }
}

void Host::admit() {
    const auto still_waits = [&](const SlotRef& ref) {
        const Slot* s = find(ref);
        return s != nullptr && s->state.phase <= Phase::queued;
    };
    while (const auto next = setup_.grant(still_waits)) {
        slots_[next->index].has_turn = true;
        post(*next, EventKind::admitted);
    }
    ++world_.counters.checks;
    const auto in_setup = std::count_if(slots_.begin(), slots_.end(), [](const Slot& s) {
        return s.in_use && s.state.facts.in_setup;
    });
    if (in_setup > world_.shape.setup_in_flight) {
        world_.fail("no more set up than may", std::to_string(in_setup) + " do");
    }
}

void Host::give_turn_back(Slot& s) {
    if (std::exchange(s.has_turn, false)) {
        setup_.give_back();
        admit();
    }
}

void Host::prepare(uint32_t index) {
    Slot& s = slots_[index];
    s.files_fail = world_.now < world_.disk.full_until || world_.fault(world_.faults.files_fail);
    if (!s.files_fail || world_.chance.below(2) == 0) {
        world_.disk.directories.insert(s.run);
        world_.truth[s.run].directory = true;
    }
    ++s.operations;
    world_.wake(world_.us(50, 3'000) * 1000,
                {.kind = Wake::host_op,
                 .sub = static_cast<uint8_t>(HostOp::files),
                 .epoch = world_.host_epoch,
                 .a = index,
                 .b = s.generation});
}

void Host::spawn(uint32_t index) {
    Slot& s = slots_[index];
    s.spawned_at = world_.now;
    const int64_t spawned = world_.sessions.spawn(s.run, s.seat % 4 == 0);
    if (spawned < 0) {
        post(ref_of(index), EventKind::start_failed);
        return;
    }
    s.session = static_cast<uint32_t>(spawned);
    Session& session = world_.sessions.session(s.session);
    session.host_slot = index;
    session.host_generation = s.generation;
    s.outer = session.outer;
    s.status_over = false;
    s.operations += 2;
    post(ref_of(index), EventKind::started);
}

// The number from the status pipe is pinned and checked while the outer still lives.
void Host::find_runner_of(uint32_t index) {
    Slot& s = slots_[index];
    const Session& session = world_.sessions.session(s.session);
    s.runner = session.runner;
    const bool ours = !world_.sessions.exited(s.runner) && !world_.sessions.exited(s.outer);
    if (!ours) {
        s.runner = {};
        kill(s);
        return;
    }
    s.found = true;
    post(ref_of(index), EventKind::runner_found);
}

// Runner, outer, process group: killed alone, an outer that just began leaves its runner alive.
void Host::kill(Slot& s) {
    const bool only_outer = world_.mutated(Mutation::only_outer_killed);
    if (s.found && !only_outer) {
        world_.sessions.kill(s.runner);
    }
    if (s.outer.valid() && !s.reaped) {
        const uint32_t group = world_.sessions.at(s.outer).pid;
        world_.sessions.kill(s.outer);
        if (!only_outer) {
            world_.sessions.kill_group(group);
        }
    }
}

// The reaped outer and the end of its status pipe come in either order.
void Host::report_exit(uint32_t index) {
    Slot& s = slots_[index];
    const bool early = world_.mutated(Mutation::exit_before_status) && !s.exit_reported;
    if (!s.reaped || (!s.status_over && !early) || s.exit_reported) {
        return;
    }
    s.exit_reported = true;
    const EndReason means = meaning_of(s.exit, s.status_over && s.exit.told_code);
    post(ref_of(index), Event{EventKind::exited, Refusal::launch_failed, means});
}

void Host::bind(uint32_t index) {
    const Slot& s = slots_[index];
    const Process& outer = world_.sessions.at(s.outer);
    const Process& runner = world_.sessions.at(s.runner);
    Pending pending;
    pending.slot = ref_of(index);
    pending.request.verb = Verb::bind;
    pending.request.run = s.run;
    pending.request.seat = s.seat;
    pending.request.who = {runner.pid, runner.start, outer.pid, outer.start};
    ask_broker(launch::RequestKind::bind, std::move(pending));
}

registry::SessionEntry Host::entry_of(const Slot& s) const {
    const Process& outer = world_.sessions.at(s.outer);
    const Process& runner = world_.sessions.at(s.runner);
    registry::SessionEntry entry;
    entry.business = "acme";
    entry.seat.instance = seat_name(s.seat);
    entry.run = run_name(s.run);
    entry.run_dir = run_path(s.run);
    entry.process = {
        outer.pid, std::to_string(outer.start), runner.pid, std::to_string(runner.start)};
    entry.harness = "script";
    entry.provider = "p";
    entry.model = "m" + std::to_string(s.model);
    entry.warm = s.state.facts.warm;
    if (!entry.warm) {
        entry.launched_by = "jordan";
        entry.at = "2026-01-31T12:34:56.789Z";
    }
    return entry;
}

void Host::record(uint32_t index) {
    const registry::SessionEntry entry = entry_of(slots_[index]);
    const bool early = entry.warm ? world_.mutated(Mutation::warm_delivered_before_recorded)
                                  : world_.mutated(Mutation::delivered_before_recorded);
    const SlotRef waiter = entry.warm && early ? SlotRef{} : ref_of(index);
    changed(entries_.add(entry.run, registry::dump_entry(entry), Waiter{waiter, {}}));
    if (early) {
        post(ref_of(index), EventKind::recorded);
    }
}

// Nobody waits for it.
void Host::amend(uint32_t index) {
    const registry::SessionEntry entry = entry_of(slots_[index]);
    if (world_.mutated(Mutation::warm_entry_taken_out)) {
        changed(entries_.remove(entry.run, Waiter{{}, {}}));
    }
    changed(entries_.add(entry.run, registry::dump_entry(entry), Waiter{{}, {}}));
}

// In two halves: a pipe takes what it has room for.
void Host::deliver(uint32_t index) {
    Slot& s = slots_[index];
    if (s.cap_written == 0) {
        world_.truth.capability_leaves(s.run);
    }
    ++s.operations;
    const int64_t takes =
        world_.chance.below(64) == 0 ? world_.us(1'000, 50'000) : world_.us(3, 100);
    world_.wake(takes * 1000,
                {.kind = Wake::host_op,
                 .sub = static_cast<uint8_t>(HostOp::stdin_done),
                 .epoch = world_.host_epoch,
                 .a = index,
                 .b = s.generation});
}

void Host::write_capability(uint32_t index) {
    Slot& s = slots_[index];
    const bool half = s.cap_written == 0 && world_.fault(world_.faults.write_short);
    if (half) {
        s.cap_written = 1;
        s.cap_result = 1;
        return;
    }
    s.cap_result = world_.sessions.write_capability(s.session, s.cap);
    s.cap_written = 2;
}

void Host::arm_deadline(uint32_t index) {
    Slot& s = slots_[index];
    launch::Times times = kTimes;
    times.stop_ms = s.stop_ms;
    const Duration after =
        launch::time_for(s.state.phase, times, Duration{world_.now - s.spawned_at});
    ++s.deadline_generation;
    s.deadline_at = world_.now + after.ns;
    s.armed_awake = world_.now - away_ns_;
    s.armed_for = after.ns;
    if (s.state.phase == Phase::binding && after.ns < kTimes.claim_ms * kMs / 4) {
        // The spawn had at most half of it.
        world_.fail("a deadline gives its whole time",
                    "run " + std::to_string(s.run) + " has " + std::to_string(after.ns / kMs) +
                        " ms left to claim");
    }
    set_timer(TimerKind::run_deadline, index, s.deadline_generation, after.ns);
}

void Host::send_term(uint32_t index) {
    Slot& s = slots_[index];
    if (s.found) {
        world_.sessions.term(s.runner);
    }
    if (!std::exchange(s.term_timer, true)) {
        set_timer(TimerKind::run_term, index, s.generation, 1'000 * kMs);
    }
}

void Host::end_at_broker(uint32_t index) {
    const Slot& s = slots_[index];
    if (world_.mutated(Mutation::entry_removed_before_end) && s.state.facts.recorded) {
        changed(entries_.remove(run_name(s.run), Waiter{{}, {}}));
    }
    if (world_.mutated(Mutation::end_never_sent)) {
        post(ref_of(index), EventKind::ended);
        return;
    }
    Pending pending;
    pending.kind = launch::RequestKind::end;
    pending.slot = ref_of(index);
    pending.request.verb = Verb::end;
    pending.request.run = s.run;
    pending.request.seat = s.seat;
    pending.request.reason = s.state.reason;
    send_end(std::move(pending));
}

void Host::unrecord(uint32_t index) {
    if (slots_[index].state.facts.warm && world_.mutated(Mutation::warm_end_sent)) {
        end_at_broker(index);
    }
    changed(entries_.remove(run_name(slots_[index].run), Waiter{ref_of(index), {}}));
}

void Host::free_seat(uint32_t index) {
    Slot& s = slots_[index];
    if (s.state.facts.warm) {
        warm_over(s);
    }
    if (!world_.mutated(Mutation::turn_not_given_back)) {
        give_turn_back(s);
    }
    for (const int64_t asked_as : std::exchange(s.stops, {})) {
        reply_to_broker(asked_as, true, 0);
    }
    if (!s.discarded && s.state.facts.has_files) {
        keep_directory(s.run);
    }
    world_.truth.run_over(s.run);
    // One whose bind was answered as failed was over for the host when a later broker found it.
    if (!world_.truth[s.run].found || s.state.facts.bound) {
        check_has_line(s.run);
    }
}

void Host::check_has_line(uint32_t run) const {
    ++world_.counters.checks;
    const RunTruth& truth = world_.truth[run];
    const bool waits =
        std::find(log_waiting_.begin(), log_waiting_.end(), run) != log_waiting_.end() ||
        std::find(log_under_way_.begin(), log_under_way_.end(), run) != log_under_way_.end();
    if (truth.ended && truth.end_lines == 0 && !waits) {
        world_.fail("every end has its line", "run " + std::to_string(run) + " has none");
    }
}

void Host::on_claimed(uint32_t run) {
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        const Slot& s = slots_[i];
        const bool delivered =
            s.state.phase == Phase::delivering || s.state.phase == Phase::claiming;
        if (s.in_use && s.run == run && delivered) {
            post(ref_of(i), EventKind::claimed);
        }
    }
}

// A session that is stopping already has no more time than the shorter of the two.
int64_t Host::stop_time(const Slot& s, int64_t timeout_ms) const {
    if (s.state.phase != Phase::stopping) {
        return timeout_ms;
    }
    const int64_t left_ms = (s.deadline_at - world_.now) / kMs;
    return std::max<int64_t>(0, std::min(timeout_ms, left_ms));
}

void Host::stop(int64_t asked_as, uint32_t seat, int64_t timeout_ms) {
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        Slot& s = slots_[i];
        if (s.in_use && s.state.phase != Phase::over && !s.state.facts.warm && s.seat == seat) {
            s.stop_asked = true;
            s.stop_ms = stop_time(s, timeout_ms);
            s.stops.push_back(asked_as);
            post(ref_of(i), Event{EventKind::stop, Refusal::launch_failed});
            return;
        }
    }
    reply_to_broker(asked_as, false, 0);
}

void Host::stop_all(int64_t timeout_ms) {
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        Slot& s = slots_[i];
        const bool left = s.state.facts.warm && world_.mutated(Mutation::warm_left_at_stop);
        if (s.in_use && s.state.phase != Phase::over && !left) {
            s.stop_asked = true;
            s.stop_ms = stop_time(s, timeout_ms);
            post(ref_of(i), Event{EventKind::stop, Refusal::host_stopping});
        }
    }
}

void Host::recycle() {
    for (Slot& s : slots_) {
        const bool quiescent = s.operations == 0 || world_.mutated(Mutation::slot_reused_at_once);
        if (!s.in_use || s.state.phase != Phase::over || !quiescent) {
            continue;
        }
        Slot fresh;
        // Timers of this life may still fire: neither number may come again.
        fresh.generation = s.generation + 1;
        fresh.deadline_generation = s.deadline_generation + 1;
        s = std::move(fresh);
    }
}

// ---- run directories and the launch log ----

void Host::remove_directory(uint32_t run) {
    if (world_.disk.directories.count(run) != 0) {
        to_remove_.push_back(run);
        remove_more();
    }
}

void Host::keep_directory(uint32_t run) {
    kept_.push_back(run);
    while (kept_.size() > world_.shape.runs_kept) {
        remove_directory(kept_.front());
        kept_.pop_front();
    }
}

void Host::remove_more() {
    if (removal_busy_ || to_remove_.empty()) {
        return;
    }
    removal_busy_ = true;
    removing_ = std::exchange(to_remove_, {});
    world_.wake(world_.us(500, 20'000) * 1000,
                {.kind = Wake::host_op,
                 .sub = static_cast<uint8_t>(HostOp::removed),
                 .epoch = world_.host_epoch});
}

void Host::log_end(uint32_t run) {
    if (world_.truth[run].warm) {
        world_.fail("what nobody asked for has no end", "run " + std::to_string(run) + " was warm");
    }
    log_waiting_.push_back(run);
    write_log();
}

void Host::write_log() {
    if (log_busy_ || log_failing_) {
        return;
    }
    if (log_under_way_.empty()) {
        log_under_way_ = std::exchange(log_waiting_, {});
    }
    if (!log_under_way_.empty()) {
        log_busy_ = true;
        world_.wake(world_.us(5, 500) * 1000,
                    {.kind = Wake::host_op,
                     .sub = static_cast<uint8_t>(HostOp::log),
                     .epoch = world_.host_epoch});
    }
}

}  // namespace mosaic::sim
