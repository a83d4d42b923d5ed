// mosaic-sim: launches, crashes and recoveries by the million, in one process and virtual time.

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "base/instant.h"
#include "sim/world.h"

namespace mosaic::sim {
namespace {

World* current = nullptr;

struct Arguments {
    uint64_t first_seed = 1;
    uint64_t last_seed = 1;
    uint64_t launches = 100'000;
    int64_t minutes = 0;
    bool verbose = false;
    bool canary = false;
    bool list_mutants = false;
    Mutation mutation = Mutation::none;
    std::string regressions;
};

int usage() {
    std::fprintf(stderr,
                 "usage: mosaic-sim [--seed N | --seeds A..B] [--launches M] [--minutes T]\n"
                 "                  [--mutant NAME] [--canary] [--regressions FILE] [--verbose]\n"
                 "       mosaic-sim --list-mutants\n");
    return 4;
}

bool number(std::string_view text, uint64_t& out) {
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), out);
    return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

bool take_value(std::string_view name, std::string_view value, Arguments& out) {
    if (name == "--seed") {
        const bool good = number(value, out.first_seed);
        out.last_seed = out.first_seed;
        return good;
    }
    if (name == "--seeds") {
        const size_t dots = value.find("..");
        return dots != std::string_view::npos && number(value.substr(0, dots), out.first_seed) &&
               number(value.substr(dots + 2), out.last_seed);
    }
    if (name == "--launches") {
        return number(value, out.launches);
    }
    if (name == "--minutes") {
        uint64_t minutes = 0;
        const bool good = number(value, minutes);
        out.minutes = static_cast<int64_t>(minutes);
        return good;
    }
    if (name == "--mutant") {
        const auto found = find_mutation(value);
        out.mutation = found.value_or(Mutation::none);
        return found.has_value();
    }
    if (name == "--regressions") {
        out.regressions = value;
        return true;
    }
    return false;
}

bool parse(int argc, char** argv, Arguments& out) {
    for (int i = 1; i < argc; ++i) {
        const std::string_view name = argv[i];
        if (name == "--verbose") {
            out.verbose = true;
        } else if (name == "--canary") {
            out.canary = true;
        } else if (name == "--list-mutants") {
            out.list_mutants = true;
        } else if (i + 1 < argc && take_value(name, argv[i + 1], out)) {
            ++i;
        } else {
            return false;
        }
    }
    return true;
}

void add(Counters& sum, const Counters& one) {
    sum.launches += one.launches;
    sum.claimed += one.claimed;
    sum.ended += one.ended;
    sum.refused += one.refused;
    sum.asks += one.asks;
    sum.messages += one.messages;
    sum.faults += one.faults;
    sum.host_deaths += one.host_deaths;
    sum.broker_deaths += one.broker_deaths;
    sum.reboots += one.reboots;
    sum.leftovers += one.leftovers;
    sum.warm_begun += one.warm_begun;
    sum.warm_taken += one.warm_taken;
    sum.wakeups += one.wakeups;
    sum.checks += one.checks;
}

void print(const char* name, uint64_t value) {
    std::printf("  %-16s %12llu\n", name, static_cast<unsigned long long>(value));
}

void report(const Counters& sum, uint64_t seeds, Duration took) {
    const double minutes = static_cast<double>(took.ns) / 60e9;
    print("seeds", seeds);
    print("launches", sum.launches);
    print("claimed", sum.claimed);
    print("ended", sum.ended);
    print("refused", sum.refused);
    print("requests", sum.asks);
    print("messages", sum.messages);
    print("faults", sum.faults);
    print("host deaths", sum.host_deaths);
    print("reboots", sum.reboots);
    print("broker deaths", sum.broker_deaths);
    print("leftovers", sum.leftovers);
    print("warm seats", sum.warm_begun);
    print("... taken", sum.warm_taken);
    print("wakeups", sum.wakeups);
    print("checks", sum.checks);
    print("launches/min", static_cast<uint64_t>(static_cast<double>(sum.launches) / minutes));
}

Counters run_seed(const Arguments& arguments, uint64_t seed, uint64_t launches) {
    Options options;
    options.seed = seed;
    options.launches = launches;
    options.mutation = arguments.mutation;
    options.canary = arguments.canary;
    options.verbose = arguments.verbose;
    World world(options);
    current = &world;
    world.run();
    current = nullptr;
    std::printf("seed %llu: %llu launches, hash %016llx\n",
                static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(world.counters.launches),
                static_cast<unsigned long long>(world.trace.hash()));
    return world.counters;
}

// Lines "SEED LAUNCHES", "#" begins a comment.
int run_regressions(const Arguments& arguments) {
    std::ifstream in(arguments.regressions);
    if (!in) {
        std::fprintf(stderr, "%s can't be read\n", arguments.regressions.c_str());
        return 1;
    }
    for (std::string line; std::getline(in, line);) {
        std::istringstream words(line.substr(0, line.find('#')));
        uint64_t seed = 0;
        uint64_t launches = 0;
        if (words >> seed >> launches) {
            static_cast<void>(run_seed(arguments, seed, launches));
        }
    }
    return 0;
}

int run(const Arguments& arguments) {
    const Instant begun = monotonic_now();
    Counters sum;
    uint64_t seeds = 0;
    for (uint64_t seed = arguments.first_seed;; ++seed) {
        const bool timed = arguments.minutes > 0;
        const bool late = monotonic_now() - begun > seconds(60 * arguments.minutes);
        if (timed ? late : seed > arguments.last_seed) {
            break;
        }
        add(sum, run_seed(arguments, seed, arguments.launches));
        ++seeds;
    }
    report(sum, seeds, monotonic_now() - begun);
    if (arguments.mutation != Mutation::none || arguments.canary) {
        std::printf("not caught\n");
        return 1;
    }
    return 0;
}

// The standard library's own checks end here.
void on_abort(int /*signal*/) {
    if (current != nullptr) {
        current->fail("assertion", "the standard library's, see above");
    }
}

}  // namespace
}  // namespace mosaic::sim

namespace mosaic {

// In place of base/assert.cc's: a machine that meets what it calls impossible is a violation like
// any other, and its seed must be told.
void assertion_failed(const char* condition, const char* file, int line) {
    const std::string where =
        std::string(condition) + " (" + file + ":" + std::to_string(line) + ")";
    if (sim::current != nullptr) {
        sim::current->fail("assertion", where);
    }
    std::fprintf(stderr, "assertion failed: %s\n", where.c_str());
    std::abort();
}

}  // namespace mosaic

int main(int argc, char** argv) {
    mosaic::sim::Arguments arguments;
    if (!mosaic::sim::parse(argc, argv, arguments)) {
        return mosaic::sim::usage();
    }
    std::signal(SIGABRT, mosaic::sim::on_abort);
    if (arguments.list_mutants) {
        for (const auto& info : mosaic::sim::kMutations) {
            std::printf("%.*s\n", static_cast<int>(info.name.size()), info.name.data());
        }
        return 0;
    }
    return arguments.regressions.empty() ? mosaic::sim::run(arguments)
                                         : mosaic::sim::run_regressions(arguments);
}
