#include "bench/launch_bench.h"

#include <algorithm>
#include <cstdio>
#include <random>

#include "bench/baseline.h"
#include "bench/host_process.h"
#include "bench/machine.h"
#include "bench/product.h"
#include "bench/report.h"
#include "bench/scratch.h"
#include "bench/statistics.h"

namespace mosaic::bench {
namespace {

// With launches in flight at once, a group of this many times as many: its filling and draining
// then weigh little.
constexpr int kGroupFactor = 4;
constexpr int kLiveInFlight = 4;
// In Product::stage_names().
constexpr size_t kPrepared = 2;
constexpr size_t kBound = 4;

// One mode's turn: so many launches together.
struct Unit {
    Mode mode;
    int count;
};

std::vector<Mode> modes_of(const Options& options) {
    std::vector<Mode> out = {Mode::product, Mode::bwrap, Mode::bare};
    if (options.warm) {
        out.push_back(Mode::warm);
    }
    if (!options.node.empty()) {
        out.push_back(Mode::node);
    }
    return out;
}

std::vector<Unit> shuffled_units(const Options& options,
                                 int each,
                                 int group,
                                 std::mt19937_64& random) {
    std::vector<Unit> out;
    for (const Mode mode : modes_of(options)) {
        for (int left = each; left > 0; left -= group) {
            out.push_back({mode, std::min(left, group)});
        }
    }
    std::shuffle(out.begin(), out.end(), random);
    return out;
}

class LaunchBench {
  public:
    LaunchBench(const Options& options, Waiter& waiter, Scratch& scratch)
        : waiter_(waiter),
          scratch_(scratch),
          host_(scratch, waiter, options.prefix),
          product_(scratch, waiter) {
        report_.options = options;
        report_.group = group_size(options);
    }

    static int group_size(const Options& options) {
        return options.in_flight == 1
                   ? 1
                   : std::min(options.launches, kGroupFactor * options.in_flight);
    }

    Result<void> run() {
        const Options& options = report_.options;
        report_.machine = machine_facts(scratch_.root());
        if (!options.node.empty()) {
            report_.machine.set("node", node_version(options.node));
        }
        MOSAIC_TRY(host_.start());
        MOSAIC_TRY(product_.connect());
        MOSAIC_TRY(prepare());
        std::mt19937_64 random(options.seed != 0 ? options.seed : std::random_device{}());
        for (int round = 0; round < options.rounds; ++round) {
            MOSAIC_TRY(block(round, random));
        }
        report_.load_after = load_average();
        MOSAIC_TRY(host_.stop());
        MOSAIC_TRY(fill_in_stages());
        print_launch_report(report_);
        return write_plot(options.svg, "launch.svg", launch_plot(report_));
    }

  private:
    // Takes the template of B from a first launch, brings up the live sessions, and launches each
    // mode once unmeasured.
    Result<void> prepare() {
        const Options& options = report_.options;
        MOSAIC_TRY(product_.launch(options.live, 1, 1));
        MOSAIC_TRY_ASSIGN(const Template model, read_template(scratch_));
        MOSAIC_TRY_ASSIGN(Baseline baseline,
                          Baseline::make(scratch_, waiter_, model, options.runner, report_.group));
        baseline_.emplace(std::move(baseline));
        report_.without_seccomp = baseline_->without_seccomp();
        if (!options.node.empty()) {
            MOSAIC_TRY(baseline_->use_node(scratch_, options.node));
        }
        MOSAIC_TRY(product_.stop(options.live, 1));
        if (options.live > 0) {
            std::fprintf(stderr, "launching %d sessions to live beside\n", options.live);
            MOSAIC_TRY(product_.launch(0, options.live, kLiveInFlight));
        }
        for (const Mode mode : modes_of(options)) {
            MOSAIC_TRY(measure({mode, report_.group}));
        }
        return {};
    }

    Result<Group> measure(const Unit& unit) {
        const Options& options = report_.options;
        switch (unit.mode) {
            case Mode::product: {
                auto group = product_.launch(options.live, unit.count, options.in_flight);
                if (group) {
                    MOSAIC_TRY(product_.stop(options.live, unit.count));
                }
                return group;
            }
            case Mode::bwrap:
                return baseline_->launch(Plain::bwrap, unit.count, options.in_flight);
            case Mode::warm: {
                // Their seats come after the product's. What is made behind a launch is awaited
                // before anything else is measured.
                const int first = options.live + report_.group;
                MOSAIC_TRY(product_.wait_warm(first, unit.count));
                auto group = product_.launch(first, unit.count, options.in_flight);
                if (group) {
                    MOSAIC_TRY(product_.stop(first, unit.count));
                    MOSAIC_TRY(product_.wait_warm(first, unit.count));
                }
                return group;
            }
            case Mode::bare:
                return baseline_->launch(Plain::bare, unit.count, options.in_flight);
            case Mode::node:
                return baseline_->launch(Plain::node, unit.count, options.in_flight);
        }
        return fail(Code::invalid, "no such mode");
    }

    Result<void> block(int round, std::mt19937_64& random) {
        const Options& options = report_.options;
        for (Measured& mode : report_.modes) {
            mode.blocks.emplace_back();
        }
        const int each = (options.launches + options.rounds - 1) / options.rounds;
        for (const Unit& unit : shuffled_units(options, each, report_.group, random)) {
            MOSAIC_TRY_ASSIGN(const Group group, measure(unit));
            Measured& mode = report_.modes[static_cast<size_t>(unit.mode)];
            mode.elapsed_us += group.elapsed_us;
            std::vector<Sample>& samples = mode.blocks.back();
            samples.insert(samples.end(), group.samples.begin(), group.samples.end());
        }
        say_progress(round);
        return {};
    }

    void say_progress(int round) const {
        std::array<int64_t, kModes> p50{};
        for (size_t i = 0; i < kModes; ++i) {
            std::vector<int64_t> walls;
            for (const Sample& sample : report_.modes[i].blocks.back()) {
                walls.push_back(sample.wall_us);
            }
            p50[i] = percentile(std::move(walls), 50);
        }
        std::fprintf(
            stderr,
            "block %d of %d: product %s ms as the caller sees it, B %s, bare %s%s%s; load %s\n",
            round + 1,
            report_.options.rounds,
            ms_text(p50[0]).c_str(),
            ms_text(p50[1]).c_str(),
            ms_text(p50[2]).c_str(),
            report_.options.warm ? (", warm " + ms_text(p50[3])).c_str() : "",
            report_.options.node.empty() ? "" : (", Node.js " + ms_text(p50[4])).c_str(),
            load_average().c_str());
    }

    // The product's samples get the host's own time of the claim.
    Result<void> fill_in_stages() {
        MOSAIC_TRY_ASSIGN(const auto by_run, product_.read_stages());
        for (const std::string& name : Product::stage_names()) {
            report_.stages.push_back({name, {}});
        }
        for (auto& block : report_.modes[static_cast<size_t>(Mode::product)].blocks) {
            for (Sample& sample : block) {
                const auto found = by_run.find(sample.run);
                if (found == by_run.end()) {
                    return fail(Code::missing, "the launch log has no line of " + sample.run);
                }
                sample.claim_us = found->second.at.back();
                int64_t before = 0;
                for (size_t i = 0; i < report_.stages.size(); ++i) {
                    report_.stages[i].us.push_back(found->second.at[i] - before);
                    before = found->second.at[i];
                }
            }
        }
        for (auto& block : report_.modes[static_cast<size_t>(Mode::warm)].blocks) {
            for (Sample& sample : block) {
                const auto found = by_run.find(sample.run);
                if (found == by_run.end()) {
                    return fail(Code::missing, "the launch log has no line of " + sample.run);
                }
                const std::vector<int64_t>& at = found->second.at;
                if (at[kPrepared] != 0) {
                    return fail(Code::invalid, sample.run + " didn't come from a warm seat");
                }
                sample.claim_us = at.back();
                sample.given_us = at.back() - at[kBound];
            }
        }
        return {};
    }

    Waiter& waiter_;
    Scratch& scratch_;
    HostProcess host_;
    Product product_;
    std::optional<Baseline> baseline_;
    LaunchReport report_;
};

}  // namespace

Result<void> bench_launch(const Options& options, Waiter& waiter) {
    const int group = LaunchBench::group_size(options);
    const int warm = options.warm ? group : 0;
    MOSAIC_TRY_ASSIGN(Scratch scratch,
                      Scratch::make(options.scratch, options.live + group + warm, warm));
    if (options.keep) {
        scratch.keep();
        std::fprintf(stderr, "scratch directory: %s\n", scratch.root().c_str());
    }
    return LaunchBench(options, waiter, scratch).run();
}

}  // namespace mosaic::bench
