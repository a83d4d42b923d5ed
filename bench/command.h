#pragma once

#include <string>
#include <vector>

namespace mosaic::bench {

struct Finished {
    bool fine = false;  // it ran and ended with 0
    std::string out;    // what it wrote, on standard error, too
};

// Runs a program to its end, with PATH and LANG for an environment and no input. argv[0] is its
// path.
[[nodiscard]] Finished run_command(std::vector<std::string> argv);

}  // namespace mosaic::bench
