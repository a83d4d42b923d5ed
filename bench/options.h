#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mosaic::bench {

struct Options {
    int launches = 200;       // of each mode
    int in_flight = 1;        // launches under way at once
    int live = 0;             // sessions that run beside the measurements
    int rounds = 10;          // blocks that the measurements are divided into
    int sessions = 200;       // that claim, of each kind
    int messages = 5;         // of each session
    int idle_seconds = 5;     // to count wake-ups for
    uint64_t seed = 0;        // of the shuffle; 0: a new one each time
    bool warm = false;        // launches of seats that are kept warm, too
    bool with_node = false;   // the launcher in Node.js, too
    bool json = false;        // the report as one JSON object instead of tables
    bool keep = false;        // leaves the scratch directory
    std::string scratch;      // where it is made
    std::string prefix;       // of the product: <prefix>/bin/mosaic-host
    std::string runner;       // found below the prefix
    std::string broker;       // the same
    std::string node;         // the program, when it is asked for and there is one
    std::vector<int> levels;  // live sessions to measure beside, ascending
    std::string svg;          // the directory for plots; empty: none
};

}  // namespace mosaic::bench
