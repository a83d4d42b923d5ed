#pragma once

#include <vector>

#include "host/launch_log.h"
#include "wire/messages.h"

namespace mosaic::host {

// Runs that the broker knows and no longer holds as bound, and whose `end` line the launch log
// lacks though it was there when they began: a host died between the two, and the run's entry
// wasn't durable or was gone. To be ended like bound runs: the broker answers with the end that it
// has, and the line is written. `runs` is the directory of the run directories; the seat is read
// from the run's session.json, and a run without one is left out.
[[nodiscard]] std::vector<wire::BoundRun> unlogged_ends(int runs,
                                                        const wire::BoundResult& bound,
                                                        const LoggedEnds& logged);

}  // namespace mosaic::host
