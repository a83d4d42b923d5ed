#include "bench/live_report.h"

#include <algorithm>
#include <cstdio>

#include "bench/report.h"
#include "bench/statistics.h"

namespace mosaic::bench {
namespace {

struct LevelRow {
    int live = 0;
    Summary product;
    Summary bwrap;
    // The p50s over those beside the fewest sessions, and the one growth over the other.
    double product_growth = 0;
    double bwrap_growth = 0;
    double growth_to_bwrap = 0;
};

std::vector<LevelRow> rows_of(const LiveReport& report) {
    std::vector<LevelRow> out;
    for (const LiveLevel& level : report.levels) {
        LevelRow row;
        row.live = level.live;
        row.product = summarize(level.product);
        row.bwrap = summarize(level.bwrap);
        const LevelRow& first = out.empty() ? row : out.front();
        row.product_growth = ratio(row.product.p50, first.product.p50);
        row.bwrap_growth = ratio(row.bwrap.p50, first.bwrap.p50);
        row.growth_to_bwrap = row.bwrap_growth == 0 ? 0 : row.product_growth / row.bwrap_growth;
        out.push_back(row);
    }
    return out;
}

int most_of(const LiveReport& report) {
    return std::max(report.levels.back().live, 1);
}

double per_session(const LiveReport& report, int64_t kib) {
    return static_cast<double>(kib) / most_of(report);
}

double seconds_of(int64_t us) {
    return static_cast<double>(us) / 1e6;
}

double replacements_each(const LiveReport& report) {
    return static_cast<double>(report.file_replacements) / most_of(report);
}

json::Value p50_value(const Summary& s) {
    json::Value out;
    out.set("n", s.count);
    out.set("p50", s.p50);
    out.set("p90", s.p90);
    out.set("p99", s.p99);
    return out;
}

void print_json(const LiveReport& report) {
    json::Array levels;
    for (const LevelRow& row : rows_of(report)) {
        json::Value level;
        level.set("live", row.live);
        level.set("product", p50_value(row.product));
        level.set("bwrap", p50_value(row.bwrap));
        level.set("productGrowth", row.product_growth);
        level.set("bwrapGrowth", row.bwrap_growth);
        level.set("growthToB", row.growth_to_bwrap);
        levels.push_back(std::move(level));
    }
    json::Value kib;
    kib.set("availableDropEach", per_session(report, report.memory.available_drop));
    kib.set("countedEach", per_session(report, report.memory.counted()));
    kib.set("hostResident", report.host_resident);
    kib.set("brokerResident", report.broker_resident);
    json::Value us;
    us.set("ps", percentile(report.ps_us, 50));
    us.set("stopAll", percentile(report.stop_us, 50));
    us.set("hostStarts", report.host_start_us);
    us.set("launchAll", report.launch_us);
    us.set("spawnCall", report.spawn_us);
    us.set("nextHostServes", report.ready_us);
    us.set("nextHostNothingLeft", report.recovered_us);
    us.set("hostEnds", report.end_us);
    json::Value idle;
    idle.set("microseconds", report.idle_us);
    idle.set("hostWakeups", report.host_wakeups);
    idle.set("brokerWakeups", report.broker_wakeups);
    json::Value out;
    out.set("machine", report.machine);
    out.set("launches", report.options.launches);
    out.set("levels", json::Value(std::move(levels)));
    out.set("kib", std::move(kib));
    out.set("microseconds", std::move(us));
    out.set("idle", std::move(idle));
    out.set("replacementsPerLaunch", replacements_each(report));
    out.set("processesLeft", report.left);
    out.set("loadAfter", report.load_after);
    std::printf("%s\n", json::dump(out).c_str());
}

void print_levels(const LiveReport& report) {
    std::printf("\n%-8s %6s %9s %9s %9s %9s %9s %9s %11s\n",
                "live",
                "n",
                "product",
                "p90",
                "B",
                "p90",
                "grows by",
                "B's",
                "growth / B's");
    for (const LevelRow& row : rows_of(report)) {
        std::printf("%-8d %6lld %9s %9s %9s %9s %9.2f %9.2f %11.2f\n",
                    row.live,
                    static_cast<long long>(row.product.count),
                    ms_text(row.product.p50).c_str(),
                    ms_text(row.product.p90).c_str(),
                    ms_text(row.bwrap.p50).c_str(),
                    ms_text(row.bwrap.p90).c_str(),
                    row.product_growth,
                    row.bwrap_growth,
                    row.growth_to_bwrap);
    }
}

}  // namespace

void print_live_report(const LiveReport& report) {
    if (report.options.json) {
        print_json(report);
        return;
    }
    print_machine(report.machine);
    std::printf("\nlaunch to claim, p50 in ms");
    print_levels(report);
    std::printf("\nwith %d live\n", report.levels.back().live);
    std::printf("  the host starts           %.2f s, with nothing to recover\n",
                seconds_of(report.host_start_us));
    std::printf("  a session's memory        %.1f KiB of MemAvailable, %.1f counted\n",
                per_session(report, report.memory.available_drop),
                per_session(report, report.memory.counted()));
    std::printf("  resident                  host %lld KiB, broker %lld KiB\n",
                static_cast<long long>(report.host_resident),
                static_cast<long long>(report.broker_resident));
    std::printf("  wake-ups in %.1f s idle    host %lld, broker %lld\n",
                seconds_of(report.idle_us),
                static_cast<long long>(report.host_wakeups),
                static_cast<long long>(report.broker_wakeups));
    std::printf("  mosaic ps                 %s ms\n",
                ms_text(percentile(report.ps_us, 50)).c_str());
    std::printf(
        "  launched, 16 in flight    %.2f s (%.1f a second); p50 of a spawn call %s ms, "
        "%.2f replacements of sessions.json a launch\n",
        seconds_of(report.launch_us),
        report.launch_us == 0 ? 0.0 : most_of(report) / seconds_of(report.launch_us),
        ms_text(static_cast<int64_t>(report.spawn_us)).c_str(),
        replacements_each(report));
    std::printf("  stopped one by one        %.2f s, 16 requests at once\n",
                seconds_of(percentile(report.stop_us, 50)));
    std::printf(
        "  host killed               the next one serves after %.2f s; nothing is left "
        "after %.2f s; processes left then: %lld\n",
        seconds_of(report.ready_us),
        seconds_of(report.recovered_us),
        static_cast<long long>(report.left));
    std::printf("  host stopped by SIGTERM   %.2f s until it and all have ended\n",
                seconds_of(report.end_us));
    std::printf("\nload after the run: %s\n", report.load_after.c_str());
}

Plot live_plot(const LiveReport& report) {
    Plot out;
    out.title = "Launch to claim beside live sessions";
    out.note = std::to_string(report.options.launches) + " launches of each beside so many, p50";
    out.x_label = "live sessions";
    out.y_label = "milliseconds";
    out.dots = true;
    Curve product{"product", {}};
    Curve bwrap{"B: bwrap alone", {}};
    for (const LevelRow& row : rows_of(report)) {
        const double x = row.live;
        product.points.emplace_back(x, static_cast<double>(row.product.p50) / 1000);
        bwrap.points.emplace_back(x, static_cast<double>(row.bwrap.p50) / 1000);
        out.x_max = std::max(out.x_max, x);
        out.y_max = std::max({out.y_max, product.points.back().second, bwrap.points.back().second});
    }
    out.curves = {std::move(product), std::move(bwrap)};
    return out;
}

}  // namespace mosaic::bench
