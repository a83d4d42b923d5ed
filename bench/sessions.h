#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "bench/scratch.h"

namespace mosaic::bench {

// What sessions.json says of a session that runs.
struct Session {
    std::string run;
    std::string run_dir;
    std::string instance;
    bool warm = false;
    pid_t outer = 0;   // bwrap
    pid_t runner = 0;  // mosaic-runner
};

[[nodiscard]] Result<std::vector<Session>> read_sessions(const Scratch& scratch);

}  // namespace mosaic::bench
