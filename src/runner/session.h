#pragma once

#include <string>

#include "base/instant.h"

namespace mosaic::runner {

struct SessionOptions {
    std::string run_directory;  // absolute
    int input = 0;              // where the capability line comes from
    Duration capability_deadline = seconds(30);
};

// The life of a session, from its capability to its end. Call it once, early in main: it changes
// the process (not dumpable, parent-death signal, no new privileges, signals by descriptor,
// limits). Returns the exit code (runner_exit); what led to it stands on standard error.
[[nodiscard]] int run_session(const SessionOptions& options);

}  // namespace mosaic::runner
