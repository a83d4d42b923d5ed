#pragma once

#include <cstdint>

#include "base/instant.h"
#include "launch/run_machine.h"

namespace mosaic::launch {

// How long the broker may take to answer before it counts as not there.
constexpr Duration kBrokerTakes = seconds(10);
// How long a SIGKILL may take before it is sent again and a person is told.
constexpr Duration kKillTakes = seconds(10);

// A tick that comes so much after the nearest deadline came late.
constexpr Duration kLateTick = milliseconds(500);

struct Times {
    int64_t setup_wait_ms = 0;  // for a turn to set up
    int64_t runner_pid_ms = 0;  // from the spawn to the runner's pid
    int64_t claim_ms = 0;       // from the spawn, or from the taking of a warm seat, to the claim
    int64_t stop_ms = 0;        // from the stop to the kill
};

// What the timer is set to that a run arms when it enters `phase`. `since_spawn` counts only for
// `binding`, whose timer runs to the claim, and for a warm seat's `persisting`; for one that was
// taken it is the time since then.
[[nodiscard]] Duration time_for(Phase phase, const Times& times, Duration since_spawn);

// The time that every deadline gets back after a tick: when it came late, all since the last one,
// for somewhere in there the host was stopped or had no processor, and nobody could answer it. By
// its lateness alone the nearest deadline would be due at once.
[[nodiscard]] Duration time_away(Instant last_tick, Instant nearest_deadline, Instant now);

}  // namespace mosaic::launch
