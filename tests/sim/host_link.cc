// The broker child and the control pair, as src/host/broker_link.cc keeps them.

#include <algorithm>

#include "sim/host.h"
#include "sim/world.h"

namespace mosaic::sim {

using launch::Event;
using launch::EventKind;
using launch::Phase;
using launch::RequestKind;

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kRestartMsMin = 50;
constexpr int64_t kRestartMsMax = 5'000;

}  // namespace

void Host::start_broker() {
    broker_running_ = true;
    link_ = Link::starting;
    world_.broker.start();
    broker_epoch_ = world_.broker.epoch();
    Pending pending;
    pending.request.verb = Verb::config;
    ask_broker(RequestKind::config, std::move(pending));
}

void Host::arm_restart() {
    if (stopping_link_) {
        return;
    }
    const int64_t delay = std::min(kRestartMsMin << std::min(restarts_, 10U), kRestartMsMax);
    ++restarts_;
    set_timer(TimerKind::broker_restart, 0, ++restart_generation_, delay * kMs);
}

void Host::lose_broker() {
    if (link_ == Link::down) {
        return;
    }
    link_ = Link::down;
    for (const Pending& lost : requests_.lose_broker()) {
        if (lost.kind == RequestKind::authorize) {
            post(lost.slot, Event{EventKind::refused, Refusal::broker_unavailable});
        } else if (lost.kind == RequestKind::bind) {
            post(lost.slot, EventKind::broker_lost);
        }
    }
    if (world_.mutated(Mutation::end_forgotten_with_broker)) {
        static_cast<void>(requests_.take_kept());
    }
    asked_.clear();
    restart_when_quiet();
}

void Host::restart_when_quiet() {
    if (!broker_running_ && link_ == Link::down && !stopping_link_) {
        arm_restart();
    }
}

void Host::ask_broker(RequestKind kind, Pending pending) {
    pending.kind = kind;
    const bool early = kind == RequestKind::config || kind == RequestKind::bound;
    if (!early && link_ != Link::ready) {
        if (kind == RequestKind::authorize) {
            post(pending.slot, Event{EventKind::refused, Refusal::broker_unavailable});
        } else {
            post(pending.slot, EventKind::broker_lost);
        }
        return;
    }
    ToBroker request = pending.request;
    request.id = requests_.ask(std::move(pending));
    world_.broker.from_host(std::move(request));
}

void Host::send_end(Pending pending) {
    ends_asked_.insert(pending.request.run);
    if (link_ != Link::ready) {
        requests_.keep(std::move(pending));
        return;
    }
    ToBroker request = pending.request;
    request.id = requests_.ask(std::move(pending));
    world_.broker.from_host(std::move(request));
}

void Host::send_ends() {
    std::deque<Pending> kept = requests_.take_kept();
    for (Pending& pending : kept) {
        send_end(std::move(pending));
    }
}

void Host::on_frame() {
    --frames_due_;
    const ToHost frame = std::move(world_.broker.to_host.front());
    world_.broker.to_host.pop_front();
    world_.note("frame", frame.run, static_cast<uint64_t>(frame.kind));
    switch (frame.kind) {
        case ToHost::Kind::reply:
            handle_reply(frame);
            return;
        case ToHost::Kind::claimed:
            on_claimed(frame.run);
            return;
        case ToHost::Kind::released:
            return;
        case ToHost::Kind::launch: {
            asked_.emplace(next_asked_, frame.id);
            consider({From::human, frame.seat, frame.run, next_asked_++, 0});
            return;
        }
        case ToHost::Kind::stop:
            asked_.emplace(next_asked_, frame.id);
            stop(next_asked_++, frame.seat, frame.timeout_ms);
            return;
        case ToHost::Kind::end_of_file:
            lose_broker();
            return;
    }
}

void Host::handle_reply(const ToHost& reply) {
    const auto answered = requests_.take_answered(reply.id);
    if (!answered) {
        return;
    }
    const Pending& pending = *answered;
    switch (pending.kind) {
        case RequestKind::config: {
            link_ = Link::asking;
            Pending bound;
            bound.request.verb = Verb::bound;
            bound.request.runs = candidates_;
            ask_broker(RequestKind::bound, std::move(bound));
            return;
        }
        case RequestKind::bound:
            on_bound_reply(reply);
            return;
        case RequestKind::authorize:
            post(
                pending.slot,
                reply.ok ? Event{EventKind::authorized} : Event{EventKind::refused, reply.refusal});
            return;
        case RequestKind::bind:
            on_bind_reply(pending, reply);
            return;
        case RequestKind::end:
        case RequestKind::end_leftover:
            on_end_reply(pending, reply);
            return;
        case RequestKind::refuse:
        case RequestKind::metrics:
            return;
    }
}

void Host::on_bound_reply(const ToHost& reply) {
    link_ = Link::ready;
    restarts_ = 0;
    if (!recovery_begun_) {
        recovery_begun_ = true;
        begin_recovery(reply);
    } else {
        on_broker_again(reply);
    }
    send_ends();
}

void Host::on_broker_again(const ToHost& reply) {
    std::vector<wire::BoundRun> held;
    for (const BoundItem& item : reply.bound) {
        wire::BoundRun run;
        run.run = run_name(item.run);
        run.seat.instance = seat_name(item.seat);
        run.claimed = item.claimed;
        held.push_back(std::move(run));
    }
    std::set<std::string> ours;
    for (const Slot& s : slots_) {
        if (s.in_use && s.state.facts.bound) {
            ours.insert(run_name(s.run));
        }
    }
    for (uint32_t i = 0; i < leftovers_.size(); ++i) {
        ours.insert(leftovers_[i].run);
    }
    const launch::HeldRuns apart = launch::take_apart(held, ours);
    for (const std::string& run : apart.claimed) {
        on_claimed(run_number(run));
    }
    if (world_.mutated(Mutation::found_commit_not_ended)) {
        return;
    }
    for (const wire::EndLaunchArgs& end : apart.to_end) {
        Pending pending;
        pending.kind = RequestKind::end;
        pending.request.verb = Verb::end;
        pending.request.run = run_number(end.run);
        pending.request.seat = seat_number(end.seat);
        pending.request.reason = end.reason;
        send_end(std::move(pending));
    }
}

void Host::on_bind_reply(const Pending& pending, const ToHost& reply) {
    Slot* s = find(pending.slot);
    if (!reply.ok) {
        post(pending.slot, EventKind::bind_refused);
        return;
    }
    if (s != nullptr && s->state.phase == Phase::binding) {
        s->cap = reply.cap;
        s->cap_hash = reply.cap;
    }
    post(pending.slot, EventKind::bound);
}

void Host::on_end_reply(const Pending& pending, const ToHost& reply) {
    if (!reply.ok) {
        if (world_.mutated(Mutation::failed_end_not_repeated)) {
            return;
        }
        requests_.keep(pending);
        if (!std::exchange(ends_retry_armed_, true)) {
            set_timer(TimerKind::ends_retry, 0, 0, 1'000 * kMs);
        }
        return;
    }
    if (pending.kind == RequestKind::end) {
        if (Slot* s = find(pending.slot)) {
            s->end_first = reply.first;
        }
        post(pending.slot, EventKind::ended);
        return;
    }
    const uint32_t run = pending.request.run;
    const bool logged =
        world_.disk.has_end_line(run) && !world_.mutated(Mutation::logged_end_not_looked_up);
    leftover_events_.push_back({pending.leftover, launch::end_event(reply.first, logged)});
}

void Host::reply_to_broker(int64_t asked_as, bool ok, uint32_t run) {
    const auto asked = asked_.find(asked_as);
    if (asked == asked_.end()) {
        return;
    }
    ToBroker reply;
    reply.verb = Verb::reply;
    reply.id = asked->second;
    reply.flag = ok;
    reply.run = run;
    asked_.erase(asked);
    world_.broker.from_host(std::move(reply));
}

}  // namespace mosaic::sim
