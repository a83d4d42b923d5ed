#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/look.h"
#include "bench/options.h"
#include "bench/plot.h"
#include "bench/sample.h"
#include "wire/json.h"

namespace mosaic::bench {

enum class Mode {
    product,
    bwrap,  // B
    bare,
    warm,  // the product, with a seat that is warm; only when asked for
    node,  // the launcher in Node.js; only when asked for
};
constexpr size_t kModes = 5;

// All that was measured of one mode.
struct Measured {
    std::vector<std::vector<Sample>> blocks;
    int64_t elapsed_us = 0;  // over all groups
};

struct StageTimes {
    std::string name;
    std::vector<int64_t> us;  // how long the stage itself took, of each launch
};

struct LaunchReport {
    json::Value machine;
    Options options;
    int group = 1;         // launches of one mode made together
    bool without_seccomp;  // B lacks the product's seccomp program
    std::string load_after;
    std::array<Measured, kModes> modes;
    std::vector<StageTimes> stages;
};

void print_launch_report(const LaunchReport& report);

// The distribution of each mode's time to the claim.
[[nodiscard]] Plot launch_plot(const LaunchReport& report);

struct MemoryReport {
    json::Value machine;
    Options options;
    std::string load_after;
    int64_t host_resident = 0;  // KiB, with all sessions live
    int64_t broker_resident = 0;
    std::vector<MemoryRound> rounds;
};

void print_memory_report(const MemoryReport& report);

// The machine's facts, a line each.
void print_machine(const json::Value& machine);

// What one session's requests took at the broker, from the frame written to its reply read.
struct FairnessTimes {
    std::vector<int64_t> claim_us;
    std::vector<int64_t> message_us;  // message.send
};

struct FairnessReport {
    json::Value machine;
    Options options;
    std::string load_after;
    FairnessTimes quiet;
    FairnessTimes flooded;      // beside a session that floods the broker
    int64_t flood_answers = 0;  // requests of the flood that were answered
    int64_t flood_us = 0;       // while it flooded
};

void print_fairness_report(const FairnessReport& report);

// Writes the plot as `name` into the directory, which is made when it isn't there; nothing when
// `directory` is empty.
[[nodiscard]] Result<void> write_plot(const std::string& directory,
                                      const std::string& name,
                                      const Plot& plot);

// Milliseconds with as many decimals as they are worth.
[[nodiscard]] std::string ms_text(int64_t us);

}  // namespace mosaic::bench
