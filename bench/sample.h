#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mosaic::bench {

// One measured launch. Microseconds.
struct Sample {
    std::string run;
    int64_t claim_us = 0;  // to the claim; of the product filled in from its launch log
    int64_t wall_us = 0;   // as the caller sees it
    int64_t given_us = 0;  // of a warm seat: to the claim from where its capability is written
};

// Launches of one mode made together, so many in flight at once; the sessions stay until all of the
// group have claimed.
struct Group {
    std::vector<Sample> samples;
    int64_t elapsed_us = 0;  // from the first request to the last claim
};

}  // namespace mosaic::bench
