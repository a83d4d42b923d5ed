#pragma once

#include "wire/session_file.h"

namespace mosaic::runner {

// Lowers what this process and all that it starts may use: processes, open files, locked memory,
// pending signals, cores. A hard limit that is lower already stays.
void set_process_limits(const wire::SessionLimits& limits);

// When memory runs out, this process and all that it starts go before the host. Who starts the
// sandbox sees to that before the sandbox forks; this is for where nobody did and /proc can be
// written (sandboxes inside are allowed). To be called while the process is dumpable: later its
// files in /proc are root's.
void go_first_when_memory_runs_out();

}  // namespace mosaic::runner
