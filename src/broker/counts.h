#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "metrics/histogram.h"
#include "process/usage.h"

// What the broker counts while it runs, from 0 at its start; docs/metrics.md says what each means.

namespace mosaic::broker {

// Who asks, as Caller::Kind.
enum class Asker : uint8_t {
    host,
    human,
    session,
};
constexpr size_t kAskers = static_cast<size_t>(Asker::session) + 1;

// What a request is about. Verbs are many and, when they are none, the peer's own words; classes
// are few and ours.
enum class VerbClass : uint8_t {
    role,
    message,
    task,
    decision,
    launch,  // launches, stops, ends, and the switch of launches
    config,  // the configuration: the host's own, changes, reload
    read,    // sessions, events, routes, metrics
    other,   // no verb
};
constexpr size_t kVerbClasses = static_cast<size_t>(VerbClass::other) + 1;

[[nodiscard]] std::string_view to_string(Asker asker);
[[nodiscard]] std::string_view to_string(VerbClass verb_class);
[[nodiscard]] VerbClass class_of(std::string_view verb);

struct Counts {
    std::array<std::array<metrics::Counter, kVerbClasses>, kAskers> requests;
    std::array<metrics::Counter, kAskers> refused;  // requests that were answered by an error
    metrics::Histogram commit;  // of those that came through, their fsync included
    metrics::Counter commit_failures;
    // Connections that were closed before a byte of them was read.
    metrics::Counter bus_strangers;
    metrics::Counter admin_strangers;
    uint64_t session_connections = 0;  // open now
    uint64_t human_connections = 0;
    int64_t started_ms = 0;  // since the epoch

    void request(Asker asker, std::string_view verb) {
        requests[static_cast<size_t>(asker)][static_cast<size_t>(class_of(verb))].add();
    }
};

struct MetricsFacts {
    const Counts& counts;
    process::Usage usage;
    int64_t queued_messages = 0;
    int64_t queued_bytes = 0;
    int64_t live_runs = 0;
};

// The broker's own families, in the text format of metrics/writer.h. Pure. No name of a role, a
// human, a run or a session's making is in it.
[[nodiscard]] std::string broker_metrics(const MetricsFacts& facts);

}  // namespace mosaic::broker
