#include "bench/levels_bench.h"

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

struct LevelMode {
    const char* name;
    const char* key;  // in JSON
    std::vector<Level> without;
    std::vector<int64_t> us{};
};

std::vector<LevelMode> level_modes() {
    const std::vector<Level> hardening = {Level::seccomp,
                                          Level::keyring,
                                          Level::read_only_dev,
                                          Level::shared_memory,
                                          Level::read_only_proc};
    return {
        {"everything", "everything", {}},
        {"no seccomp", "seccomp", {Level::seccomp}},
        {"no keyring of its own", "keyring", {Level::keyring}},
        {"/dev left writable", "readOnlyDev", {Level::read_only_dev}},
        {"no /dev/shm of its own", "sharedMemory", {Level::shared_memory}},
        {"/proc left writable", "readOnlyProc", {Level::read_only_proc}},
        {"none of these five", "hardening", hardening},
        {"user namespaces left open", "usernsClosed", {Level::userns_closed}},
        {"capabilities kept", "capabilities", {Level::capabilities}},
        {"/ left writable", "readOnlyRoot", {Level::read_only_root}},
        {"no IPC, UTS, cgroup namespaces", "namespaces", {Level::namespaces}},
    };
}

void print_report(const Options& options,
                  const json::Value& machine,
                  const std::vector<LevelMode>& modes,
                  const std::string& load_after) {
    const int64_t everything = summarize(modes.front().us).p50;
    if (options.json) {
        json::Value values;
        for (const LevelMode& mode : modes) {
            const Summary s = summarize(mode.us);
            json::Value value;
            value.set("n", s.count);
            value.set("p10", s.p10);
            value.set("p50", s.p50);
            value.set("p90", s.p90);
            value.set("everythingToThis", ratio(everything, s.p50));
            values.set(mode.key, std::move(value));
        }
        json::Value out;
        out.set("machine", machine);
        out.set("microseconds", std::move(values));
        out.set("loadAfter", load_after);
        std::printf("%s\n", json::dump(out).c_str());
        return;
    }
    print_machine(machine);
    std::printf("\n%-31s %5s %8s %8s %8s  %s\n",
                "spawn to claim, ms",
                "n",
                "p10",
                "p50",
                "p90",
                "everything's p50 / this one's");
    for (const LevelMode& mode : modes) {
        const Summary s = summarize(mode.us);
        std::printf("%-31s %5lld %8s %8s %8s  %.3f\n",
                    mode.name,
                    static_cast<long long>(s.count),
                    ms_text(s.p10).c_str(),
                    ms_text(s.p50).c_str(),
                    ms_text(s.p90).c_str(),
                    ratio(everything, s.p50));
    }
    std::printf("\nload after the run: %s\n", load_after.c_str());
}

}  // namespace

Result<void> bench_levels(const Options& options, Waiter& waiter) {
    MOSAIC_TRY_ASSIGN(Scratch scratch, Scratch::make(options.scratch, 1));
    if (options.keep) {
        scratch.keep();
        std::fprintf(stderr, "scratch directory: %s\n", scratch.root().c_str());
    }
    const json::Value machine = machine_facts(scratch.root());
    HostProcess host(scratch, waiter, options.prefix);
    Product product(scratch, waiter);
    MOSAIC_TRY(host.start());
    MOSAIC_TRY(product.connect());
    MOSAIC_TRY(product.launch(0, 1, 1));
    MOSAIC_TRY_ASSIGN(const Template model, read_template(scratch));
    MOSAIC_TRY_ASSIGN(Baseline baseline, Baseline::make(scratch, waiter, model, options.runner, 1));
    MOSAIC_TRY(product.stop(0, 1));

    std::vector<LevelMode> modes = level_modes();
    for (const LevelMode& mode : modes) {
        MOSAIC_TRY(baseline.launch_without(mode.without));
    }
    std::mt19937_64 random(options.seed != 0 ? options.seed : std::random_device{}());
    const int each = (options.launches + options.rounds - 1) / options.rounds;
    for (int round = 0; round < options.rounds; ++round) {
        std::vector<size_t> order;
        for (size_t i = 0; i < modes.size(); ++i) {
            order.insert(order.end(), static_cast<size_t>(each), i);
        }
        std::shuffle(order.begin(), order.end(), random);
        for (const size_t i : order) {
            MOSAIC_TRY_ASSIGN(const Group group, baseline.launch_without(modes[i].without));
            modes[i].us.push_back(group.samples.front().wall_us);
        }
        std::fprintf(stderr, "block %d of %d\n", round + 1, options.rounds);
    }
    const std::string load = load_average();
    MOSAIC_TRY(host.stop());
    print_report(options, machine, modes, load);
    return {};
}

}  // namespace mosaic::bench
