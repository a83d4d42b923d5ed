#pragma once

#include <benchmark/benchmark.h>

#include <string>

#include "base/error.h"

namespace mosaic::bench {

// A directory of the program's own on the scratch disk, for files that are fsynced. Removed at the
// end, also when the program is interrupted.
[[nodiscard]] const std::string& micro_directory();

// Ends this benchmark with the reason, and the program with 1.
void broken(benchmark::State& state, const std::string& why);

}  // namespace mosaic::bench
