#include "broker/counts.h"

#include <algorithm>
#include <utility>

#include "metrics/writer.h"

namespace mosaic::broker {
namespace {

using metrics::Type;
using metrics::Writer;

constexpr double kMsPerSecond = 1e3;

using Named = std::pair<std::string_view, VerbClass>;

// The verbs that don't say it by what stands before their dot.
constexpr std::array<Named, 17> kVerbs = {{
    {"authorizeLaunch", VerbClass::launch},
    {"bindLaunch", VerbClass::launch},
    {"endLaunch", VerbClass::launch},
    {"refuse", VerbClass::launch},
    {"bound", VerbClass::launch},
    {"launch", VerbClass::launch},
    {"stop", VerbClass::launch},
    {"launches.allow", VerbClass::launch},
    {"launches.revoke", VerbClass::launch},
    {"decide", VerbClass::decision},
    {"config", VerbClass::config},
    {"reload", VerbClass::config},
    {"sessions", VerbClass::read},
    {"decisions", VerbClass::read},
    {"events", VerbClass::read},
    {"routes", VerbClass::read},
    {"metrics", VerbClass::read},
}};

constexpr std::array<Named, 8> kPrefixes = {{
    {"role.", VerbClass::role},
    {"message.", VerbClass::message},
    {"task.", VerbClass::task},
    {"decision.", VerbClass::decision},
    {"routes.", VerbClass::config},
    {"limits.", VerbClass::config},
    {"instances.", VerbClass::config},
    {"plugins.", VerbClass::config},
}};

void write_requests(Writer& w, const Counts& counts) {
    w.family(
        "mosaic_broker_requests_total", Type::counter, "Requests by who asked and what about.");
    for (size_t asker = 0; asker < kAskers; ++asker) {
        for (size_t verb = 0; verb < kVerbClasses; ++verb) {
            w.sample({{"from", to_string(static_cast<Asker>(asker))},
                      {"class", to_string(static_cast<VerbClass>(verb))}},
                     counts.requests[asker][verb]);
        }
    }
    w.family("mosaic_broker_refused_total",
             Type::counter,
             "Requests that were answered by an error, by who asked.");
    for (size_t asker = 0; asker < kAskers; ++asker) {
        w.sample({{"from", to_string(static_cast<Asker>(asker))}}, counts.refused[asker]);
    }
}

void write_connections(Writer& w, const Counts& counts) {
    w.family("mosaic_broker_connections", Type::gauge, "Open connections, by whose they are.");
    w.sample({{"from", "human"}}, counts.human_connections);
    w.sample({{"from", "session"}}, counts.session_connections);
    w.family("mosaic_broker_strangers_total",
             Type::counter,
             "Connections that were closed unread, by socket: no runner of a live run (bus), no "
             "process of the human's (admin).");
    w.sample({{"socket", "bus"}}, counts.bus_strangers);
    w.sample({{"socket", "admin"}}, counts.admin_strangers);
}

void write_store(Writer& w, const MetricsFacts& facts) {
    w.family("mosaic_broker_commit_seconds",
             Type::histogram,
             "One commit of the store, its fsync included; all requests of a turn share it.");
    w.histogram(facts.counts.commit);
    w.family("mosaic_broker_commit_failures_total",
             Type::counter,
             "Turns whose commit failed; who would have written was told so.");
    w.sample(facts.counts.commit_failures);
    w.family("mosaic_broker_messages_queued", Type::gauge, "Messages that wait for their ack.");
    w.sample(static_cast<uint64_t>(facts.queued_messages));
    w.family("mosaic_broker_messages_queued_bytes", Type::gauge, "The size of their bodies.");
    w.sample(static_cast<uint64_t>(facts.queued_bytes));
    w.family("mosaic_broker_live_runs", Type::gauge, "Runs that are bound and not ended.");
    w.sample(static_cast<uint64_t>(facts.live_runs));
}

}  // namespace

std::string_view to_string(Asker asker) {
    constexpr std::array<std::string_view, kAskers> kNames = {"host", "human", "session"};
    return kNames[static_cast<size_t>(asker)];
}

std::string_view to_string(VerbClass verb_class) {
    constexpr std::array<std::string_view, kVerbClasses> kNames = {
        "role", "message", "task", "decision", "launch", "config", "read", "other"};
    return kNames[static_cast<size_t>(verb_class)];
}

VerbClass class_of(std::string_view verb) {
    const auto* const whole = std::find_if(
        kVerbs.begin(), kVerbs.end(), [&](const Named& one) { return one.first == verb; });
    if (whole != kVerbs.end()) {
        return whole->second;
    }
    const auto* const prefix =
        std::find_if(kPrefixes.begin(), kPrefixes.end(), [&](const Named& one) {
            return verb.starts_with(one.first);
        });
    return prefix != kPrefixes.end() ? prefix->second : VerbClass::other;
}

std::string broker_metrics(const MetricsFacts& facts) {
    Writer w;
    write_requests(w, facts.counts);
    write_connections(w, facts.counts);
    write_store(w, facts);
    w.family("mosaic_broker_start_time_seconds", Type::gauge, "When it started, since the epoch.");
    w.sample(static_cast<double>(facts.counts.started_ms) / kMsPerSecond);
    w.family("mosaic_broker_open_fds", Type::gauge, "The broker's open descriptors.");
    w.sample(facts.usage.open_fds);
    w.family("mosaic_broker_max_fds", Type::gauge, "How many it may have.");
    w.sample(facts.usage.max_fds);
    w.family("mosaic_broker_resident_memory_bytes", Type::gauge, "The broker's resident memory.");
    w.sample(facts.usage.resident_bytes);
    return w.take();
}

}  // namespace mosaic::broker
