#pragma once

#include <cstdint>

#include "sim/prng.h"

// The fault model: README.md says in prose what may go wrong and what may not. Rates are per
// million; they are drawn for each seed, many of them 0, so that seeds differ in kind and not only
// in luck.

namespace mosaic::sim {

struct Faults {
    // Sessions.
    uint32_t spawn_fails = 0;
    uint32_t bwrap_dies = 0;    // before its status
    uint32_t bwrap_hangs = 0;   // makes no runner and doesn't end
    uint32_t outer_dies = 0;    // somebody kills the outer alone
    uint32_t runner_dies = 0;   // at any moment, with any code or signal
    uint32_t never_claims = 0;  // reads its capability and does nothing
    uint32_t stuck_at_end = 0;  // sees the end of its input and doesn't exit
    uint32_t deaf = 0;          // ignores SIGTERM
    uint32_t unkillable = 0;    // a SIGKILL takes seconds (a process in a disk wait)
    uint32_t leaves_group = 0;  // the runner is out of its outer's process group
    uint32_t strangers = 0;     // a process of somebody else's takes a session's number
    // Disk.
    uint32_t files_fail = 0;
    uint32_t write_short = 0;
    uint32_t write_fails = 0;
    uint32_t fsync_fails = 0;
    uint32_t rename_fails = 0;
    uint32_t disk_fills = 0;  // everything fails for a while
    // Host, broker, machine.
    uint32_t host_dies = 0;       // at each boundary of an effect
    uint32_t drops_unsynced = 0;  // at a host's death, although the machine lives on
    uint32_t machine_dies = 0;    // at a host's death
    uint32_t host_stops = 0;      // SIGSTOP or suspend: a tick comes late
    uint32_t host_is_ended = 0;   // SIGTERM, at a client's request
    uint32_t broker_dies = 0;     // at each boundary of its turn
    uint32_t broker_slow = 0;     // a commit takes seconds
    uint32_t commit_fails = 0;
    uint32_t broker_wont_start = 0;
    // Clients.
    uint32_t hangs_up = 0;
    uint32_t floods = 0;
    uint32_t bad_requests = 0;
    uint32_t revokes = 0;
    uint32_t thieves = 0;  // a session's connection carries another capability
};

[[nodiscard]] inline Faults draw_faults(Prng& chance) {
    Faults f;
    const auto rate = [&](int64_t low, int64_t high) -> uint32_t {
        return chance.below(3) == 0 ? 0 : static_cast<uint32_t>(chance.magnitude(low, high));
    };
    f.spawn_fails = rate(500, 20'000);
    f.bwrap_dies = rate(500, 20'000);
    f.bwrap_hangs = rate(200, 5'000);
    f.outer_dies = rate(500, 20'000);
    f.runner_dies = rate(1'000, 100'000);
    f.never_claims = rate(200, 5'000);
    f.stuck_at_end = rate(10'000, 500'000);
    f.deaf = rate(1'000, 50'000);
    f.unkillable = rate(100, 30'000);
    f.leaves_group = rate(10'000, 1'000'000);
    f.strangers = rate(10'000, 1'000'000);
    f.files_fail = rate(500, 20'000);
    f.write_short = rate(1'000, 200'000);
    f.write_fails = rate(100, 20'000);
    f.fsync_fails = rate(100, 20'000);
    f.rename_fails = rate(100, 10'000);
    f.disk_fills = rate(10, 500);
    f.host_dies = rate(10, 400);
    f.drops_unsynced = rate(100'000, 500'000);
    f.machine_dies = rate(50'000, 300'000);
    f.host_stops = rate(5, 200);
    f.host_is_ended = rate(100, 2'000);
    f.broker_dies = rate(10, 1'000);
    f.broker_slow = rate(50, 1'000);
    f.commit_fails = rate(100, 5'000);
    f.broker_wont_start = rate(10'000, 200'000);
    f.hangs_up = rate(1'000, 100'000);
    f.floods = rate(100, 5'000);
    f.bad_requests = rate(1'000, 50'000);
    f.thieves = rate(1'000, 50'000);
    f.revokes = rate(100, 5'000);
    return f;
}

}  // namespace mosaic::sim
