#include "host/runs.h"

#include <algorithm>
#include <csignal>
#include <thread>

#include "base/assert.h"
#include "base/crash_point.h"
#include "host/capability.h"
#include "host/failure.h"
#include "host/log.h"
#include "process/pidfd.h"
#include "registry/launch_log.h"
#include "wire/limits.h"

// The pool, the queue for set-up, and what doesn't touch processes. run_processes.cc has the rest
// of the effects, run_groups.cc the end of control groups.

namespace mosaic::host {

using launch::EffectKind;
using launch::Event;
using launch::EventKind;
using launch::Phase;

namespace {

constexpr Duration kTermAgain = seconds(1);

// A run that somebody asked for. A warm seat holds nothing yet.
bool counts(const RunSlot& s) {
    return s.in_use && s.state.phase != Phase::over && !s.state.facts.warm;
}

// A warm seat that hasn't been told to end.
bool is_warm(const RunSlot& s) {
    return s.in_use && s.state.facts.warm && s.state.phase < Phase::live && !s.stop_asked;
}

}  // namespace

Runs::Runs(RunParts parts) : parts_(std::move(parts)) {
    set_limits(parts_.limits);
}

void Runs::set_limits(const config::Limits& limits) {
    parts_.limits = limits;
    if (parts_.limits.setup_in_flight == 0) {
        const int64_t cores = std::max(1U, std::thread::hardware_concurrency());
        parts_.limits.setup_in_flight = 2 * cores;
    }
    setup_.set_most(parts_.limits.setup_in_flight);
}

SlotRef Runs::ref_of(uint32_t index) const {
    return {index, slots_[index]->generation};
}

RunSlot* Runs::find(SlotRef ref) {
    if (ref.index >= slots_.size()) {
        return nullptr;
    }
    RunSlot& s = slot(ref.index);
    return s.in_use && s.generation == ref.generation ? &s : nullptr;
}

int64_t Runs::count() const {
    return std::count_if(slots_.begin(), slots_.end(), [](const auto& s) { return counts(*s); });
}

std::set<std::string> Runs::bound() const {
    std::set<std::string> out;
    for (const auto& s : slots_) {
        if (s->in_use && s->state.facts.bound) {
            out.insert(s->run);
        }
    }
    return out;
}

size_t Runs::active() const {
    return static_cast<size_t>(std::count_if(slots_.begin(), slots_.end(), [](const auto& s) {
        const bool unreaped = s->outer_pidfd.valid() && !s->reaped;
        return s->in_use && (s->state.phase != Phase::over || unreaped);
    }));
}

bool Runs::is_taken(const Seat& seat) const {
    return std::any_of(slots_.begin(), slots_.end(), [&](const auto& s) {
        return counts(*s) && s->plan.seat == seat;
    });
}

int64_t Runs::count(const std::string& provider, const std::string& model) const {
    return std::count_if(slots_.begin(), slots_.end(), [&](const auto& s) {
        return counts(*s) && s->plan.route.provider == provider && s->plan.route.model == model;
    });
}

int64_t Runs::count_account(const std::string& account) const {
    return std::count_if(slots_.begin(), slots_.end(), [&](const auto& s) {
        return counts(*s) && s->plan.account == account;
    });
}

std::optional<SlotRef> Runs::find_runner(int64_t pid, const std::string& start) const {
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        const RunSlot& s = *slots_[i];
        if (s.in_use && s.found && s.process.runner_pid == pid &&
            s.process.runner_start_time == start && s.state.facts.alive && !s.state.facts.warm) {
            return SlotRef{i, s.generation};
        }
    }
    return std::nullopt;
}

const RunSlot* Runs::find_capability(SlotRef run, const std::string& hash) const {
    if (run.index >= slots_.size()) {
        return nullptr;
    }
    const RunSlot& s = *slots_[run.index];
    const bool alive = s.in_use && s.generation == run.generation && s.state.facts.alive;
    return alive && !s.capability_hash.empty() && s.capability_hash == hash ? &s : nullptr;
}

uint32_t Runs::new_slot(Plan plan) {
    auto free =
        std::find_if(slots_.begin(), slots_.end(), [](const auto& s) { return !s->in_use; });
    if (free == slots_.end()) {
        slots_.push_back(std::make_unique<RunSlot>());
        free = slots_.end() - 1;
    }
    const auto index = static_cast<uint32_t>(free - slots_.begin());
    RunSlot& s = **free;
    s.in_use = true;
    s.plan = std::move(plan);
    s.run = s.plan.run_dir.substr(s.plan.run_dir.rfind('/') + 1);
    own(s.files_op, Owner::run_files, index);
    own(s.exec_op, Owner::run_exec, index);
    own(s.exit_op, Owner::run_exit, index);
    own(s.status_op, Owner::run_status, index);
    own(s.stdin_op, Owner::run_stdin, index);
    return index;
}

void Runs::begin(Ask ask, Plan plan) {
    if (!plan.fit.empty()) {
        // The checks looked at the world just now, so what differs is of yesterday's.
        discard_warm(plan.seat.instance, plan.fit, INT64_MAX);
    }
    const uint32_t index = new_slot(std::move(plan));
    RunSlot& s = slot(index);
    s.caller = std::move(ask.caller);
    s.asked_at = ask.at;
    s.stage_at[static_cast<size_t>(Stage::checked)] = parts_.loop.now;
    const launch::Step first = launch::begin();
    s.state = first.next;
    carry_out(index, first);
}

// ---- warm seats ----

bool Runs::may_warm() const {
    return std::none_of(slots_.begin(), slots_.end(), [](const auto& s) {
        const bool waits_for_word = s->state.phase == Phase::authorizing;
        const bool is_taken = s->was_warm && launch::is_launching(s->state.phase);
        const bool in_setup = s->state.facts.warm && s->state.facts.in_setup;
        return s->in_use && (waits_for_word || is_taken || in_setup);
    });
}

bool Runs::begin_warm(Plan plan) {
    if (!setup_.grant_spare([&](const SlotRef& ref) { return waits_for_turn(ref); })) {
        return false;
    }
    const uint32_t index = new_slot(std::move(plan));
    RunSlot& s = slot(index);
    s.has_turn = true;
    const launch::Step first = launch::begin_warm();
    s.state = first.next;
    carry_out(index, first);
    return true;
}

void Runs::discard_warm(const std::string& instance, const std::string& fit, int64_t most) {
    int64_t kept = 0;
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        const RunSlot& s = slot(i);
        if (!is_warm(s) || s.plan.seat.instance != instance) {
            continue;
        }
        if (s.plan.fit == fit && kept < most) {
            ++kept;
            continue;
        }
        log_line("warm seat " + s.run + " of " + instance + " is thrown away: " +
                 (s.plan.fit == fit ? "it is one too many" : "it would be made otherwise today"));
        ask_to_stop(i, Refusal::launch_failed, "it is thrown away");
    }
}

std::set<std::string> Runs::warm_instances() const {
    std::set<std::string> out;
    for (const auto& s : slots_) {
        if (is_warm(*s)) {
            out.insert(s->plan.seat.instance);
        }
    }
    return out;
}

// The one that has waited longest is no better than another, so the first found will do.
std::optional<uint32_t> Runs::find_warm(const RunSlot& launch) const {
    if (launch.plan.fit.empty() || launch.stop_asked) {
        return std::nullopt;
    }
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        const RunSlot& s = *slots_[i];
        if (is_warm(s) && s.state.phase == Phase::warm && s.plan.fit == launch.plan.fit &&
            s.plan.seat == launch.plan.seat && !process::has_exited(s.outer_pidfd.get()) &&
            !process::has_exited(s.runner_pidfd.get())) {
            return i;
        }
    }
    return std::nullopt;
}

// The operations of a slot can't be moved, so it is the warm seat's slot that becomes the run. The
// launch's is over in the same step: its seat and its room are held by one of the two throughout.
void Runs::hand_over(uint32_t from, uint32_t to) {
    RunSlot& launch = slot(from);
    RunSlot& seat = slot(to);
    seat.was_warm = true;
    seat.caller = launch.caller;
    seat.plan.launched_by = launch.plan.launched_by;
    seat.asked_at = launch.asked_at;
    seat.spawned_at = parts_.loop.awake();
    // What was done before anybody asked took the launch no time.
    seat.stage_at.fill(launch.asked_at);
    for (const Stage stage : {Stage::checked, Stage::authorized}) {
        seat.stage_at[static_cast<size_t>(stage)] = launch.stage_at[static_cast<size_t>(stage)];
    }
    warm_news_.push_back({WarmNews::Kind::taken, seat.plan.seat.instance, "", {}});
    take_step(to, Event{EventKind::taken});
    take_step(from, Event{EventKind::handed_over});
}

void Runs::tell_warm(const RunSlot& s) {
    const auto kind = s.stop_asked ? WarmNews::Kind::discarded : WarmNews::Kind::failed;
    const bool spawned = s.spawned_at.ns != 0;
    warm_news_.push_back({kind,
                          s.plan.seat.instance,
                          std::string(launch::to_string(s.state.failed_in)) + ": " + s.failure,
                          spawned ? parts_.loop.awake() - s.spawned_at : Duration{}});
}

std::optional<WarmNews> Runs::take_warm_news() {
    if (warm_news_.empty()) {
        return std::nullopt;
    }
    WarmNews news = std::move(warm_news_.front());
    warm_news_.pop_front();
    return news;
}

void Runs::stamp(RunSlot& s, EventKind event) const {
    const auto mark = [&](Stage stage) {
        s.stage_at[static_cast<size_t>(stage)] = parts_.loop.now;
    };
    if (event == EventKind::authorized) {
        mark(Stage::authorized);
    } else if (event == EventKind::prepared) {
        mark(Stage::prepared);
    } else if (event == EventKind::runner_found) {
        mark(Stage::spawned);
    } else if (event == EventKind::bound) {
        mark(Stage::bound);
    } else if (event == EventKind::recorded) {
        mark(Stage::persisted);
    } else if (event == EventKind::delivered) {
        mark(Stage::delivered);
    } else if (event == EventKind::claimed) {
        mark(Stage::claimed);
    }
}

void Runs::step(const RunEvent& queued) {
    RunSlot* s = find(queued.run);
    if (s == nullptr) {
        return;
    }
    const bool is_deadline = queued.event.kind == EventKind::deadline;
    if (is_deadline && queued.deadline != s->deadline_generation) {
        return;  // another timer took its place while it waited in the queue
    }
    if (queued.event.kind == EventKind::deadline && s->failure.empty()) {
        s->failure = "nothing came within its time";
    } else if (queued.event.kind == EventKind::broker_lost && s->failure.empty()) {
        s->failure = "the broker went away";
    } else if (queued.event.kind == EventKind::record_failed && s->failure.empty()) {
        s->failure = parts_.store.problem();
    }
    stamp(*s, queued.event.kind);
    if (queued.event.kind == EventKind::authorized && s->state.phase == Phase::authorizing) {
        if (const auto warm = find_warm(*s)) {
            hand_over(queued.run.index, *warm);
            return;
        }
    }
    take_step(queued.run.index, queued.event);
}

void Runs::take_step(uint32_t index, const Event& event) {
    MOSAIC_CRASH_POINT("run", "on", launch::to_string(event.kind));
    RunSlot& s = slot(index);
    const launch::Step next = launch::step(s.state, event);
    s.state = next.next;
    carry_out(index, next);
}

void Runs::carry_out(uint32_t index, const launch::Step& step) {
    for (const launch::Effect& effect : step.effects) {
        carry_out(index, effect.kind);
        MOSAIC_CRASH_POINT("run", "after", launch::to_string(effect.kind));
    }
}

// NOLINTNEXTLINE(readability-function-size): a case for each effect
void Runs::carry_out(uint32_t index, EffectKind effect) {
    RunSlot& s = slot(index);
    switch (effect) {
        case EffectKind::authorize:
            authorize(index);
            break;
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
            parts_.store.amend(entry_of(s));
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
            kill(s);
            break;
        case EffectKind::leave_setup:
            give_turn_back(s);
            break;
        case EffectKind::reply_launched:
            reply_launched(s);
            break;
        case EffectKind::reply_refused:
            answer_refusal(s.caller,
                           s.state.refusal,
                           s.decision,
                           failure_text(s, parts_.limits.setup_wait_ms));
            break;
        case EffectKind::log_launch:
            log_launch(s);
            s.plan.argv = {};
            s.plan.env = {};
            break;
        case EffectKind::log_refused:
            log_refused(s);
            break;
        case EffectKind::log_end:
            log_end(s);
            break;
        case EffectKind::end_at_broker:
            end_at_broker(index);
            break;
        case EffectKind::unrecord:
            parts_.store.remove(s.run, ref_of(index));
            break;
        case EffectKind::discard_files:
            s.discarded = true;
            discarded_.push_back(s.run);
            break;
        case EffectKind::free_seat:
            free_seat(index);
            break;
    }
}

void Runs::authorize(uint32_t index) {
    const RunSlot& s = slot(index);
    if (s.caller.kind == Caller::Kind::session) {
        parts_.broker.authorize(ref_of(index), {s.caller.seat, s.caller.run, s.plan.seat});
    } else {
        parts_.broker.authorize_human(ref_of(index));
    }
}

// Launches set up in the order they were allowed, as many at once as the machine has use for.
void Runs::admit() {
    while (const auto next =
               setup_.grant([&](const SlotRef& ref) { return waits_for_turn(ref); })) {
        slot(next->index).has_turn = true;
        parts_.loop.post(*next, EventKind::admitted);
    }
}

bool Runs::waits_for_turn(SlotRef ref) {
    const RunSlot* s = find(ref);
    return s != nullptr && s->state.phase <= Phase::queued;
}

// Also for a run that ended with its turn granted but not yet taken.
void Runs::give_turn_back(RunSlot& s) {
    if (std::exchange(s.has_turn, false)) {
        setup_.give_back();
        admit();
    }
}

Duration Runs::time_for(const RunSlot& s) const {
    const config::Limits& limits = parts_.limits;
    const launch::Times times{
        limits.setup_wait_ms, limits.runner_pid_ms, limits.claim_ms, s.stop_timeout_ms};
    return launch::time_for(s.state.phase, times, parts_.loop.awake() - s.spawned_at);
}

void Runs::arm_deadline(uint32_t index) {
    RunSlot& s = slot(index);
    const Duration after = time_for(s);
    ++s.deadline_generation;
    s.deadline_at = parts_.loop.awake() + after;
    parts_.loop.set_timer(TimerKind::run_deadline, index, s.deadline_generation, after);
}

// TRAP-21: pid 1 may be deaf while it starts, so SIGTERM is sent again.
void Runs::send_term(uint32_t index) {
    RunSlot& s = slot(index);
    if (s.runner_pidfd.valid()) {
        ignore(process::signal_pidfd(s.runner_pidfd.get(), SIGTERM), "gone is fine");
    }
    if (!std::exchange(s.term_timer, true)) {
        parts_.loop.set_timer(TimerKind::run_term, index, s.generation, kTermAgain);
    }
}

void Runs::on_deadline(uint32_t index, uint32_t generation) {
    if (!awaits_deadline(index, generation)) {
        return;
    }
    const RunSlot& s = slot(index);
    if (s.state.phase == Phase::killing) {
        log_line("run " + s.run + " (" + describe(s.plan.seat) +
                 ") hasn't ended 10 s after SIGKILL; its seat stays taken until it does");
    }
    parts_.loop.post_deadline(ref_of(index), generation);
}

bool Runs::awaits_deadline(uint32_t index, uint32_t generation) const {
    const RunSlot& s = *slots_[index];
    return s.in_use && s.deadline_generation == generation;
}

void Runs::on_term_timer(uint32_t index, uint32_t generation) {
    RunSlot& s = slot(index);
    if (!s.in_use || s.generation != generation) {
        return;
    }
    s.term_timer = false;
    if (s.state.phase == Phase::stopping) {
        send_term(index);
    }
}

// `refusal` and `why` are for who still waits for its launch.
void Runs::ask_to_stop(uint32_t index, Refusal refusal, const std::string& why) {
    RunSlot& s = slot(index);
    if (launch::is_launching(s.state.phase) && s.failure.empty()) {
        s.failure = why;
    }
    s.stop_asked = true;
    parts_.loop.post(ref_of(index), Event{EventKind::stop, refusal});
}

// A session that is stopping already has no more time than the shorter of the two.
int64_t Runs::stop_time(const RunSlot& s, int64_t timeout_ms) const {
    if (s.state.phase != Phase::stopping) {
        return timeout_ms;
    }
    const int64_t left_ms = (s.deadline_at - parts_.loop.awake()).ns / 1'000'000;
    return std::max<int64_t>(0, std::min(timeout_ms, left_ms));
}

void Runs::stop(int64_t request_id, const wire::StopArgs& args) {
    const bool by_run = is_run_id(args.target);
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        RunSlot& s = slot(i);
        const bool matches =
            by_run ? s.run == args.target
                   : !s.state.facts.warm && s.plan.seat == Seat{args.target, args.thread};
        if (s.in_use && s.state.phase != Phase::over && matches) {
            s.stop_timeout_ms = stop_time(s, args.timeout_ms);
            s.stop_requests.push_back(request_id);
            ask_to_stop(i, Refusal::launch_failed, "stopped by " + parts_.human);
            return;
        }
    }
    const std::string what =
        by_run ? "no running session has run id " + args.target
               : "no session of " + describe({args.target, args.thread}) + " is running";
    parts_.broker.reply(wire::reply_error(request_id, to_string(BusError::not_found), what));
}

void Runs::stop_all(int64_t timeout_ms) {
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        RunSlot& s = slot(i);
        if (s.in_use && s.state.phase != Phase::over) {
            s.stop_timeout_ms = stop_time(s, timeout_ms);
            ask_to_stop(i, Refusal::host_stopping, "the host is stopping");
        }
    }
}

void Runs::stop_live(const std::string& run, const std::string& detail) {
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        RunSlot& s = slot(i);
        if (s.in_use && s.run == run && s.state.phase == Phase::live) {
            s.stop_timeout_ms = parts_.limits.stop_timeout_ms;
            s.stop_detail = detail;
            ask_to_stop(i, Refusal::launch_failed, "stopped by the host");
        }
    }
}

Census Runs::census() const {
    Census out;
    for (const auto& s : slots_) {
        if (!s->in_use) {
            continue;
        }
        if (s->state.facts.warm) {
            out.warm += s->state.phase == Phase::warm ? 1U : 0U;
            continue;
        }
        switch (s->state.phase) {
            case Phase::authorizing:
            case Phase::queued:
                ++out.waiting;
                break;
            case Phase::preparing:
            case Phase::spawning:
            case Phase::binding:
            case Phase::persisting:
            case Phase::delivering:
            case Phase::claiming:
                ++out.launching;
                break;
            case Phase::live:
                ++out.live;
                break;
            case Phase::stopping:
            case Phase::killing:
            case Phase::ending:
            case Phase::unrecording:
                ++out.ending;
                break;
            case Phase::warm:
            case Phase::over:
                break;
        }
    }
    return out;
}

std::vector<std::string> Runs::live() const {
    std::vector<std::string> out;
    for (const auto& s : slots_) {
        if (s->in_use && s->state.phase == Phase::live) {
            out.push_back(s->run);
        }
    }
    return out;
}

std::vector<std::string> Runs::stage_dirs() const {
    std::vector<std::string> out;
    for (const auto& s : slots_) {
        if (s->in_use && s->state.phase != Phase::over) {
            out.push_back(s->plan.stage_dir);
        }
    }
    return out;
}

void Runs::on_bound(BrokerNews& news) {
    RunSlot* s = find(news.slot);
    if (s == nullptr || s->state.phase != Phase::binding) {
        wipe(news.cap);
        return;
    }
    if (news.cap.empty()) {
        s->failure = "the broker refused to bind it: " + news.text;
        return;
    }
    wire::CapabilityLine line{std::move(news.cap), s->plan.launched_by};
    s->capability_line = wire::encode(line);
    s->capability_hash = capability_hash(line.cap);
    wipe(line.cap);
    wipe(news.cap);
}

void Runs::on_ended(const BrokerNews& news) {
    RunSlot* s = find(news.slot);
    if (s == nullptr) {
        return;
    }
    s->end_reason = news.end.reason;
    s->end_exit_code = news.end.exit_code;
    s->end_signal = news.end.signal;
    s->end_detail = news.end.detail;
}

std::string Runs::on_decision(const BrokerNews& news) {
    RunSlot* s = find(news.slot);
    if (s == nullptr) {
        return "";
    }
    s->decision = news.decision;
    return s->caller.name;
}

void Runs::on_claimed(const std::string& run) {
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        const RunSlot& s = slot(i);
        const bool delivered =
            s.state.phase == Phase::delivering || s.state.phase == Phase::claiming;
        if (s.in_use && s.run == run && delivered) {
            parts_.loop.post(ref_of(i), EventKind::claimed);
        }
    }
}

std::optional<HumanAnswer> Runs::take_answer() {
    if (answers_.empty()) {
        return std::nullopt;
    }
    HumanAnswer answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
}

std::optional<std::string> Runs::take_discarded() {
    if (discarded_.empty()) {
        return std::nullopt;
    }
    std::string run = std::move(discarded_.front());
    discarded_.pop_front();
    return run;
}

std::optional<std::string> Runs::take_ended() {
    if (ended_.empty()) {
        return std::nullopt;
    }
    std::string run = std::move(ended_.front());
    ended_.pop_front();
    return run;
}

bool Runs::take_sandbox_doubt() {
    return std::exchange(sandbox_doubt_, false);
}

bool Runs::take_went_live() {
    return std::exchange(went_live_, false);
}

void Runs::free_seat(uint32_t index) {
    RunSlot& s = slot(index);
    give_turn_back(s);
    if (s.outer_pidfd.valid() && !s.spawned) {
        kill(s);  // it is still behind its gate
    }
    drop_group(s);
    for (const int64_t request : s.stop_requests) {
        json::Value result(json::Object{{"stopped", true},
                                        {"business", parts_.business},
                                        {"instance", s.plan.seat.instance},
                                        {"run", s.run}});
        parts_.broker.reply(wire::reply_ok(request, std::move(result)));
    }
    s.stop_requests.clear();
    if (s.state.facts.warm) {
        tell_warm(s);
    }
    if (!s.discarded && s.state.facts.has_files) {
        ended_.push_back(s.run);
    }
    parts_.clients.end_of_run(ref_of(index));
}

void Runs::recycle() {
    for (auto& s : slots_) {
        if (!s->in_use || s->state.phase != Phase::over || !s->quiescent()) {
            continue;
        }
        wipe(s->capability_line);
        auto fresh = std::make_unique<RunSlot>();
        // Timers of this life may still fire: neither number may come again.
        fresh->generation = s->generation + 1;
        fresh->deadline_generation = s->deadline_generation + 1;
        s = std::move(fresh);
    }
}

}  // namespace mosaic::host
