// The loop, its timers, the requests and the end.

#include "sim/host.h"

#include <algorithm>

#include "launch/checks.h"
#include "sim/world.h"

namespace mosaic::sim {

using launch::EventKind;
using launch::Phase;

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr size_t kEventsPerTickMax = 100'000;
constexpr int64_t kStopMs = 10'000;
constexpr int64_t kRecordingMs = 20'000;

}  // namespace

Host::Host(World& world)
    : world_(world),
      setup_(world.mutated(Mutation::any_number_sets_up) ? INT32_MAX
                                                         : world.shape.setup_in_flight) {}

void Host::begin() {
    last_tick_ = world_.now;
    if (!world_.mutated(Mutation::left_not_synced) && world_.disk.sync_left() != 0) {
        dead_ = true;  // it refuses to start
        return;
    }
    ++world_.counters.checks;
    if (!world_.disk.settled()) {
        world_.fail("what a host starts from survives a loss of power",
                    "sessions.json isn't synced");
    }
    auto left = registry::parse_sessions(world_.disk.sessions(), "sessions.json", "acme");
    if (!left) {
        world_.fail("sessions.json can be read", left.error().text);
    }
    left_ = std::move(*left);
    for (const registry::SessionEntry& entry : left_.entries) {
        entries_.adopt(entry.run, registry::dump_entry(entry), left_.boot_id);
    }
    candidates_.assign(world_.disk.directories.begin(), world_.disk.directories.end());
    start_broker();
    plan_tick(world_.now);
}

bool Host::dies_here() {
    if (!dead_ && world_.fault(world_.faults.host_dies)) {
        dead_ = true;
    }
    return dead_;
}

void Host::plan_tick(int64_t at) {
    if (at >= planned_at_) {
        return;
    }
    planned_at_ = at;
    ++tick_number_;
    world_.wake(at - world_.now,
                {.kind = Wake::host_tick,
                 .epoch = world_.host_epoch,
                 .x = static_cast<int64_t>(tick_number_)});
}

void Host::set_timer(TimerKind kind, uint32_t owner, uint32_t generation, int64_t after_ns) {
    const auto later = [](const Timer& a, const Timer& b) {
        return a.at != b.at ? a.at > b.at : a.sequence > b.sequence;
    };
    timers_.push_back({world_.now + after_ns, ++timer_sequence_, kind, owner, generation});
    std::push_heap(timers_.begin(), timers_.end(), later);
}

// An operation completes: what it does to the world happens now, the host learns of it at its next
// tick.
void Host::complete(const Wakeup& op) {
    switch (static_cast<HostOp>(op.sub)) {
        case HostOp::store:
            perform_store_op();
            break;
        case HostOp::log:
            log_result_ = world_.now < world_.disk.full_until ? -1 : 0;
            for (; log_result_ == 0 && !log_under_way_.empty(); log_under_way_.pop_front()) {
                world_.disk.append_end_line(log_under_way_.front());
            }
            break;
        case HostOp::stdin_done:
            write_capability(op.a);
            break;
        case HostOp::removed:
            for (; !removing_.empty(); removing_.pop_front()) {
                world_.truth.directory_removed(removing_.front());
                world_.disk.directories.erase(removing_.front());
            }
            break;
        case HostOp::files:
        case HostOp::status_pid:
        case HostOp::status_over:
        case HostOp::outer_exited:
        case HostOp::leftover_gone:
        case HostOp::broker_exited:
        case HostOp::request:
        case HostOp::signal:
            break;
    }
    done_.push_back(op);
    plan_tick(world_.now + world_.us(2, 40) * 1000);
}

void Host::signal_stop() {
    complete({.kind = Wake::host_op, .sub = static_cast<uint8_t>(HostOp::signal)});
}

// Late past the nearest timer: the process was stopped or the machine asleep, and nobody could meet
// a deadline meanwhile.
void Host::stay_away(int64_t since, int64_t deadline) {
    const int64_t away =
        launch::time_away(Instant{since}, Instant{deadline}, Instant{world_.now}).ns;
    if (away == 0) {
        return;
    }
    away_ns_ += away;
    if (world_.mutated(Mutation::late_tick_not_made_good)) {
        return;
    }
    const int64_t by =
        world_.mutated(Mutation::late_tick_by_its_lateness) ? world_.now - deadline : away;
    for (Timer& timer : timers_) {
        timer.at += by;
    }
    for (Slot& s : slots_) {
        s.deadline_at += by;
        if (!world_.mutated(Mutation::spawn_time_not_made_good)) {
            s.spawned_at += by;
        }
    }
}

void Host::on_tick(const Wakeup& wakeup) {
    if (static_cast<uint64_t>(wakeup.x) != tick_number_) {
        return;
    }
    if (world_.fault(world_.faults.host_stops)) {
        Wakeup again = wakeup;
        world_.wake(world_.us(600'000, 40'000'000) * 1000, again);
        world_.note("host is stopped");
        return;
    }
    planned_at_ = INT64_MAX;
    const int64_t deadline = timers_.empty() ? INT64_MAX : timers_.front().at;
    const std::vector<Wakeup> done = std::exchange(done_, {});
    // Completions before timers: what has happened wins over a deadline that passed meanwhile.
    stay_away(last_tick_, deadline);
    for (const Wakeup& op : done) {
        dispatch(op);
        if (dead_) {
            return;
        }
    }
    while (!world_.broker.to_host.empty() && frames_due_ > 0 && !dead_) {
        on_frame();
    }
    dispatch_timers();
    drain();
    if (dead_ || over()) {
        return;
    }
    last_tick_ = world_.now;
    if (!done_.empty() || frames_due_ > 0) {
        plan_tick(world_.now + world_.us(2, 40) * 1000);
    } else if (!timers_.empty()) {
        plan_tick(std::max(world_.now, timers_.front().at));
    }
}

void Host::frame_is_there() {
    ++frames_due_;
    plan_tick(world_.now + world_.us(2, 40) * 1000);
}

void Host::drain() {
    for (size_t handled = 0; !dead_; ++handled) {
        if (handled > kEventsPerTickMax) {
            world_.fail("a tick ends", "more than " + std::to_string(handled) + " events");
        }
        serve_when_recovered();
        if (!run_events_.empty()) {
            const RunEvent event = run_events_.front();
            run_events_.pop_front();
            step(event);
        } else if (!leftover_events_.empty()) {
            const LeftoverEvent event = leftover_events_.front();
            leftover_events_.pop_front();
            step_leftover(event);
        } else if (!fill_warm()) {
            break;
        }
    }
    if (dead_) {
        return;
    }
    recycle();
    stop_when_over();
}

// The kernel writes into a slot until its operation is over, so that must be the slot's same life.
Host::Slot& Host::living(SlotRef ref) {
    Slot* s = find(ref);
    ++world_.counters.checks;
    if (s == nullptr) {
        world_.fail("an operation ends in the life it began in",
                    "slot " + std::to_string(ref.index) + " is used again");
    }
    return *s;
}

// Of a session's pipes and pidfd.
void Host::dispatch_session(const Wakeup& op) {
    const auto packed = static_cast<uint64_t>(op.x);
    const SlotRef ref{static_cast<uint32_t>(packed >> 32U), static_cast<uint32_t>(packed)};
    Slot& s = living(ref);
    if (static_cast<HostOp>(op.sub) == HostOp::status_pid) {
        find_runner_of(ref.index);
        return;
    }
    --s.operations;
    if (static_cast<HostOp>(op.sub) == HostOp::status_over) {
        s.status_over = true;
        report_exit(ref.index);
        return;
    }
    if (!world_.mutated(Mutation::runner_not_killed_at_exit)) {
        kill(s);
    }
    s.exit = world_.sessions.session(op.a).exit;
    s.reaped = true;
    report_exit(ref.index);
    world_.sessions.reap(s.outer);
}

void Host::on_stdin_done(SlotRef ref) {
    Slot& s = living(ref);
    --s.operations;
    if (s.cap_result > 0) {
        deliver(ref.index);
        return;
    }
    world_.sessions.close_input(s.session);
    post(ref, s.cap_result < 0 ? EventKind::deliver_failed : EventKind::delivered);
    if (world_.mutated(Mutation::answered_before_claim)) {
        post(ref, EventKind::claimed);
    }
}

void Host::dispatch(const Wakeup& op) {
    switch (static_cast<HostOp>(op.sub)) {
        case HostOp::files: {
            Slot& s = living({op.a, op.b});
            --s.operations;
            post({op.a, op.b},
                 s.files_fail
                     ? launch::Event{EventKind::prepare_failed, Refusal::storage_unavailable}
                     : launch::Event{EventKind::prepared});
            return;
        }
        case HostOp::status_pid:
        case HostOp::status_over:
        case HostOp::outer_exited:
            dispatch_session(op);
            return;
        case HostOp::stdin_done:
            on_stdin_done({op.a, op.b});
            return;
        case HostOp::store:
            store_busy_ = false;
            feed({awaited_, store_result_, 0, image_.size()});
            return;
        case HostOp::log:
            log_busy_ = false;
            if (log_result_ < 0) {
                log_failing_ = true;
                set_timer(TimerKind::log_retry, 0, 0, 1'000 * kMs);
            }
            write_log();
            return;
        case HostOp::leftover_gone:
            on_process_gone(op.a);
            return;
        case HostOp::broker_exited:
            if (op.a == broker_epoch_) {
                broker_running_ = false;
                restart_when_quiet();
            }
            return;
        case HostOp::request:
            take_request(op.a);
            return;
        case HostOp::removed:
            removal_busy_ = false;
            remove_more();
            return;
        case HostOp::signal:
            begin_stop();
            return;
    }
}

void Host::dispatch_timers() {
    const auto later = [](const Timer& a, const Timer& b) {
        return a.at != b.at ? a.at > b.at : a.sequence > b.sequence;
    };
    while (!dead_ && !timers_.empty() && timers_.front().at <= world_.now) {
        const Timer timer = timers_.front();
        std::pop_heap(timers_.begin(), timers_.end(), later);
        timers_.pop_back();
        switch (timer.kind) {
            case TimerKind::run_deadline: {
                const Slot& s = slots_[timer.owner];
                const bool old = s.deadline_generation != timer.generation &&
                                 !world_.mutated(Mutation::old_deadline_counts);
                if (s.in_use && !old) {
                    run_events_.push_back({ref_of(timer.owner),
                                           launch::Event{EventKind::deadline},
                                           timer.generation});
                }
                break;
            }
            case TimerKind::run_term: {
                Slot& s = slots_[timer.owner];
                if (s.in_use && s.generation == timer.generation) {
                    s.term_timer = false;
                    if (s.state.phase == Phase::stopping) {
                        send_term(timer.owner);
                    }
                }
                break;
            }
            case TimerKind::leftover_deadline:
                if (leftovers_[timer.owner].state.phase == launch::LeftoverPhase::waiting) {
                    leftover_events_.push_back({timer.owner, launch::LeftoverEvent::deadline});
                }
                break;
            case TimerKind::broker_restart:
                if (timer.generation == restart_generation_ && link_ == Link::down &&
                    !broker_running_ && !stopping_link_) {
                    start_broker();
                }
                break;
            case TimerKind::ends_retry:
                ends_retry_armed_ = false;
                if (link_ == Link::ready) {
                    send_ends();
                }
                break;
            case TimerKind::store_retry:
                feed({registry::StoreEventKind::retry_due, 0, 0, 0});
                break;
            case TimerKind::log_retry:
                log_failing_ = false;
                write_log();
                break;
            case TimerKind::warm_retry:
                break;
            case TimerKind::stop_all:
                // Not everything could be ended in time: the next host does it.
                dead_ = true;
                break;
        }
    }
}

// ---- requests ----

// A session's: who calls is decided at accept, and its capability must be what was delivered.
void Host::take_request(uint32_t ask) {
    if (!world_.clients.is_open(ask)) {
        return;  // its session is gone
    }
    const AskRecord& record = world_.clients.record(ask);
    const Session& caller = world_.sessions.session(record.session);
    const bool known = std::any_of(slots_.begin(), slots_.end(), [&](const Slot& s) {
        return s.in_use && s.found && s.state.facts.alive && s.runner == caller.runner &&
               s.cap_hash != 0 && s.cap_hash == caller.cap;
    });
    const Ask request{From::session, record.seat, ask, 0, caller.run};
    if (world_.fault(world_.faults.bad_requests)) {
        answer(request, false, 0, Refusal::bad_request);
    } else if (!known) {
        answer(request, false, 0, Refusal::unknown_capability);
    } else {
        consider(request);
    }
}

void Host::consider(const Ask& ask) {
    if (state_ >= State::stopping) {
        refuse(ask, Refusal::host_stopping);
        return;
    }
    if (state_ < State::serving && !world_.mutated(Mutation::served_before_recovered)) {
        waiting_.push_back(ask);
        return;
    }
    const uint32_t model = ask.seat % world_.shape.models;
    launch::CheckFacts facts;
    facts.listed = ask.seat != 0 || ask.from != From::session;
    facts.seat_free = !is_taken(ask.seat) || world_.mutated(Mutation::seat_not_checked);
    facts.has_contract = world_.chance.below(512) != 0;
    if (world_.chance.below(512) == 0) {
        facts.sandbox = Refusal::sandbox_unavailable;
    }
    facts.has_room =
        count(model) < world_.shape.model_max || world_.mutated(Mutation::capacity_not_counted);
    if (const auto refusal = launch::first_refusal(facts)) {
        refuse(ask, *refusal);
        return;
    }
    begin_run(ask);
}

void Host::refuse(const Ask& ask, Refusal code) {
    answer(ask, false, 0, code);
}

void Host::answer(const Slot& s, bool ok) {
    answer({s.from, s.seat, s.ask, s.asked_as, 0}, ok, s.run, s.state.refusal);
}

void Host::answer(const Ask& ask, bool ok, uint32_t run, Refusal refusal) {
    if (!ok) {
        ++world_.counters.refused;
    }
    if (ask.from == From::human) {
        reply_to_broker(ask.asked_as, ok, ok ? run : 0);
    } else {
        world_.clients.answered(ask.ask, ok, ok ? run : 0, refusal);
    }
}

// ---- the end ----

void Host::begin_stop() {
    if (state_ >= State::stopping) {
        return;
    }
    world_.note("host is told to end");
    state_ = State::stopping;
    stop_began_ = world_.now;
    const std::deque<Ask> waiting = std::exchange(waiting_, {});
    for (const Ask& ask : waiting) {
        refuse(ask, Refusal::host_stopping);
    }
    stop_all(kStopMs);
    set_timer(TimerKind::stop_all, 0, 0, (kStopMs + kRecordingMs) * kMs);
}

void Host::stop_when_over() {
    const bool active = std::any_of(slots_.begin(), slots_.end(), [&](const Slot& s) {
        const bool left = s.state.facts.warm && world_.mutated(Mutation::warm_left_at_stop);
        return s.in_use && s.state.phase != Phase::over && !left;
    });
    const bool early = world_.mutated(Mutation::stopped_with_ends_waiting);
    const bool recorded = requests_.ends_waiting() == 0 && store_.quiet() && !entries_.waiting() &&
                          log_waiting_.empty() && log_under_way_.empty();
    if (state_ == State::stopping && (!active || early) && (recorded || early)) {
        check_ends_recorded();
        state_ = State::finishing;
        stopping_link_ = true;
        if (world_.broker.alive()) {
            world_.broker.finish();
        }
    }
    if (state_ == State::finishing && !broker_running_) {
        state_ = State::over;
        check_nothing_left();
    }
}

// A stop that isn't cut short waits for what it asked the broker to end, also when it interrupted a
// recovery.
void Host::check_ends_recorded() const {
    ++world_.counters.checks;
    for (const uint32_t run : ends_asked_) {
        if (world_.broker.holds_run(run)) {
            world_.fail("a stop waits for the ends",
                        "run " + std::to_string(run) + " is bound at the broker");
        }
    }
}

// A host that ended by itself with 0 has left nothing to the next, but what a broker that started
// during its stop found of a commit that was answered as failed: nobody is asked any more then.
void Host::check_nothing_left() {
    ++world_.counters.checks;
    const bool recovered = recovery_begun_ && leftovers_.over();
    if (recovered && world_.sessions.alive_sessions() > 0) {
        world_.fail("a host that ended leaves nothing", "a session is alive");
    }
    if (recovered && world_.broker.holds_more_than_found(stop_began_)) {
        world_.fail("a host that ended leaves nothing",
                    "the broker holds" + world_.broker.describe_live());
    }
}

// What was submitted to the kernel may or may not have happened when its host died.
void Host::settle_operations() {
    if (store_busy_ && world_.chance.below(2) == 0) {
        perform_store_op();
    }
    if (log_busy_ && world_.now >= world_.disk.full_until) {
        size_t written = world_.chance.below(static_cast<uint32_t>(log_under_way_.size()) + 1);
        for (; written > 0; --written, log_under_way_.pop_front()) {
            world_.disk.append_end_line(log_under_way_.front());
        }
    }
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        const Phase phase = slots_[i].state.phase;
        if (slots_[i].in_use && phase == Phase::delivering && slots_[i].operations > 2 &&
            world_.chance.below(2) == 0) {
            write_capability(i);
        }
    }
}

std::string Host::unrest() const {
    for (const Slot& s : slots_) {
        if (s.in_use) {
            return "run " + std::to_string(s.run) + " is " +
                   std::string(launch::to_string(s.state.phase));
        }
    }
    if (!serving()) {
        return "the host isn't serving";
    }
    if (!leftovers_.over()) {
        return "a leftover isn't over";
    }
    if (setup_.taken() != 0) {
        return std::to_string(setup_.taken()) + " turns to set up are out";
    }
    if (requests_.ends_waiting() != 0) {
        return "an ending waits";
    }
    if (!store_.quiet() || entries_.waiting() || entries_.size() != 0) {
        return "sessions.json isn't at rest, or not empty";
    }
    if (!log_waiting_.empty() || !log_under_way_.empty()) {
        return "the launch log isn't written";
    }
    if (!to_remove_.empty() || !removing_.empty()) {
        return "directories are being removed";
    }
    return "";
}

std::string Host::describe() const {
    std::string out = "host " + std::to_string(world_.host_epoch) + ", state " +
                      std::to_string(static_cast<int>(state_)) + ", link " +
                      std::to_string(static_cast<int>(link_)) + ", turns out " +
                      std::to_string(setup_.taken()) + "\n";
    for (size_t i = 0; i < slots_.size(); ++i) {
        const Slot& s = slots_[i];
        if (s.in_use) {
            const launch::Facts& f = s.state.facts;
            out += "  slot " + std::to_string(i) + ": run " + std::to_string(s.run) + " seat " +
                   std::to_string(s.seat) + " " + std::string(launch::to_string(s.state.phase)) +
                   (f.in_setup ? " in_setup" : "") + (f.alive ? " alive" : "") +
                   (f.bound ? " bound" : "") + (f.recorded ? " recorded" : "") +
                   (f.claimed ? " claimed" : "") + (f.replied ? " replied" : "") +
                   (f.condemned ? " condemned" : "") + (f.cancelled ? " cancelled" : "") + "\n";
        }
    }
    for (uint32_t i = 0; i < leftovers_.size(); ++i) {
        out += "  leftover " + leftovers_[i].run + " " +
               std::string(launch::to_string(leftovers_[i].state.phase)) + "\n";
    }
    return out;
}

}  // namespace mosaic::sim
