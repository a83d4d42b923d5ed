// Goal: what the host counts stands in the text under the words that docs/metrics.md lists. Method:
// the text read back; the page compared with it by name, the broker's page part with the broker's
// sources.

#include "host/metrics_text.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <set>

#include "metrics/reader.h"

using namespace mosaic;
using namespace mosaic::host;

namespace {

std::vector<metrics::Family> families_of(const Counts& counts, const Census& census) {
    const std::string text =
        host_metrics({.counts = counts,
                      .census = census,
                      .ring = {.enters = 11, .overflows = 12},
                      .ring_in_flight = 13,
                      .usage = {.open_fds = 14, .max_fds = 15, .resident_bytes = 16},
                      .started_ms = 1'700'000'000'250,
                      .launch_connections = 17,
                      .broker_up = true});
    auto families = metrics::read_text(text);
    REQUIRE_MESSAGE(families, (families ? "" : families.error().text));
    return std::move(*families);
}

std::string read(const std::string& path) {
    std::ifstream file(MOSAIC_SOURCE_DIR "/" + path);
    return {std::istreambuf_iterator<char>(file), {}};
}

// The names that begin with mosaic_ and stand between two of `quote`.
std::set<std::string> names_in(const std::string& text, char quote) {
    std::set<std::string> out;
    const std::string mark = std::string(1, quote) + "mosaic_";
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
        const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at + 1);
        out.insert(text.substr(at + 1, end - at - 1));
    }
    return out;
}

}  // namespace

TEST_CASE("the text has what was counted") {
    Counts counts;
    counts.refuse(Refusal::busy);
    std::array<Instant, kStages> reached{};
    reached.fill(Instant{milliseconds(4).ns});
    counts.launch(Instant{}, reached, false);
    counts.launch(Instant{}, reached, true);
    counts.end(EndReason::stopped);
    counts.spawn.observe(Duration{300'000});
    counts.sessions_file_failures.add(3);
    counts.ticks.add(20);
    counts.busy = milliseconds(1500);
    counts.broker_restarts.add(4);
    counts.launch_strangers.add(5);
    const auto families = families_of(counts, {1, 2, 3, 4, 5});
    const auto value = [&](const char* name,
                           const std::map<std::string, std::string>& labels = {}) {
        return metrics::value_of(families, name, labels).value_or(-1);
    };
    CHECK(value("mosaic_launches_total", {{"result", "launched"}}) == 2);
    CHECK(value("mosaic_launches_total", {{"result", "busy"}}) == 1);
    CHECK(value("mosaic_launches_total", {{"result", "no-route"}}) == 0);
    CHECK(value("mosaic_launch_seconds_count", {}) == -1);
    const metrics::Family* launch = metrics::find_family(families, "mosaic_launch_seconds");
    REQUIRE(launch != nullptr);
    CHECK(metrics::buckets_of(*launch).at(0.005) == 2);
    CHECK(metrics::buckets_of(*launch).at(0.003) == 0);
    CHECK(value("mosaic_session_ends_total", {{"reason", "stopped"}}) == 1);
    CHECK(value("mosaic_session_ends_total", {{"reason", "host-lost"}}) == 0);
    CHECK(value("mosaic_sessions", {{"state", "live"}}) == 1);
    CHECK(value("mosaic_sessions", {{"state", "launching"}}) == 2);
    CHECK(value("mosaic_sessions", {{"state", "waiting"}}) == 3);
    CHECK(value("mosaic_sessions", {{"state", "ending"}}) == 4);
    CHECK(value("mosaic_sessions", {{"state", "warm"}}) == 5);
    CHECK(value("mosaic_sessions_file_failures_total") == 3);
    CHECK(value("mosaic_host_loop_ticks_total") == 20);
    CHECK(value("mosaic_host_loop_busy_seconds_total") == 1.5);
    CHECK(value("mosaic_host_ring_enters_total") == 11);
    CHECK(value("mosaic_host_ring_overflows_total") == 12);
    CHECK(value("mosaic_host_ring_operations") == 13);
    CHECK(value("mosaic_host_open_fds") == 14);
    CHECK(value("mosaic_host_max_fds") == 15);
    CHECK(value("mosaic_host_resident_memory_bytes") == 16);
    CHECK(value("mosaic_host_start_time_seconds") == 1'700'000'000.25);
    CHECK(value("mosaic_host_launch_connections") == 17);
    CHECK(value("mosaic_host_strangers_total") == 5);
    CHECK(value("mosaic_broker_up") == 1);
    CHECK(value("mosaic_broker_restarts_total") == 4);
}

TEST_CASE("the page of the metrics lists each and no other") {
    std::set<std::string> written = names_in(read("src/broker/counts.cc"), '"');
    CHECK(written.size() > 5);
    for (const metrics::Family& family : families_of({}, {})) {
        CHECK_MESSAGE(written.insert(family.name).second, family.name << " is the broker's, too");
    }
    CHECK(names_in(read("docs/metrics.md"), '`') == written);
}
