#include "runner/log.h"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/utf8.h"

namespace mosaic::runner {
namespace {

void write_line(int fd, std::string_view text) {
    const std::string line = one_line(text) + "\n";
    std::string_view rest = line;
    while (!rest.empty()) {
        const ssize_t n = ::write(fd, rest.data(), rest.size());
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return;  // a full disk or a closed log must not end the session
        }
        rest.remove_prefix(static_cast<size_t>(n));
    }
}

}  // namespace

void log_line(std::string_view text) {
    write_line(STDERR_FILENO, text);
}

void print_line(std::string_view text) {
    write_line(STDOUT_FILENO, text);
}

}  // namespace mosaic::runner
