#include "bench/live_bench.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>

#include "base/instant.h"
#include "base/unique_fd.h"
#include "bench/baseline.h"
#include "bench/command.h"
#include "bench/host_process.h"
#include "bench/live_report.h"
#include "bench/look.h"
#include "bench/machine.h"
#include "bench/product.h"
#include "bench/report.h"
#include "bench/scratch.h"
#include "bench/sessions.h"
#include "bench/statistics.h"
#include "metrics/reader.h"
#include "process/pidfd.h"
#include "process/proc.h"

namespace mosaic::bench {
namespace {

constexpr int kInFlight = 16;
constexpr int kPsRuns = 10;
// What was done before is over by then, and the kernel's workers of the host's ring, which look for
// work for five seconds more, have settled.
constexpr Duration kSettles = seconds(10);
constexpr Duration kDies = seconds(60);

class LiveBench {
  public:
    LiveBench(const Options& options, Waiter& waiter, Scratch& scratch)
        : waiter_(waiter),
          scratch_(scratch),
          host_(scratch, waiter, options.prefix),
          product_(scratch, waiter),
          random_(options.seed != 0 ? options.seed : std::random_device{}()) {
        report_.options = options;
        for (const int live : options.levels) {
            report_.levels.push_back({live, {}, {}});
        }
    }

    Result<void> run() {
        report_.machine = machine_facts(scratch_.root());
        const Instant started = monotonic_now();
        MOSAIC_TRY(host_.start());
        report_.host_start_us = to_us(monotonic_now() - started);
        MOSAIC_TRY(product_.connect());
        MOSAIC_TRY(prepare());
        MOSAIC_TRY_ASSIGN(const Look before, look_at_memory(scratch_, host_, waiter_));
        Look live;
        for (int round = 0; round < report_.options.rounds; ++round) {
            const bool last = round + 1 == report_.options.rounds;
            MOSAIC_TRY(climb(round));
            if (last) {
                say("looking at what they cost");
                MOSAIC_TRY_ASSIGN(live, look_at_memory(scratch_, host_, waiter_));
                MOSAIC_TRY(idle());
            }
            const Instant begin = monotonic_now();
            MOSAIC_TRY(product_.stop(0, most()));
            report_.stop_us.push_back(to_us(monotonic_now() - begin));
        }
        MOSAIC_TRY_ASSIGN(const Look after, look_at_memory(scratch_, host_, waiter_));
        report_.memory = round_of(before, live, after);
        report_.host_resident = live.host;
        report_.broker_resident = live.broker;
        say("launching all at once");
        MOSAIC_TRY(launch_all());
        say("killing the host");
        MOSAIC_TRY(lose_the_host());
        say("launching all once more");
        MOSAIC_TRY(product_.launch(0, most(), kInFlight));
        say("stopping the host");
        report_.load_after = load_average();
        const Instant begin = monotonic_now();
        MOSAIC_TRY(host_.stop());
        report_.end_us = to_us(monotonic_now() - begin);
        MOSAIC_TRY(fill_in_claims());
        print_live_report(report_);
        return write_plot(report_.options.svg, "live.svg", live_plot(report_));
    }

  private:
    [[nodiscard]] int most() const { return report_.options.levels.back(); }

    // The seat behind those that live.
    [[nodiscard]] int spare() const { return most(); }

    Result<void> prepare() {
        MOSAIC_TRY(product_.launch(spare(), 1, 1));
        MOSAIC_TRY_ASSIGN(const Template model, read_template(scratch_));
        MOSAIC_TRY_ASSIGN(Baseline baseline,
                          Baseline::make(scratch_, waiter_, model, report_.options.runner, 1));
        baseline_.emplace(std::move(baseline));
        MOSAIC_TRY(product_.stop(spare(), 1));
        // What the first ones bring into memory for good isn't a session's.
        const int first = std::min(most(), kInFlight);
        MOSAIC_TRY(product_.launch(0, first, kInFlight));
        MOSAIC_TRY(baseline_->launch(Plain::bwrap, 1, 1));
        return product_.stop(0, first);
    }

    // From one level to the next, and measures beside each.
    Result<void> climb(int round) {
        const int each =
            (report_.options.launches + report_.options.rounds - 1) / report_.options.rounds;
        int live = 0;
        for (LiveLevel& level : report_.levels) {
            MOSAIC_TRY(product_.launch(live, level.live - live, kInFlight));
            live = level.live;
            std::vector<bool> order(static_cast<size_t>(each), true);
            order.resize(static_cast<size_t>(2 * each), false);
            std::shuffle(order.begin(), order.end(), random_);
            std::vector<int64_t> walls;
            for (const bool product : order) {
                if (product) {
                    MOSAIC_TRY_ASSIGN(const Group group, product_.launch(spare(), 1, 1));
                    MOSAIC_TRY(product_.stop(spare(), 1));
                    level_of_run_[group.samples.front().run] = &level;
                    walls.push_back(group.samples.front().wall_us);
                } else {
                    MOSAIC_TRY_ASSIGN(const Group group, baseline_->launch(Plain::bwrap, 1, 1));
                    level.bwrap.push_back(group.samples.front().claim_us);
                }
            }
            std::fprintf(stderr,
                         "round %d of %d, %d live: product p50 %s ms as the caller sees it; load "
                         "%s\n",
                         round + 1,
                         report_.options.rounds,
                         live,
                         ms_text(percentile(std::move(walls), 50)).c_str(),
                         load_average().c_str());
        }
        return {};
    }

    static void say(const char* what) {
        std::fprintf(stderr, "%s; load %s\n", what, load_average().c_str());
    }

    Result<void> wait_for(Duration time) {
        std::vector<pollfd> nothing;
        const auto waited = waiter_.wait(nothing, monotonic_now() + time, "idling");
        if (!waited && waited.error().code != Code::unavailable) {
            return tl::unexpected<Error>(waited.error());
        }
        return {};
    }

    Result<void> count_wakeups() {
        say("waiting until the host has nothing more to do");
        MOSAIC_TRY(wait_for(kSettles));
        const pid_t broker = host_.broker();
        const auto host_before = sleeps_of(host_.pid());
        const auto broker_before = sleeps_of(broker);
        const Instant begin = monotonic_now();
        MOSAIC_TRY(wait_for(seconds(report_.options.idle_seconds)));
        report_.host_wakeups = wakeups_between(host_before, sleeps_of(host_.pid()));
        report_.broker_wakeups = wakeups_between(broker_before, sleeps_of(broker));
        report_.idle_us = to_us(monotonic_now() - begin);
        return {};
    }

    // With all of them live and nothing to do.
    Result<void> idle() {
        if (report_.options.idle_seconds > 0) {
            MOSAIC_TRY(count_wakeups());
        }
        for (int i = 0; i < kPsRuns; ++i) {
            const Instant start = monotonic_now();
            const Finished ps = run_command({report_.options.prefix + "/bin/mosaic",
                                             "ps",
                                             "--data",
                                             scratch_.data(),
                                             "--config",
                                             scratch_.system_file()});
            report_.ps_us.push_back(to_us(monotonic_now() - start));
            const auto lines = std::count(ps.out.begin(), ps.out.end(), '\n');
            if (!ps.fine || lines != most() + 1) {
                return fail(Code::invalid, "mosaic ps: " + ps.out.substr(0, 500));
            }
        }
        return {};
    }

    Result<void> launch_all() {
        MOSAIC_TRY_ASSIGN(const std::string text_before, product_.metrics());
        MOSAIC_TRY_ASSIGN(const Group group, product_.launch(0, most(), kInFlight));
        report_.launch_us = group.elapsed_us;
        MOSAIC_TRY_ASSIGN(const std::string text_after, product_.metrics());
        MOSAIC_TRY_ASSIGN(const auto before, metrics::read_text(text_before));
        MOSAIC_TRY_ASSIGN(const auto after, metrics::read_text(text_after));
        const metrics::Buckets spawns = grown("mosaic_spawn_seconds", before, after);
        report_.spawn_us = 1e6 * metrics::quantile(spawns, 0.5).value_or(0);
        const metrics::Buckets files = grown("mosaic_sessions_file_seconds", before, after);
        report_.file_replacements =
            files.empty() ? 0 : static_cast<int64_t>(files.rbegin()->second);
        return {};
    }

    static metrics::Buckets grown(const char* name,
                                  const std::vector<metrics::Family>& before,
                                  const std::vector<metrics::Family>& after) {
        const metrics::Family* earlier = metrics::find_family(before, name);
        const metrics::Family* later = metrics::find_family(after, name);
        metrics::Buckets out = later != nullptr ? metrics::buckets_of(*later) : metrics::Buckets();
        if (earlier != nullptr) {
            for (const auto& [bound, count] : metrics::buckets_of(*earlier)) {
                out[bound] -= count;
            }
        }
        return out;
    }

    // Kills the host and starts the next one.
    Result<void> lose_the_host() {
        MOSAIC_TRY_ASSIGN(const std::vector<Session> sessions, read_sessions(scratch_));
        std::vector<UniqueFd> processes;
        for (const Session& session : sessions) {
            for (const pid_t pid : {session.outer, session.runner}) {
                if (auto fd = process::open_pidfd(pid)) {
                    processes.push_back(std::move(*fd));
                }
            }
        }
        if (static_cast<int>(processes.size()) != 2 * most()) {
            return fail(Code::invalid, "not all sessions lived until the host's death");
        }
        MOSAIC_TRY(host_.kill());
        const Instant begin = monotonic_now();
        MOSAIC_TRY(host_.start());
        report_.ready_us = to_us(monotonic_now() - begin);
        for (const UniqueFd& process : processes) {
            std::vector<pollfd> polls = {{process.get(), POLLIN, 0}};
            MOSAIC_TRY(waiter_.wait(polls, begin + kDies, "the end of a lost session"));
        }
        MOSAIC_TRY(product_.connect());
        MOSAIC_TRY(product_.wait_none());
        report_.recovered_us = to_us(monotonic_now() - begin);
        report_.left = count_left();
        return {};
    }

    // Processes that name the scratch directory, other than those that should.
    [[nodiscard]] int64_t count_left() const {
        const std::vector<pid_t> ours = {::getpid(), host_.pid(), host_.broker()};
        int64_t out = 0;
        for (const pid_t pid : process::list_pids()) {
            const std::vector<std::string> words = process::read_cmdline(pid);
            const bool names_it =
                std::any_of(words.begin(), words.end(), [&](const std::string& word) {
                    return word.find(scratch_.root()) != std::string::npos;
                });
            out += names_it && std::find(ours.begin(), ours.end(), pid) == ours.end() ? 1 : 0;
        }
        return out;
    }

    // The product's times are its own, to the claim.
    Result<void> fill_in_claims() {
        MOSAIC_TRY_ASSIGN(const auto by_run, product_.read_stages());
        for (const auto& [run, level] : level_of_run_) {
            const auto found = by_run.find(run);
            if (found == by_run.end()) {
                return fail(Code::missing, "the launch log has no line of " + run);
            }
            level->product.push_back(found->second.at.back());
        }
        return {};
    }

    Waiter& waiter_;
    Scratch& scratch_;
    HostProcess host_;
    Product product_;
    std::mt19937_64 random_;
    std::optional<Baseline> baseline_;
    std::map<std::string, LiveLevel*> level_of_run_;
    LiveReport report_;
};

}  // namespace

Result<void> bench_live(const Options& options, Waiter& waiter) {
    MOSAIC_TRY_ASSIGN(Scratch scratch, Scratch::make(options.scratch, options.levels.back() + 1));
    if (options.keep) {
        scratch.keep();
        std::fprintf(stderr, "scratch directory: %s\n", scratch.root().c_str());
    }
    return LiveBench(options, waiter, scratch).run();
}

}  // namespace mosaic::bench
