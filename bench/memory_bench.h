#pragma once

#include "base/error.h"
#include "bench/options.h"
#include "bench/waiter.h"

namespace mosaic::bench {

// Measures by how much MemAvailable drops for each of `live` idle sessions, `rounds` times, and
// prints the report on standard output.
[[nodiscard]] Result<void> bench_memory(const Options& options, Waiter& waiter);

}  // namespace mosaic::bench
