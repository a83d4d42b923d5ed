// Goal: what is counted stands in the text under the words that docs/metrics.md lists, and never
// under a peer's. Method: the text read back.

#include "broker/counts.h"

#include <doctest/doctest.h>

#include "metrics/reader.h"

using namespace mosaic;
using namespace mosaic::broker;

TEST_CASE("every verb has its class and what is no verb the last one") {
    for (const auto& [verb, verb_class] : std::vector<std::pair<const char*, VerbClass>>{
             {"role.claim", VerbClass::role},
             {"role.release", VerbClass::role},
             {"message.send", VerbClass::message},
             {"message.ack", VerbClass::message},
             {"task.list", VerbClass::task},
             {"decision.request", VerbClass::decision},
             {"decide", VerbClass::decision},
             {"launch", VerbClass::launch},
             {"launches.revoke", VerbClass::launch},
             {"stop", VerbClass::launch},
             {"authorizeLaunch", VerbClass::launch},
             {"endLaunch", VerbClass::launch},
             {"config", VerbClass::config},
             {"reload", VerbClass::config},
             {"routes.set", VerbClass::config},
             {"limits.set", VerbClass::config},
             {"instances.set", VerbClass::config},
             {"plugins.set", VerbClass::config},
             {"routes", VerbClass::read},
             {"events", VerbClass::read},
             {"sessions", VerbClass::read},
             {"decisions", VerbClass::read},
             {"metrics", VerbClass::read},
             {"", VerbClass::other},
             {"role", VerbClass::other},
             {"Role.claim", VerbClass::other},
             {"launches.", VerbClass::other},
             {"nothing\n} 1", VerbClass::other},
         }) {
        CAPTURE(verb);
        CHECK(class_of(verb) == verb_class);
    }
}

TEST_CASE("the text has what was counted") {
    Counts counts;
    counts.request(Asker::session, "message.send");
    counts.request(Asker::session, "message.receive");
    counts.request(Asker::human, "a peer's own words");
    counts.refused[static_cast<size_t>(Asker::human)].add();
    counts.commit.observe(milliseconds(3));
    counts.commit_failures.add(2);
    counts.bus_strangers.add(4);
    counts.session_connections = 5;
    counts.started_ms = 1'700'000'000'500;
    const std::string text = broker_metrics({counts, {7, 1024, 4096}, 8, 900, 3});
    CHECK(text.find("peer") == std::string::npos);
    const auto families = metrics::read_text(text);
    REQUIRE_MESSAGE(families, (families ? "" : families.error().text));
    const auto value = [&](const char* name, const std::map<std::string, std::string>& labels) {
        return metrics::value_of(*families, name, labels).value_or(-1);
    };
    CHECK(value("mosaic_broker_requests_total", {{"from", "session"}, {"class", "message"}}) == 2);
    CHECK(value("mosaic_broker_requests_total", {{"from", "human"}, {"class", "other"}}) == 1);
    CHECK(value("mosaic_broker_requests_total", {{"from", "host"}, {"class", "launch"}}) == 0);
    CHECK(value("mosaic_broker_refused_total", {{"from", "human"}}) == 1);
    CHECK(value("mosaic_broker_commit_failures_total", {}) == 2);
    CHECK(value("mosaic_broker_strangers_total", {{"socket", "bus"}}) == 4);
    CHECK(value("mosaic_broker_connections", {{"from", "session"}}) == 5);
    CHECK(value("mosaic_broker_start_time_seconds", {}) == 1'700'000'000.5);
    CHECK(value("mosaic_broker_messages_queued", {}) == 8);
    CHECK(value("mosaic_broker_messages_queued_bytes", {}) == 900);
    CHECK(value("mosaic_broker_live_runs", {}) == 3);
    CHECK(value("mosaic_broker_open_fds", {}) == 7);
    CHECK(value("mosaic_broker_resident_memory_bytes", {}) == 4096);
    CHECK(metrics::buckets_of(*metrics::find_family(*families, "mosaic_broker_commit_seconds"))
              .at(0.003) == 1);
}
