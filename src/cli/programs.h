#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/instant.h"
#include "process/pidfd.h"

// Short-lived children.

namespace mosaic::cli {

struct ChildSpec {
    std::string path;
    std::vector<std::string> argv;
    std::vector<std::string> env;
    std::vector<std::pair<int, int>> descriptors;  // beside standard output and error
    Duration within = seconds(10);
};

struct ChildResult {
    process::Exit exit;
    std::string out;  // both at most kChildOutputBytesMax; the rest is read and dropped
    std::string errors;
};

constexpr size_t kChildOutputBytesMax = size_t{64} * 1024;

// Runs it to its end, killing it when its time is over (then Code::unavailable). Standard input is
// /dev/null. The error for a program that can't be executed has the errno in `sys`.
[[nodiscard]] Result<ChildResult> run_child(const ChildSpec& spec);

}  // namespace mosaic::cli
