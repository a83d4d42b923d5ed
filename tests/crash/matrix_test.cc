// Goal: whichever instant a host or its broker is killed at, the next start holds every promise.
// Method: the programs are built with a named point at every event, effect, request and verb; one
// scene passes them; it is played once for each point and hit, with the process killed there.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "crash/stage.h"
#include "launch/recovery_machine.h"
#include "launch/requests.h"
#include "launch/run_machine.h"
#include "registry/store.h"

using namespace mosaic;
using namespace mosaic::crash;
using namespace mosaic::e2e;

namespace {

using Points = std::set<std::string>;

template <class Kind>
void add_all(Points& points, const std::string& prefix, size_t kinds) {
    for (size_t i = 0; i < kinds; ++i) {
        const auto name = to_string(static_cast<Kind>(i));
        REQUIRE(!name.empty());
        CHECK(points.insert(prefix + std::string(name)).second);
    }
}

Points host_points() {
    Points points;
    add_all<launch::EventKind>(points, "run.on.", launch::kEventKinds);
    add_all<launch::EffectKind>(points, "run.after.", launch::kEffectKinds);
    add_all<launch::LeftoverEvent>(points, "leftover.on.", launch::kLeftoverEvents);
    add_all<launch::LeftoverEffect>(points, "leftover.after.", launch::kLeftoverEffects);
    add_all<registry::StoreEventKind>(points, "store.on.", registry::kStoreEvents);
    add_all<registry::StoreEffectKind>(points, "store.after.", registry::kStoreEffects);
    add_all<launch::RequestKind>(points, "request.on.", launch::kRequestKinds);
    add_all<launch::RequestKind>(points, "request.after.", launch::kRequestKinds);
    return points;
}

// The broker has no table of its verbs: they are what its sources compare a request's with.
Points broker_points() {
    Points points;
    const std::string mark = "request.verb == \"";
    const std::string directory = std::string(MOSAIC_SOURCE_DIR) + "/src/broker";
    for (const auto& file : std::filesystem::directory_iterator(directory)) {
        const std::string source = read_text(file.path());
        for (size_t at = source.find(mark); at != std::string::npos; at = source.find(mark, at)) {
            at += mark.size();
            const std::string verb = source.substr(at, source.find('"', at) - at);
            for (const char* moment : {"handled", "committed", "answered"}) {
                points.insert("broker." + std::string(moment) + "." + verb);
            }
        }
    }
    REQUIRE(points.size() > 3 * 10);
    return points;
}

// What the scene doesn't come to, and why that is no gap.
const std::map<std::string, std::string>& not_played() {
    static const std::map<std::string, std::string> points = {
        {"run.on.start_failed", "needs a machine without room for a process or a pipe"},
        {"run.on.bind_refused", "needs a broker that refuses what it has just authorized"},
        {"run.on.broker_lost", "a broker dies only in the other half of this test"},
        {"run.on.deliver_failed", "needs a pipe without a reader while the sandbox lives"},
        {"leftover.on.deadline", "needs a process that outlives SIGKILL by ten seconds"},
        {"leftover.after.report_stuck", "the same"},
    };
    return points;
}

// Which of its passes a point kills at: the first two, the last, and one between.
std::set<int> hits_of(int passes) {
    std::set<int> hits = {1, 2, passes / 2 + 1, passes};
    std::erase_if(hits, [&](int hit) { return hit < 1 || hit > passes; });
    return hits;
}

struct Part {
    size_t index = 0;
    size_t of = 1;
};

// MOSAIC_CRASH_PART is "2/4": the second of four parts of the points.
Part part_of_this_run() {
    const char* given = std::getenv("MOSAIC_CRASH_PART");
    if (given == nullptr) {
        return {};
    }
    unsigned index = 0;
    unsigned of = 0;
    REQUIRE(std::sscanf(given, "%u/%u", &index, &of) == 2);
    REQUIRE((index >= 1 && index <= of));
    return {index - 1, of};
}

// MOSAIC_CRASH_POINT limits a run to the points that begin with it.
bool is_wanted(const std::string& point) {
    const char* given = std::getenv("MOSAIC_CRASH_POINT");
    return given == nullptr || point.starts_with(given);
}

void kill_at_each(const Points& points) {
    Stage stage;
    stage.check_and_leave_leftovers();
    // Once without a kill: how often each point is passed.
    stage.play({});
    std::map<std::string, int> hits;
    for (const std::string& point : stage.passed()) {
        ++hits[point];
    }
    stage.check_and_leave_leftovers();
    const Part part = part_of_this_run();
    size_t number = 0;
    int kills = 0;
    for (const std::string& point : points) {
        const int passed = hits[point];
        const bool excused = not_played().contains(point);
        CHECK_MESSAGE((passed > 0 || excused), "the scene never comes to " << point);
        for (const int hit : hits_of(passed)) {
            if (number++ % part.of != part.index || !is_wanted(point)) {
                continue;
            }
            INFO("killed at " << point << ", hit " << hit);
            const int64_t begun = now_ms();
            const bool killed = stage.play({point, hit});
            const int64_t played = now_ms();
            // Later hits depend on what came together in one turn or one replacement.
            CHECK_MESSAGE((killed || hit > 1 || excused), "it wasn't reached this time");
            kills += killed ? 1 : 0;
            stage.check_and_leave_leftovers();
            std::printf("%-36s hit %2d %s %4lld + %4lld ms\n",
                        point.c_str(),
                        hit,
                        killed ? "killed" : "passed",
                        static_cast<long long>(played - begun),
                        static_cast<long long>(now_ms() - played));
            std::fflush(stdout);
        }
    }
    std::printf("%d kills\n", kills);
    stage.start_product();
}

}  // namespace

TEST_CASE("a host killed at any point of its machines loses nothing") {
    kill_at_each(host_points());
}

TEST_CASE("a broker killed at any point around its commit loses nothing") {
    kill_at_each(broker_points());
}
