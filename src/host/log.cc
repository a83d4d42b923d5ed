#include "host/log.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstdint>

#include "base/utf8.h"

namespace mosaic::host {
namespace {

uint64_t dropped_lines = 0;

// Whether stderr takes bytes now. Polled instead of made non-blocking: the open file is shared with
// whoever started us, and its mode is theirs.
bool writable() {
    pollfd state{STDERR_FILENO, POLLOUT, 0};
    return ::poll(&state, 1, 0) == 1 && (state.revents & POLLOUT) != 0;
}

}  // namespace

void log_line(std::string_view text) {
    if (!writable()) {
        ++dropped_lines;
        return;
    }
    std::string line;
    if (dropped_lines > 0) {
        line = "mosaic-host: " + std::to_string(dropped_lines) + " log lines were dropped\n";
        dropped_lines = 0;
    }
    line += "mosaic-host: ";
    line += one_line(text);
    // At most PIPE_BUF bytes, so that a pipe that polled writable takes them at once (pipe(7)).
    constexpr size_t kPipeBuf = 4096;
    if (line.size() >= kPipeBuf) {
        line.resize(valid_utf8_prefix(std::string_view(line).substr(0, kPipeBuf - 4)));
        line += "...";
    }
    line += '\n';
    if (::write(STDERR_FILENO, line.data(), line.size()) < 0) {
        ++dropped_lines;
    }
}

}  // namespace mosaic::host
