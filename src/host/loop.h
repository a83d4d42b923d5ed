#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/instant.h"
#include "host/counts.h"
#include "launch/recovery_machine.h"
#include "launch/run_machine.h"
#include "reactor/ring.h"
#include "reactor/timers.h"

namespace mosaic::host {

// What a completed operation belongs to: Op::owner_kind() of every op in this program.
enum class Owner : uint16_t {
    none,
    signals,
    accept,
    client_recv,
    client_send,
    control_recv,
    control_send,
    broker_exit,
    broker_exec,
    store,
    store_close,
    log_write,
    run_files,
    run_exec,
    run_exit,
    run_status,
    run_stdin,
    leftover_process,
    child_exit,
    child_output,
    metrics_accept,
    metrics_recv,
    metrics_send,
};

// What a timer belongs to: Timer::kind.
enum class TimerKind : uint16_t {
    run_deadline,
    run_term,
    leftover_deadline,
    broker_restart,
    broker_watch,
    ends_retry,
    store_retry,
    log_retry,
    accept_retry,
    child_deadline,
    bad_request_summary,
    disk_check,
    tidy_up,
    group_retry,
    warm_retry,
    stop_all,
    metrics_client,
    metrics_listen,
    metrics_broker,
};

// A slot by its place and its life: a slot that was used again has another generation, so news for
// its earlier life is recognised and dropped.
struct SlotRef {
    uint32_t index = UINT32_MAX;
    uint32_t generation = 0;

    bool operator==(const SlotRef&) const = default;
};

struct RunEvent {
    SlotRef run;
    launch::Event event;
    uint32_t deadline = 0;  // of a deadline: which one, for it may be superseded while it waits
};

struct LeftoverNews {
    uint32_t leftover = 0;
    launch::LeftoverEvent event = launch::LeftoverEvent::gone;
};

// What every part of the host shares: the ring, the timers, this tick's time, what is counted, and
// the events that wait to be stepped. Events are only queued here; the host's loop takes them out,
// so no part calls another from inside a completion.
struct Loop {
    std::unique_ptr<reactor::Ring> ring;
    reactor::TimerQueue timers;
    Instant now;
    Duration away;  // in all, see make_good
    Counts counts;
    std::deque<RunEvent> run_events;
    std::deque<LeftoverNews> leftover_events;

    void post(SlotRef run, launch::Event event) { run_events.push_back({run, event, 0}); }

    void post_deadline(SlotRef run, uint32_t generation) {
        run_events.push_back({run, launch::Event{launch::EventKind::deadline}, generation});
    }

    void post(SlotRef run, launch::EventKind kind) { post(run, launch::Event{kind}); }

    void post(uint32_t leftover, launch::LeftoverEvent event) {
        leftover_events.push_back({leftover, event});
    }

    // After a time in which the host could do nothing: every deadline has it back.
    void make_good(Duration time) {
        if (time.ns == 0) {
            return;
        }
        away = Duration{away.ns + time.ns};
        timers.extend_all(time);
    }

    // What is measured for a deadline is measured by this: `now` without the time away.
    [[nodiscard]] Instant awake() const { return Instant{now.ns - away.ns}; }

    void set_timer(TimerKind kind, uint32_t owner, uint32_t generation, Duration after) {
        timers.set({now + after, static_cast<uint16_t>(kind), owner, generation});
    }
};

inline void own(reactor::Op& op, Owner kind, uint32_t owner) {
    op.set_owner(static_cast<uint16_t>(kind), owner);
}

}  // namespace mosaic::host
