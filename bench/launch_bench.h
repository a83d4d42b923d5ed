#pragma once

#include "base/error.h"
#include "bench/options.h"
#include "bench/waiter.h"

namespace mosaic::bench {

// Measures launches of the product, of B and of the bare runner in shuffled order in one run, and
// prints the report on standard output; progress goes to standard error.
[[nodiscard]] Result<void> bench_launch(const Options& options, Waiter& waiter);

}  // namespace mosaic::bench
