#pragma once

#include "wire/session_file.h"

namespace mosaic::runner {

// Lowers what this process and all that it starts may use: processes, open files, cores. A hard
// limit that is lower already stays.
void set_process_limits(const wire::SessionLimits& limits);

}  // namespace mosaic::runner
