#pragma once

#include <cstdint>

#include "base/error.h"
#include "bench/host_process.h"
#include "bench/scratch.h"
#include "bench/waiter.h"

namespace mosaic::bench {

// What memory is used for at one moment, KiB.
struct Look {
    int64_t available = 0;
    int64_t slab = 0;
    int64_t page_tables = 0;
    int64_t kernel_stacks = 0;
    int64_t anonymous = 0;  // of the sessions' processes
    int64_t host = 0;
    int64_t broker = 0;
};

// Waits until the kernel has settled, and looks.
[[nodiscard]] Result<Look> look_at_memory(const Scratch& scratch,
                                          const HostProcess& host,
                                          Waiter& waiter);

// One round of the memory measurement; KiB, live minus before.
struct MemoryRound {
    int64_t available_drop = 0;  // of MemAvailable
    int64_t returned = 0;        // of the drop, once the sessions had ended
    int64_t slab = 0;
    int64_t page_tables = 0;
    int64_t kernel_stacks = 0;
    int64_t anonymous = 0;  // of the sessions' processes: what they don't share
    int64_t host = 0;       // resident
    int64_t broker = 0;

    // What can be named, without the noise of other programs on MemAvailable.
    [[nodiscard]] int64_t counted() const {
        return slab + page_tables + kernel_stacks + anonymous + host + broker;
    }
};

[[nodiscard]] MemoryRound round_of(const Look& before, const Look& live, const Look& after);

}  // namespace mosaic::bench
