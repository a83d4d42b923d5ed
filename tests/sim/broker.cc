#include "sim/broker.h"

#include <algorithm>

#include "sim/host.h"
#include "sim/world.h"

namespace mosaic::sim {
namespace {

constexpr size_t kTurnMax = 64;
constexpr uint32_t kUnsyncedCommits = 16;

bool is_hosts(Verb verb) {
    return verb <= Verb::reply;
}

bool is_sessions(Verb verb) {
    return verb >= Verb::claim && verb <= Verb::ack;
}

}  // namespace

// ---- its life ----

void Broker::start() {
    ++epoch_;
    alive_ = true;
    up_ = false;
    configured_ = false;
    finishing_ = false;
    mailboxes_.resize(world_.shape.seats);
    world_.note("broker starts", 0, epoch_);
    world_.wake(world_.us(500, 20'000) * 1000, {.kind = Wake::broker_up, .epoch = epoch_});
}

void Broker::on_up() {
    if (world_.fault(world_.faults.broker_wont_start)) {
        die();
        return;
    }
    for (const auto& [run, after] : ghost_) {
        set(run, after);
        world_.note("broker finds an old commit", run);
        world_.truth[run].found = true;
        world_.truth[run].found_at = world_.now;
        tell_truth(run);
    }
    ghost_.clear();
    up_ = true;
    plan_turn();
}

void Broker::die() {
    if (!alive_) {
        return;
    }
    world_.note("broker dies", 0, epoch_);
    alive_ = false;
    up_ = false;
    configured_ = false;
    turn_planned_ = false;
    in_turn_ = false;
    undo(undo_);
    frames_.clear();
    input_.clear();
    outcomes_.clear();
    forwarded_.clear();
    next_forward_ = 1;
    last_frame_at_ = 0;
    world_.sessions.broker_died();
    world_.clients.broker_died(epoch_);
    if (world_.host_lives()) {
        ++world_.counters.broker_deaths;
        // What it sent is in the socket; the end of file comes after it.
        send_to_host({.kind = ToHost::Kind::end_of_file});
        world_.wake(world_.us(10, 500) * 1000,
                    {.kind = Wake::host_op,
                     .sub = static_cast<uint8_t>(HostOp::broker_exited),
                     .epoch = world_.host_epoch,
                     .a = epoch_});
    }
}

void Broker::finish() {
    finishing_ = true;
    plan_turn();
}

void Broker::machine_died() {
    undo(unsynced_);
    unsynced_commits_ = 0;
}

bool Broker::dies_here() {
    if (!world_.fault(world_.faults.broker_dies)) {
        return false;
    }
    die();
    return true;
}

// ---- its input ----

void Broker::from_host(ToBroker request) {
    if (!alive_) {
        return;
    }
    frames_.push_back(std::move(request));
    last_frame_at_ = std::max(last_frame_at_, world_.now + world_.us(3, 60) * 1000);
    world_.wake(last_frame_at_ - world_.now, {.kind = Wake::to_broker_host, .epoch = epoch_});
}

void Broker::on_host_frame() {
    ToBroker request = std::move(frames_.front());
    frames_.pop_front();
    if (request.verb == Verb::reply) {
        const auto found = forwarded_.find(request.id);
        if (found != forwarded_.end()) {
            const uint32_t ask = found->second;
            forwarded_.erase(found);
            world_.clients.answered(ask, request.flag, request.run, Refusal::launch_failed);
        }
        return;
    }
    input_.push_back(std::move(request));
    plan_turn();
}

void Broker::from_session(ToBroker request) {
    if (alive_) {
        input_.push_back(std::move(request));
        plan_turn();
    }
}

void Broker::from_human(const ToBroker& request) {
    input_.push_back(request);
    plan_turn();
}

void Broker::plan_turn() {
    const bool wanted = !input_.empty() || finishing_;
    if (up_ && wanted && !turn_planned_ && !in_turn_) {
        turn_planned_ = true;
        world_.wake(world_.us(3, 80) * 1000, {.kind = Wake::broker_turn, .epoch = epoch_});
    }
}

// ---- one turn ----

void Broker::on_turn() {
    turn_planned_ = false;
    in_turn_ = true;
    outcomes_.clear();
    undo_.clear();
    for (size_t i = 0; i < kTurnMax && !input_.empty(); ++i) {
        const ToBroker request = std::move(input_.front());
        input_.pop_front();
        outcomes_.push_back(handle(request));
        if (dies_here()) {
            return;
        }
    }
    if (world_.mutated(Mutation::broker_answers_before_commit)) {
        for (const Outcome& outcome : std::exchange(outcomes_, {})) {
            send(outcome);
        }
    }
    if (undo_.empty()) {
        on_commit();
        return;
    }
    const int64_t takes = world_.fault(world_.faults.broker_slow)
                              ? world_.us(1'000'000, 12'000'000)
                              : world_.us(50, world_.shape.fsync_us_max);
    world_.wake(takes * 1000, {.kind = Wake::broker_commit, .epoch = epoch_});
}

std::vector<uint32_t> Broker::changed_runs() const {
    std::vector<uint32_t> runs;
    for (const Undo& one : undo_) {
        if (one.kind == Undo::Kind::run &&
            std::find(runs.begin(), runs.end(), one.run) == runs.end()) {
            runs.push_back(one.run);
        }
    }
    return runs;
}

void Broker::on_commit() {
    // Before the commit is durable, or after it and before anybody was told.
    if (!undo_.empty() && dies_here()) {
        return;
    }
    const bool full = world_.now < world_.disk.full_until;
    const bool failed = !undo_.empty() && (full || world_.fault(world_.faults.commit_fails));
    if (failed) {
        fail_turn();
    } else {
        if (!undo_.empty()) {
            ghost_.clear();
        }
        const std::vector<uint32_t> runs = changed_runs();
        if (world_.mutated(Mutation::broker_commit_not_synced) &&
            ++unsynced_commits_ < kUnsyncedCommits) {
            unsynced_.insert(unsynced_.end(), undo_.begin(), undo_.end());
        } else {
            unsynced_.clear();
            unsynced_commits_ = 0;
        }
        for (const Undo& one : undo_) {
            if (one.kind == Undo::Kind::acked) {
                world_.clients.message_taken(one.message);
            }
        }
        undo_.clear();
        for (const uint32_t run : runs) {
            tell_truth(run);
        }
    }
    std::vector<Outcome> outcomes = std::exchange(outcomes_, {});
    for (const Outcome& outcome : outcomes) {
        if (dies_here()) {
            return;
        }
        send(outcome);
    }
    in_turn_ = false;
    if (failed && !world_.calm && world_.chance.below(8) == 0) {
        die();  // a disk that fails tends to take its users along
        return;
    }
    if (finishing_ && input_.empty() && frames_.empty()) {
        die();
        return;
    }
    plan_turn();
}

// What only reads is answered, what writes is refused.
void Broker::fail_turn() {
    world_.note("commit fails");
    if (world_.mutated(Mutation::broker_keeps_failed_turn)) {
        undo_.clear();
    } else {
        ghost_.clear();
        if (world_.chance.below(2) == 0) {
            for (const uint32_t run : changed_runs()) {
                ghost_.emplace_back(run, runs_[run]);
            }
        }
        undo(undo_);
    }
    for (Outcome& outcome : outcomes_) {
        Outcome again = handle(outcome.request);
        if (!undo_.empty()) {
            undo(undo_);
            again.note_claimed = false;
            again.note_released = false;
            again.forward = false;
            again.to_host.ok = false;
            again.to_host.storage = true;
            again.to_host.refusal = Refusal::storage_unavailable;
            again.to_session.ok = false;
            again.to_session.storage = true;
        }
        outcome = std::move(again);
    }
}

bool Broker::may_find(uint32_t run) const {
    return std::any_of(
        ghost_.begin(), ghost_.end(), [run](const auto& found) { return found.first == run; });
}

void Broker::undo(std::vector<Undo>& log) {
    for (auto one = log.rbegin(); one != log.rend(); ++one) {
        switch (one->kind) {
            case Undo::Kind::run:
                set(one->run, one->before);
                break;
            case Undo::Kind::sent:
                std::erase(mailboxes_[one->to], one->message);
                receivers_.erase(one->message);
                break;
            case Undo::Kind::acked:
                mailboxes_[one->to].push_front(one->message);
                receivers_[one->message] = one->to;
                break;
            case Undo::Kind::switched:
                launches_allowed_ = one->allowed;
                break;
        }
    }
    log.clear();
}

void Broker::set(uint32_t run, const Run& to) {
    std::erase(live_, run);
    if (to.live()) {
        live_.push_back(run);
    }
    if (to.exists) {
        runs_[run] = to;
    } else {
        runs_.erase(run);
    }
}

Broker::Run& Broker::change(uint32_t run) {
    Run& now = runs_[run];
    undo_.push_back({.kind = Undo::Kind::run, .run = run, .before = now});
    return now;
}

const Broker::Run* Broker::find(uint32_t run) const {
    const auto found = runs_.find(run);
    return found == runs_.end() || !found->second.exists ? nullptr : &found->second;
}

// ---- decisions ----

Broker::Outcome Broker::handle(const ToBroker& request) {
    Outcome out;
    out.request = request;
    if (is_hosts(request.verb)) {
        out.answers_host = request.verb != Verb::reply;
        out.to_host.id = request.id;
        handle_host(request, out);
    } else if (is_sessions(request.verb)) {
        out.answers_session = true;
        out.to_session = {.verb = request.verb, .session = request.session, .life = request.life};
        handle_session(request, out);
    } else if (request.verb == Verb::switch_launches) {
        undo_.push_back({.kind = Undo::Kind::switched, .allowed = launches_allowed_});
        launches_allowed_ = request.flag;
    } else {
        out.forward = true;
    }
    return out;
}

void Broker::handle_host(const ToBroker& request, Outcome& out) {
    switch (request.verb) {
        case Verb::config:
            configured_ = true;
            out.to_host.ok = true;
            return;
        case Verb::bound:
            list_bound(request, out);
            return;
        case Verb::authorize: {
            const Run* caller = find(request.run);
            out.to_host.ok =
                request.flag || (launches_allowed_ && caller != nullptr && caller->holds());
            out.to_host.refusal =
                launches_allowed_ ? Refusal::not_authorized : Refusal::launch_revoked;
            return;
        }
        case Verb::bind:
            bind(request, out);
            return;
        case Verb::end:
            end(request, out);
            return;
        case Verb::refuse:
        case Verb::reply:
        case Verb::claim:
        case Verb::release:
        case Verb::send:
        case Verb::receive:
        case Verb::ack:
        case Verb::launch:
        case Verb::stop:
        case Verb::switch_launches:
        case Verb::human_send:
            return;
    }
}

void Broker::list_bound(const ToBroker& request, Outcome& out) {
    out.to_host.ok = true;
    for (const uint32_t run : live_) {
        const Run& one = runs_[run];
        if (world_.mutated(Mutation::broker_lists_claimed_only) && !one.claimed) {
            continue;
        }
        out.to_host.bound.push_back({run, one.seat, one.who, one.holds()});
    }
    for (const uint32_t run : request.runs) {
        if (find(run) != nullptr) {
            out.to_host.known.push_back(run);
        }
    }
}

void Broker::bind(const ToBroker& request, Outcome& out) {
    if (const Run* known = find(request.run)) {
        const bool same = known->seat == request.seat && known->who == request.who;
        if (known->ended || !same || known->claimed) {
            return;
        }
        Run& run = change(request.run);
        run.cap = next_cap_++;
        out.to_host.ok = true;
        out.to_host.cap = run.cap;
        return;
    }
    for (const uint32_t other : live_) {
        const Run& run = runs_[other];
        const bool same_runner =
            run.who.pid == request.who.pid && run.who.start == request.who.start;
        if (run.seat == request.seat || same_runner) {
            return;
        }
    }
    Run& run = change(request.run);
    run.exists = true;
    run.bound = true;
    run.seat = request.seat;
    run.who = request.who;
    run.cap = next_cap_++;
    live_.push_back(request.run);
    out.to_host.ok = true;
    out.to_host.cap = run.cap;
}

void Broker::end(const ToBroker& request, Outcome& out) {
    const Run* known = find(request.run);
    if (known == nullptr && world_.mutated(Mutation::broker_refuses_unknown_end)) {
        return;
    }
    out.to_host.ok = true;
    if (known != nullptr && known->ended && !world_.mutated(Mutation::broker_end_recorded_twice)) {
        out.to_host.first = false;
        out.to_host.reason = known->reason;
        return;
    }
    Run& run = change(request.run);
    run.exists = true;
    run.seat = request.seat;
    run.ended = true;
    run.reason = request.reason;
    run.cap = 0;
    run.released =
        run.released || (run.claimed && !world_.mutated(Mutation::broker_end_keeps_role));
    std::erase(live_, request.run);
    out.to_host.first = true;
    out.to_host.reason = request.reason;
}

void Broker::handle_session(const ToBroker& request, Outcome& out) {
    const Run* run = find(request.run);
    const bool alive = run != nullptr && run->live() && run->cap == request.cap;
    if (!alive && !world_.mutated(Mutation::broker_accepts_anybody)) {
        return;
    }
    if (run == nullptr) {
        return;
    }
    switch (request.verb) {
        case Verb::claim:
            claim(request, *run, out);
            return;
        case Verb::release:
            out.to_session.ok = run->claimed;
            if (run->claimed && !run->released) {
                change(request.run).released = true;
                out.note_released = true;
            }
            return;
        case Verb::send:
        case Verb::receive:
        case Verb::ack:
            mail(request, *run, out);
            return;
        case Verb::config:
        case Verb::bound:
        case Verb::authorize:
        case Verb::bind:
        case Verb::end:
        case Verb::refuse:
        case Verb::reply:
        case Verb::launch:
        case Verb::stop:
        case Verb::switch_launches:
        case Verb::human_send:
            return;
    }
}

void Broker::claim(const ToBroker& request, const Run& run, Outcome& out) {
    if (run.released) {
        return;
    }
    for (const auto& [other, state] : runs_) {
        // Any that still counts as a holder: one look-up in the product's store. The order of the
        // map doesn't matter to the answer.
        if (other != request.run && state.seat == run.seat && state.claimed && !state.released) {
            return;
        }
    }
    out.to_session.ok = true;
    out.note_claimed = true;
    if (!run.claimed) {
        change(request.run).claimed = true;
    }
}

void Broker::mail(const ToBroker& request, const Run& run, Outcome& out) {
    if (!run.holds()) {
        return;
    }
    out.to_session.ok = true;
    if (request.verb == Verb::send) {
        const uint64_t number = next_message_++;
        undo_.push_back({.kind = Undo::Kind::sent, .message = number, .to = request.ask});
        mailboxes_[request.ask].push_back(number);
        receivers_[number] = request.ask;
        out.to_session.message = number;
        return;
    }
    std::deque<uint64_t>& mailbox = mailboxes_[run.seat];
    if (request.verb == Verb::receive) {
        out.to_session.message = mailbox.empty() ? 0 : mailbox.front();
        if (world_.mutated(Mutation::broker_drops_unacked_message) && !mailbox.empty()) {
            receivers_.erase(mailbox.front());
            mailbox.pop_front();
        }
        return;
    }
    if (!mailbox.empty() && mailbox.front() == request.message) {
        undo_.push_back({.kind = Undo::Kind::acked, .message = request.message, .to = run.seat});
        mailbox.pop_front();
        receivers_.erase(request.message);
    }
    out.to_session.message = request.message;
}

// ---- its output ----

// What a commit made durable, for the ledger.
void Broker::tell_truth(uint32_t number) {
    const Run* now = find(number);
    RunTruth& truth = world_.truth[number];
    if (now == nullptr) {
        return;
    }
    truth.bound = truth.bound || now->bound;
    if (now->claimed && !truth.claimed) {
        world_.truth.claim_committed(number);
    }
    truth.released = truth.released || now->released;
    if (now->ended) {
        world_.truth.end_committed(number, now->reason);
    }
    uint32_t holders = 0;
    for (const auto& [other, run] : runs_) {
        holders += run.seat == now->seat && run.claimed && !run.released ? 1U : 0U;
    }
    ++world_.counters.checks;
    if (holders > 1) {
        world_.fail("one holder a role", "seat " + std::to_string(now->seat) + " has two");
    }
}

void Broker::send(const Outcome& outcome) {
    if (outcome.answers_session) {
        const ToSession& reply = outcome.to_session;
        ++world_.counters.checks;
        if (outcome.request.flag && reply.ok) {
            world_.fail("only its own capability acts for a run",
                        "run " + std::to_string(outcome.request.run) + " used another");
        }
        if (reply.ok && reply.verb == Verb::send) {
            world_.clients.message_acknowledged(reply.message);
        }
        const uint64_t bits = (reply.message << 8U) | (static_cast<uint64_t>(reply.verb) << 2U) |
                              (reply.storage ? 2U : 0U) | (reply.ok ? 1U : 0U);
        world_.wake(world_.us(3, 80) * 1000,
                    {.kind = Wake::session,
                     .sub = static_cast<uint8_t>(Step::reply),
                     .a = reply.session,
                     .b = reply.life,
                     .x = static_cast<int64_t>(bits)});
    }
    if (outcome.note_claimed) {
        send_to_host({.kind = ToHost::Kind::claimed, .run = outcome.request.run});
    }
    if (outcome.note_released) {
        send_to_host({.kind = ToHost::Kind::released, .run = outcome.request.run});
    }
    if (outcome.forward) {
        const int64_t id = next_forward_++;
        forwarded_[id] = outcome.request.ask;
        ToHost frame;
        frame.kind = outcome.request.verb == Verb::stop ? ToHost::Kind::stop : ToHost::Kind::launch;
        frame.id = id;
        frame.seat = outcome.request.seat;
        frame.run = outcome.request.ask;
        frame.timeout_ms = outcome.request.timeout_ms;
        send_to_host(std::move(frame));
    }
    if (outcome.answers_host) {
        send_to_host(outcome.to_host);
    }
    if (outcome.request.verb == Verb::end && outcome.to_host.ok && outcome.to_host.first) {
        world_.sessions.close_connection(outcome.request.run);
    }
}

void Broker::send_to_host(ToHost frame) {
    if (!world_.host_lives()) {
        return;
    }
    to_host.push_back(std::move(frame));
    last_to_host_at = std::max(last_to_host_at, world_.now + world_.us(3, 60) * 1000);
    world_.wake(last_to_host_at - world_.now, {.kind = Wake::to_host, .epoch = world_.host_epoch});
}

// ---- for the rest of the world ----

bool Broker::lets_in(uint32_t run, const Who& who) const {
    const Run* known = find(run);
    return alive_ && configured_ && known != nullptr && known->live() &&
           known->who.pid == who.pid && known->who.start == who.start;
}

bool Broker::holds(uint64_t message) const {
    return receivers_.find(message) != receivers_.end();
}

std::string Broker::describe_live() const {
    std::string out;
    for (const uint32_t run : live_) {
        out += " " + std::to_string(run);
    }
    return out;
}

bool Broker::holds_run(uint32_t run) const {
    return std::find(live_.begin(), live_.end(), run) != live_.end();
}

bool Broker::holds_more_than_found(int64_t since) const {
    return std::any_of(live_.begin(), live_.end(), [&](uint32_t run) {
        const RunTruth& truth = world_.truth[run];
        return !truth.found || truth.found_at < since;
    });
}

bool Broker::plant_second_holder() {
    for (const uint32_t run : live_) {
        if (!runs_[run].holds() || in_turn_) {
            continue;
        }
        Run second = runs_[run];
        const uint32_t number = world_.truth.begin_run();
        world_.truth[number].seat = second.seat;
        set(number, second);
        tell_truth(number);
        return true;
    }
    return false;
}

}  // namespace mosaic::sim
