#include "bench/report.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "bench/scratch.h"
#include "bench/statistics.h"

namespace mosaic::bench {
namespace {

// From where to where a row measures.
using Clock = int64_t Sample::*;

struct Row {
    const char* name;  // for people
    const char* key;   // in JSON
    Mode mode;
    Clock clock;
};

constexpr std::array<Row, 8> kAllRows = {{
    {"product", "product", Mode::product, &Sample::claim_us},
    {"product, as the caller sees it", "productWall", Mode::product, &Sample::wall_us},
    {"warm seat", "warm", Mode::warm, &Sample::claim_us},
    {"warm seat, from its capability", "warmGiven", Mode::warm, &Sample::given_us},
    {"warm seat, as the caller sees it", "warmWall", Mode::warm, &Sample::wall_us},
    {"B: bwrap alone", "bwrap", Mode::bwrap, &Sample::claim_us},
    {"bare: the runner, no sandbox", "bare", Mode::bare, &Sample::claim_us},
    {"Node.js launcher", "node", Mode::node, &Sample::claim_us},
}};

// Those of the modes that were measured.
std::vector<Row> rows_of(const LaunchReport& report) {
    std::vector<Row> out;
    std::copy_if(kAllRows.begin(), kAllRows.end(), std::back_inserter(out), [&](const Row& row) {
        return (row.mode != Mode::warm || report.options.warm) &&
               (row.mode != Mode::node || !report.options.node.empty());
    });
    return out;
}

const Measured& of(const LaunchReport& report, Mode mode) {
    return report.modes[static_cast<size_t>(mode)];
}

std::vector<int64_t> times(const std::vector<Sample>& samples, Clock clock) {
    std::vector<int64_t> out;
    out.reserve(samples.size());
    for (const Sample& sample : samples) {
        out.push_back(sample.*clock);
    }
    return out;
}

std::vector<int64_t> all_times(const Measured& measured, Clock clock) {
    std::vector<int64_t> out;
    for (const std::vector<Sample>& block : measured.blocks) {
        const std::vector<int64_t> some = times(block, clock);
        out.insert(out.end(), some.begin(), some.end());
    }
    return out;
}

double rate(const Measured& measured) {
    size_t count = 0;
    for (const std::vector<Sample>& block : measured.blocks) {
        count += block.size();
    }
    return measured.elapsed_us == 0
               ? 0.0
               : 1e6 * static_cast<double>(count) / static_cast<double>(measured.elapsed_us);
}

// The blocks' p50s of one mode.
std::vector<int64_t> block_medians(const Measured& measured) {
    std::vector<int64_t> out;
    for (const std::vector<Sample>& block : measured.blocks) {
        out.push_back(percentile(times(block, &Sample::claim_us), 50));
    }
    return out;
}

struct Spread {
    std::vector<int64_t> product, bwrap;  // p50 of each block
    std::vector<double> ratios;           // product / B of each block
};

Spread spread_of(const LaunchReport& report) {
    Spread out;
    out.product = block_medians(of(report, Mode::product));
    out.bwrap = block_medians(of(report, Mode::bwrap));
    for (size_t i = 0; i < std::min(out.product.size(), out.bwrap.size()); ++i) {
        out.ratios.push_back(ratio(out.product[i], out.bwrap[i]));
    }
    return out;
}

template <class T>
T least(const std::vector<T>& values) {
    return values.empty() ? T{} : *std::min_element(values.begin(), values.end());
}

template <class T>
T most(const std::vector<T>& values) {
    return values.empty() ? T{} : *std::max_element(values.begin(), values.end());
}

void print_modes(const LaunchReport& report) {
    std::printf("\n%-33s %5s %8s %8s %8s %8s %7s %7s %7s\n",
                "launch to claim, ms",
                "n",
                "p10",
                "p50",
                "p90",
                "p99",
                "per s",
                "p50/B",
                "p99/B");
    const Summary base = summarize(all_times(of(report, Mode::bwrap), &Sample::claim_us));
    for (const Row& row : rows_of(report)) {
        const Measured& measured = of(report, row.mode);
        const Summary s = summarize(all_times(measured, row.clock));
        std::printf("%-33s %5lld %8s %8s %8s %8s %7.1f %7.2f %7.2f\n",
                    row.name,
                    static_cast<long long>(s.count),
                    ms_text(s.p10).c_str(),
                    ms_text(s.p50).c_str(),
                    ms_text(s.p90).c_str(),
                    ms_text(s.p99).c_str(),
                    rate(measured),
                    ratio(s.p50, base.p50),
                    ratio(s.p99, base.p99));
    }
}

// The product's against the Node.js launcher's.
struct ToNode {
    double p50 = 0;
    double p99 = 0;
    double wall_p50 = 0;  // the product's as the caller sees it
};

ToNode to_node(const LaunchReport& report) {
    const Summary node = summarize(all_times(of(report, Mode::node), &Sample::claim_us));
    const Summary ours = summarize(all_times(of(report, Mode::product), &Sample::claim_us));
    const Summary wall = summarize(all_times(of(report, Mode::product), &Sample::wall_us));
    return {ratio(ours.p50, node.p50), ratio(ours.p99, node.p99), ratio(wall.p50, node.p50)};
}

void print_to_node(const LaunchReport& report) {
    if (!report.options.with_node) {
        return;
    }
    if (report.options.node.empty()) {
        std::printf("\nthere is no Node.js here: its launcher was left out\n");
        return;
    }
    const ToNode to = to_node(report);
    std::printf(
        "\nthe product's time over the Node.js launcher's: p50 %.2f, p99 %.2f; p50 as the caller "
        "sees it %.2f\n",
        to.p50,
        to.p99,
        to.wall_p50);
}

void print_stages(const LaunchReport& report) {
    std::printf("\n%-33s %5s %8s %8s %8s %8s\n",
                "where the product's goes, ms",
                "",
                "p10",
                "p50",
                "p90",
                "p99");
    for (const StageTimes& stage : report.stages) {
        const Summary s = summarize(stage.us);
        std::printf("  %-31s %5s %8s %8s %8s %8s\n",
                    stage.name.c_str(),
                    "",
                    ms_text(s.p10).c_str(),
                    ms_text(s.p50).c_str(),
                    ms_text(s.p90).c_str(),
                    ms_text(s.p99).c_str());
    }
}

void print_spread(const LaunchReport& report) {
    const Spread spread = spread_of(report);
    std::printf(
        "\nnoise: over %zu blocks the p50 of B went from %s to %s ms, the product's from %s "
        "to %s, their ratio from %.2f to %.2f\n",
        spread.ratios.size(),
        ms_text(least(spread.bwrap)).c_str(),
        ms_text(most(spread.bwrap)).c_str(),
        ms_text(least(spread.product)).c_str(),
        ms_text(most(spread.product)).c_str(),
        least(spread.ratios),
        most(spread.ratios));
    std::printf("load after the run: %s; in flight: %d, in groups of %d; live beside it: %d\n",
                report.load_after.c_str(),
                report.options.in_flight,
                report.group,
                report.options.live);
    if (report.without_seccomp) {
        std::printf("B runs without the product's seccomp program\n");
    }
}

json::Value summary_value(const Summary& s) {
    json::Value out;
    out.set("n", s.count);
    out.set("p10", s.p10);
    out.set("p50", s.p50);
    out.set("p90", s.p90);
    out.set("p99", s.p99);
    return out;
}

json::Value options_value(const Options& options) {
    json::Value out;
    out.set("launches", options.launches);
    out.set("inFlight", options.in_flight);
    out.set("live", options.live);
    out.set("rounds", options.rounds);
    out.set("warm", options.warm);
    out.set("node", !options.node.empty());
    return out;
}

template <class T>
json::Value list_value(const std::vector<T>& values) {
    json::Array out;
    for (const T& value : values) {
        out.emplace_back(value);
    }
    return json::Value(std::move(out));
}

void print_launch_json(const LaunchReport& report) {
    json::Value out;
    out.set("machine", report.machine);
    out.set("options", options_value(report.options));
    out.set("group", report.group);
    json::Value modes;
    const Summary base = summarize(all_times(of(report, Mode::bwrap), &Sample::claim_us));
    for (const Row& row : rows_of(report)) {
        const Measured& measured = of(report, row.mode);
        const Summary s = summarize(all_times(measured, row.clock));
        json::Value value = summary_value(s);
        value.set("perSecond", rate(measured));
        value.set("p50ToB", ratio(s.p50, base.p50));
        value.set("p99ToB", ratio(s.p99, base.p99));
        modes.set(row.key, std::move(value));
    }
    out.set("microseconds", std::move(modes));
    if (!report.options.node.empty()) {
        const ToNode to = to_node(report);
        json::Value value;
        value.set("p50", to.p50);
        value.set("p99", to.p99);
        value.set("wallP50", to.wall_p50);
        out.set("productToNode", std::move(value));
    }
    json::Value stages;
    for (const StageTimes& stage : report.stages) {
        stages.set(stage.name, summary_value(summarize(stage.us)));
    }
    out.set("stages", std::move(stages));
    const Spread spread = spread_of(report);
    json::Value blocks;
    blocks.set("productP50", list_value(spread.product));
    blocks.set("bwrapP50", list_value(spread.bwrap));
    blocks.set("ratio", list_value(spread.ratios));
    out.set("blocks", std::move(blocks));
    out.set("withoutSeccomp", report.without_seccomp);
    out.set("loadAfter", report.load_after);
    std::printf("%s\n", json::dump(out).c_str());
}

json::Value round_value(const MemoryRound& round) {
    json::Value out;
    out.set("availableDrop", round.available_drop);
    out.set("returned", round.returned);
    out.set("slab", round.slab);
    out.set("pageTables", round.page_tables);
    out.set("kernelStacks", round.kernel_stacks);
    out.set("anonymous", round.anonymous);
    out.set("counted", round.counted());
    out.set("host", round.host);
    out.set("broker", round.broker);
    return out;
}

void print_memory_json(const MemoryReport& report) {
    json::Value out;
    out.set("machine", report.machine);
    out.set("options", options_value(report.options));
    json::Array rounds;
    for (const MemoryRound& round : report.rounds) {
        rounds.push_back(round_value(round));
    }
    out.set("kib", json::Value(std::move(rounds)));
    out.set("hostResident", report.host_resident);
    out.set("brokerResident", report.broker_resident);
    out.set("loadAfter", report.load_after);
    std::printf("%s\n", json::dump(out).c_str());
}

struct FairnessRow {
    const char* name;
    const char* key;
    Summary quiet;
    Summary flooded;
};

std::array<FairnessRow, 2> fairness_rows(const FairnessReport& report) {
    return {
        {{"claim", "claim", summarize(report.quiet.claim_us), summarize(report.flooded.claim_us)},
         {"message",
          "message",
          summarize(report.quiet.message_us),
          summarize(report.flooded.message_us)}}};
}

double flood_rate(const FairnessReport& report) {
    return report.flood_us == 0 ? 0.0
                                : 1e6 * static_cast<double>(report.flood_answers) /
                                      static_cast<double>(report.flood_us);
}

void print_fairness_json(const FairnessReport& report) {
    json::Value out;
    out.set("machine", report.machine);
    json::Value options;
    options.set("sessions", report.options.sessions);
    options.set("messages", report.options.messages);
    options.set("rounds", report.options.rounds);
    out.set("options", std::move(options));
    json::Value rows;
    for (const FairnessRow& row : fairness_rows(report)) {
        json::Value value;
        value.set("quiet", summary_value(row.quiet));
        value.set("flooded", summary_value(row.flooded));
        value.set("p50Ratio", ratio(row.flooded.p50, row.quiet.p50));
        value.set("p99Ratio", ratio(row.flooded.p99, row.quiet.p99));
        rows.set(row.key, std::move(value));
    }
    out.set("microseconds", std::move(rows));
    out.set("floodPerSecond", flood_rate(report));
    out.set("loadAfter", report.load_after);
    std::printf("%s\n", json::dump(out).c_str());
}

}  // namespace

void print_machine(const json::Value& machine) {
    for (const json::Member& member : *machine.object()) {
        const std::string* text = member.second.string();
        std::printf("%-11s %s\n",
                    member.first.c_str(),
                    text != nullptr ? text->c_str() : json::dump(member.second).c_str());
    }
}

std::string ms_text(int64_t us) {
    std::array<char, 32> text{};
    std::snprintf(
        text.data(), text.size(), us < 100'000 ? "%.2f" : "%.0f", static_cast<double>(us) / 1000);
    return text.data();
}

Result<void> write_plot(const std::string& directory, const std::string& name, const Plot& plot) {
    if (directory.empty()) {
        return {};
    }
    MOSAIC_TRY(make_directories(directory));
    MOSAIC_TRY(write_file(directory + "/" + name, svg(plot)));
    std::fprintf(stderr, "plot: %s/%s\n", directory.c_str(), name.c_str());
    return {};
}

void print_launch_report(const LaunchReport& report) {
    if (report.options.json) {
        print_launch_json(report);
        return;
    }
    print_machine(report.machine);
    print_modes(report);
    print_to_node(report);
    print_stages(report);
    print_spread(report);
}

Plot launch_plot(const LaunchReport& report) {
    Plot out;
    out.title = "Launch to claim";
    out.note = std::to_string(report.options.launches) +
               " launches of each, in flight: " + std::to_string(report.options.in_flight) +
               ", live beside: " + std::to_string(report.options.live);
    out.x_label = "milliseconds";
    out.y_label = "part of the launches at or below";
    out.y_max = 1;
    for (const Row& row : rows_of(report)) {
        const std::vector<int64_t> us = all_times(of(report, row.mode), row.clock);
        const Summary s = summarize(us);
        // Beyond it only a few of the slowest mode are left, which would press all else together.
        out.x_max = std::max(out.x_max, 1.1 * static_cast<double>(s.p90) / 1000);
        out.curves.push_back(distribution(std::string(row.name) + ": p50 " + ms_text(s.p50), us));
    }
    return out;
}

void print_memory_report(const MemoryReport& report) {
    if (report.options.json) {
        print_memory_json(report);
        return;
    }
    print_machine(report.machine);
    std::printf("\nKiB a session, at %d live\n%5s %12s %8s  %7s = %5s %11s %6s %9s %5s %6s\n",
                report.options.live,
                "round",
                "MemAvailable",
                "returned",
                "counted",
                "slab",
                "page tables",
                "stacks",
                "anonymous",
                "host",
                "broker");
    const auto each = [&](int64_t kib) {
        return static_cast<double>(kib) / std::max(report.options.live, 1);
    };
    int number = 0;
    for (const MemoryRound& round : report.rounds) {
        std::printf("%5d %12.1f %8.1f  %7.1f = %5.1f %11.1f %6.1f %9.1f %5.1f %6.1f\n",
                    ++number,
                    each(round.available_drop),
                    each(round.returned),
                    each(round.counted()),
                    each(round.slab),
                    each(round.page_tables),
                    each(round.kernel_stacks),
                    each(round.anonymous),
                    each(round.host),
                    each(round.broker));
    }
    std::printf("\nresident at %d live: host %lld KiB, broker %lld KiB; load after the run: %s\n",
                report.options.live,
                static_cast<long long>(report.host_resident),
                static_cast<long long>(report.broker_resident),
                report.load_after.c_str());
}

void print_fairness_report(const FairnessReport& report) {
    if (report.options.json) {
        print_fairness_json(report);
        return;
    }
    print_machine(report.machine);
    std::printf(
        "\n%-20s %6s %8s %8s %8s %8s\n", "at the broker, ms", "n", "p10", "p50", "p90", "p99");
    for (const FairnessRow& row : fairness_rows(report)) {
        for (const bool flooded : {false, true}) {
            const Summary& s = flooded ? row.flooded : row.quiet;
            const std::string name = std::string(row.name) + (flooded ? ", beside a flood" : "");
            std::printf("%-20s %6lld %8s %8s %8s %8s\n",
                        name.c_str(),
                        static_cast<long long>(s.count),
                        ms_text(s.p10).c_str(),
                        ms_text(s.p50).c_str(),
                        ms_text(s.p90).c_str(),
                        ms_text(s.p99).c_str());
        }
        std::printf("%-20s %6s %8s %8.2f %8s %8.2f\n",
                    "  flooded to quiet",
                    "",
                    "",
                    ratio(row.flooded.p50, row.quiet.p50),
                    "",
                    ratio(row.flooded.p99, row.quiet.p99));
    }
    std::printf("\nthe flood had %.0f answers a second; load after the run: %s\n",
                flood_rate(report),
                report.load_after.c_str());
}

}  // namespace mosaic::bench
