// mosaic-bench: launch-to-claim of the real host against baselines, the memory of its sessions, and
// what one session's flood does to another.

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/fairness_bench.h"
#include "bench/flooder.h"
#include "bench/launch_bench.h"
#include "bench/levels_bench.h"
#include "bench/live_bench.h"
#include "bench/machine.h"
#include "bench/memory_bench.h"
#include "bench/options.h"
#include "bench/waiter.h"

namespace mosaic::bench {
namespace {

constexpr int kFine = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 4;
constexpr int kSkipped = 77;  // ctest's SKIP_RETURN_CODE
constexpr const char* kScratchDefault = "/var/tmp";
constexpr int kSessionsMax = 2000;

// The directory above the one that holds this program: bin/ of a build or an installation.
std::string own_prefix() {
    std::array<char, PATH_MAX> text{};
    const ssize_t n = ::readlink("/proc/self/exe", text.data(), text.size());
    std::string path(text.data(), n > 0 ? static_cast<size_t>(n) : 0);
    for (int i = 0; i < 2; ++i) {
        path.erase(std::min(path.rfind('/'), path.size()));
    }
    return path;
}

// Where a build tree and an installation have it.
std::string find_runner(const std::string& prefix) {
    for (const char* place : {"/libexec/mosaic/mosaic-runner", "/bin/mosaic-runner"}) {
        if (::access((prefix + place).c_str(), X_OK) == 0) {
            return prefix + place;
        }
    }
    return "";
}

// Many sessions need many descriptors, and the host inherits what is allowed here.
void raise_limits() {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        ignore(::setrlimit(RLIMIT_NOFILE, &files), "the host says it when there are too few");
    }
}

// Empty when there is none that runs.
std::string find_node() {
    for (const char* path : {"/usr/local/bin/node", "/usr/bin/node"}) {
        if (::access(path, X_OK) == 0 && !node_version(path).empty()) {
            return path;
        }
    }
    return "";
}

int skip(const std::string& why) {
    const char* must = std::getenv("MOSAIC_MUST_WORK");
    const bool fails = must != nullptr && std::strcmp(must, "1") == 0;
    std::fprintf(stderr, "mosaic-bench: %s\n", why.c_str());
    return fails ? kFailed : kSkipped;
}

void add_common(CLI::App& command, Options& options) {
    command.add_flag("--json", options.json, "print one JSON object instead of tables");
    command.add_flag("--keep", options.keep, "leave the scratch directory");
    command.add_option("--scratch", options.scratch, "where it is made; not under /tmp")
        ->capture_default_str();
    command.add_option("--prefix", options.prefix, "where the product is installed")
        ->capture_default_str();
}

int run(int argc, char** argv) {
    Options options;
    options.scratch = kScratchDefault;
    options.prefix = own_prefix();
    CLI::App app("Measures mosaic-host: docs/performance.md", "mosaic-bench");
    app.require_subcommand(1);
    CLI::App* launch =
        app.add_subcommand("launch", "launch to claim: the product, bwrap alone, the runner alone");
    launch->add_option("--launches", options.launches, "of each mode")
        ->check(CLI::Range(1, 100'000))
        ->capture_default_str();
    launch->add_option("--in-flight", options.in_flight, "launches under way at once")
        ->check(CLI::Range(1, 64))
        ->capture_default_str();
    launch->add_option("--live", options.live, "sessions that run beside the measurements")
        ->check(CLI::Range(0, kSessionsMax - 2 * 4 * 64))
        ->capture_default_str();
    launch->add_option("--rounds", options.rounds, "blocks to divide the measurements into")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    launch->add_flag("--warm", options.warm, "launches of seats that are kept warm, too");
    launch->add_flag(
        "--node", options.with_node, "a launcher in Node.js, too, where there is node");
    launch->add_option("--svg", options.svg, "a directory for the plot launch.svg");
    launch->add_option("--seed", options.seed, "of the shuffle; 0: a new one");
    add_common(*launch, options);
    CLI::App* levels = app.add_subcommand("levels", "what each level of protection costs a launch");
    levels->add_option("--launches", options.launches, "of each mode")
        ->check(CLI::Range(1, 100'000))
        ->capture_default_str();
    levels->add_option("--rounds", options.rounds, "blocks to divide the measurements into")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    levels->add_option("--seed", options.seed, "of the shuffle; 0: a new one");
    add_common(*levels, options);
    CLI::App* memory = app.add_subcommand("memory", "what an idle session costs");
    memory->add_option("--live", options.live, "idle sessions")
        ->required()
        ->check(CLI::Range(1, kSessionsMax));
    int memory_rounds = 3;
    memory->add_option("--rounds", memory_rounds, "how often")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    add_common(*memory, options);
    CLI::App* live = app.add_subcommand(
        "live", "launches beside many live sessions, and what these cost, idle and ending");
    options.levels = {0, 100, 300, 1000};
    live->add_option("--at", options.levels, "how many live at the measurements, fewest first")
        ->delimiter(',')
        ->check(CLI::Range(0, kSessionsMax))
        ->capture_default_str();
    int live_launches = 100;
    live->add_option("--launches", live_launches, "of product and B, beside each number")
        ->check(CLI::Range(1, 100'000))
        ->capture_default_str();
    int live_rounds = 2;
    live->add_option("--rounds", live_rounds, "how often to go up")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    live->add_option("--idle", options.idle_seconds, "to count wake-ups for; 0: not at all")
        ->check(CLI::Range(0, 3600))
        ->capture_default_str();
    live->add_option("--svg", options.svg, "a directory for the plot live.svg");
    live->add_option("--seed", options.seed, "of the shuffle; 0: a new one");
    add_common(*live, options);
    CLI::App* fairness =
        app.add_subcommand("fairness", "a session's claim and message beside one that floods");
    fairness
        ->add_option("--sessions", options.sessions, "that claim, quiet and beside the flood each")
        ->check(CLI::Range(1, 100'000))
        ->capture_default_str();
    fairness->add_option("--messages", options.messages, "of each session")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    int fairness_rounds = 10;
    fairness->add_option("--rounds", fairness_rounds, "blocks to divide the measurements into")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    add_common(*fairness, options);
    CLI::App* flooding = app.add_subcommand(kFlood, "")->group("");
    std::string bus;
    flooding->add_option("bus", bus)->required();
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? kFine : kUsage;
    }
    if (flooding->parsed()) {
        return flood(bus);
    }
    std::sort(options.levels.begin(), options.levels.end());
    options.levels.erase(std::unique(options.levels.begin(), options.levels.end()),
                         options.levels.end());
    if (options.levels.back() == 0) {
        std::fprintf(stderr, "--at: at least one session has to live\n");
        return kUsage;
    }
    ::umask(077);
    if (const std::string why = why_not_here(); !why.empty()) {
        return skip(why);
    }
    options.runner = find_runner(options.prefix);
    if (options.runner.empty()) {
        std::fprintf(stderr, "mosaic-bench: no mosaic-runner below %s\n", options.prefix.c_str());
        return kFailed;
    }
    options.broker = options.prefix + "/bin/mosaic-broker";
    raise_limits();
    auto waiter = Waiter::make();
    Result<void> done;
    if (!waiter) {
        done = tl::unexpected<Error>(waiter.error());
    } else if (launch->parsed()) {
        options.node = options.with_node ? find_node() : "";
        if (options.with_node && options.node.empty()) {
            std::fprintf(stderr, "mosaic-bench: no node here: its launcher is left out\n");
        }
        options.rounds = std::min(options.rounds, options.launches);
        done = bench_launch(options, *waiter);
    } else if (levels->parsed()) {
        options.rounds = std::min(options.rounds, options.launches);
        done = bench_levels(options, *waiter);
    } else if (memory->parsed()) {
        options.rounds = memory_rounds;
        done = bench_memory(options, *waiter);
    } else if (live->parsed()) {
        options.launches = live_launches;
        options.rounds = std::min(live_rounds, live_launches);
        done = bench_live(options, *waiter);
    } else {
        options.rounds = std::min(fairness_rounds, options.sessions);
        done = bench_fairness(options, *waiter);
    }
    if (!done) {
        std::fprintf(stderr, "mosaic-bench: %s\n", done.error().text.c_str());
        return kFailed;
    }
    return kFine;
}

}  // namespace
}  // namespace mosaic::bench

int main(int argc, char** argv) {
    return mosaic::bench::run(argc, argv);
}
