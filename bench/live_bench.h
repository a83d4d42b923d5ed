#pragma once

#include "base/error.h"
#include "bench/options.h"
#include "bench/waiter.h"

namespace mosaic::bench {

// Measures launches beside more and more live sessions, and with the most of them what they cost
// while they idle, how long it takes to end them all, and how long the next host takes after the
// death of theirs. Prints the report on standard output.
[[nodiscard]] Result<void> bench_live(const Options& options, Waiter& waiter);

}  // namespace mosaic::bench
