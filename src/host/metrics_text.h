#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "host/counts.h"
#include "process/usage.h"
#include "reactor/ring.h"

namespace mosaic::host {

// What a text of metrics is made of.
struct MetricsFacts {
    const Counts& counts;
    Census census;
    reactor::RingFacts ring;
    uint32_t ring_in_flight = 0;
    process::Usage usage;
    int64_t started_ms = 0;  // since the epoch
    size_t launch_connections = 0;
    bool broker_up = false;
};

// The host's own families, in the text format of metrics/writer.h. Pure. Labels are codes and
// states of ours alone: no name that the operator, the human or a session chose is in it.
[[nodiscard]] std::string host_metrics(const MetricsFacts& facts);

}  // namespace mosaic::host
