#pragma once

#include <string_view>

namespace mosaic::runner {

// One line for runner.log, on standard error, with control characters made visible: parts of it may
// come from a peer.
void log_line(std::string_view text);

// The same on standard output.
void print_line(std::string_view text);

}  // namespace mosaic::runner
