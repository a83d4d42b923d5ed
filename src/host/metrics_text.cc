#include "host/metrics_text.h"

#include "metrics/writer.h"

namespace mosaic::host {
namespace {

using metrics::Type;
using metrics::Writer;

constexpr double kMsPerSecond = 1e3;
constexpr double kNsPerSecond = 1e9;

void write_launches(Writer& w, const Counts& counts) {
    w.family("mosaic_launches_total", Type::counter, "Launches asked for, by what they came to.");
    w.sample({{"result", "launched"}}, uint64_t{counts.cold.count() + counts.warm.count()});
    for (size_t i = 0; i < kRefusals; ++i) {
        w.sample({{"result", to_string(static_cast<Refusal>(i))}}, counts.refused[i]);
    }
    w.family("mosaic_launch_seconds",
             Type::histogram,
             "From the request's last byte to the claim, by what was launched: a sandbox started "
             "for it (cold) or one that waited (warm).");
    w.histogram({{"seat", "cold"}}, counts.cold);
    w.histogram({{"seat", "warm"}}, counts.warm);
    w.family("mosaic_launch_stage_seconds",
             Type::histogram,
             "What each stage of a launch took, from the latest one before it.");
    for (size_t i = 0; i < kStages; ++i) {
        w.histogram({{"stage", to_string(static_cast<Stage>(i))}}, counts.stages[i]);
    }
    w.family("mosaic_spawn_seconds",
             Type::histogram,
             "One call that spawns a sandbox; the loop waits for it.");
    w.histogram(counts.spawn);
}

void write_sessions(Writer& w, const Counts& counts, const Census& census) {
    w.family("mosaic_sessions", Type::gauge, "Sessions by what they are doing now.");
    w.sample({{"state", "live"}}, census.live);
    w.sample({{"state", "launching"}}, census.launching);
    w.sample({{"state", "waiting"}}, census.waiting);
    w.sample({{"state", "ending"}}, census.ending);
    w.sample({{"state", "warm"}}, census.warm);
    w.family("mosaic_session_ends_total", Type::counter, "Ended sessions by reason.");
    for (size_t i = 0; i < kEndReasons; ++i) {
        w.sample({{"reason", to_string(static_cast<EndReason>(i))}}, counts.ended[i]);
    }
    w.family("mosaic_sessions_file_seconds",
             Type::histogram,
             "One replacement of sessions.json, until it is durable.");
    w.histogram(counts.sessions_file);
    w.family("mosaic_sessions_file_failures_total",
             Type::counter,
             "Replacements of sessions.json that failed and were tried again.");
    w.sample(counts.sessions_file_failures);
}

void write_loop(Writer& w, const MetricsFacts& facts) {
    w.family("mosaic_host_loop_ticks_total", Type::counter, "Turns of the host's loop.");
    w.sample(facts.counts.ticks);
    w.family("mosaic_host_loop_busy_seconds_total",
             Type::counter,
             "Time that the host's loop worked and didn't wait.");
    w.sample(static_cast<double>(facts.counts.busy.ns) / kNsPerSecond);
    w.family("mosaic_host_ring_enters_total", Type::counter, "Calls of io_uring_enter.");
    w.sample(facts.ring.enters);
    w.family("mosaic_host_ring_overflows_total",
             Type::counter,
             "Turns that found the ring's completion queue overflown; nothing is lost then.");
    w.sample(facts.ring.overflows);
    w.family("mosaic_host_ring_operations", Type::gauge, "Operations in flight now.");
    w.sample(uint64_t{facts.ring_in_flight});
}

void write_process(Writer& w, const MetricsFacts& facts) {
    w.family("mosaic_host_start_time_seconds", Type::gauge, "When it started, since the epoch.");
    w.sample(static_cast<double>(facts.started_ms) / kMsPerSecond);
    w.family("mosaic_host_open_fds", Type::gauge, "The host's open descriptors.");
    w.sample(facts.usage.open_fds);
    w.family("mosaic_host_max_fds", Type::gauge, "How many it may have.");
    w.sample(facts.usage.max_fds);
    w.family("mosaic_host_resident_memory_bytes", Type::gauge, "The host's resident memory.");
    w.sample(facts.usage.resident_bytes);
    w.family("mosaic_host_launch_connections", Type::gauge, "Open connections of launch.sock.");
    w.sample(uint64_t{facts.launch_connections});
    w.family("mosaic_host_strangers_total",
             Type::counter,
             "Connections to launch.sock by no runner of a live run; closed unread.");
    w.sample(facts.counts.launch_strangers);
}

}  // namespace

std::string host_metrics(const MetricsFacts& facts) {
    Writer w;
    write_launches(w, facts.counts);
    write_sessions(w, facts.counts, facts.census);
    write_loop(w, facts);
    write_process(w, facts);
    w.family("mosaic_broker_up", Type::gauge, "1 when a broker serves, else 0.");
    w.sample(uint64_t{facts.broker_up ? 1U : 0U});
    w.family("mosaic_broker_restarts_total",
             Type::counter,
             "Brokers that were started after the first one.");
    w.sample(facts.counts.broker_restarts);
    return w.take();
}

}  // namespace mosaic::host
