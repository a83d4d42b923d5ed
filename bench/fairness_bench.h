#pragma once

#include "base/error.h"
#include "bench/options.h"
#include "bench/waiter.h"

namespace mosaic::bench {

// Measures how long one session's claim and message take at the broker when nothing else happens
// and beside a session that floods it, in turns, and prints the report on standard output.
[[nodiscard]] Result<void> bench_fairness(const Options& options, Waiter& waiter);

}  // namespace mosaic::bench
