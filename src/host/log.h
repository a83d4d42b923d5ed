#pragma once

#include <string>
#include <string_view>

namespace mosaic::host {

// The service's own log: one line on stderr, never blocking. A reader that has stopped reading
// loses lines (their number is said when it reads again), never the host.
void log_line(std::string_view text);

}  // namespace mosaic::host
