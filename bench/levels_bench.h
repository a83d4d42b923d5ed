#pragma once

#include "base/error.h"
#include "bench/options.h"
#include "bench/waiter.h"

namespace mosaic::bench {

// Measures what each level of protection costs a launch: bwrap with the product's own arguments and
// runner, from the spawn to the claim's line, with everything, without one level each, and without
// all that is hardening beyond the sandbox itself, in shuffled order in one run. What the runner
// does for itself (a few system calls) is in all of them.
[[nodiscard]] Result<void> bench_levels(const Options& options, Waiter& waiter);

}  // namespace mosaic::bench
