#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/look.h"
#include "bench/options.h"
#include "bench/plot.h"
#include "wire/json.h"

namespace mosaic::bench {

// Launches beside so many live sessions. Microseconds to the claim.
struct LiveLevel {
    int live = 0;
    std::vector<int64_t> product;
    std::vector<int64_t> bwrap;  // B
};

// All but the levels with as many sessions live as the last of them says.
struct LiveReport {
    json::Value machine;
    Options options;
    std::string load_after;
    std::vector<LiveLevel> levels;
    int64_t host_start_us = 0;  // until it serves, with nothing to recover
    MemoryRound memory;
    int64_t host_resident = 0;  // KiB
    int64_t broker_resident = 0;
    std::vector<int64_t> ps_us;  // `mosaic ps`, from its start to its end
    int64_t idle_us = 0;         // how long wake-ups were counted for
    int64_t host_wakeups = 0;
    int64_t broker_wakeups = 0;
    std::vector<int64_t> stop_us;  // each stopped by the human, 16 requests at once
    int64_t launch_us = 0;         // all launched, 16 requests at once
    double spawn_us = 0;           // p50 of the host's spawn calls in that time
    int64_t file_replacements = 0;
    int64_t ready_us = 0;      // from the next host's start until it serves, the first one killed
    int64_t recovered_us = 0;  // until nothing of them is left
    int64_t left = 0;          // processes of theirs that are there all the same
    int64_t end_us = 0;        // from SIGTERM to the host's end, it and all gone
};

void print_live_report(const LiveReport& report);

// The p50 of product and B over the live sessions.
[[nodiscard]] Plot live_plot(const LiveReport& report);

}  // namespace mosaic::bench
