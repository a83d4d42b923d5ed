#include "runner/log.h"

#include <unistd.h>

#include <string>

#include "base/utf8.h"
#include "process/write_all.h"

namespace mosaic::runner {
namespace {

void write_line(int fd, std::string_view text) {
    ignore(process::write_all(fd, one_line(text) + "\n", "the log"),
           "a full disk or a closed log must not end the session");
}

}  // namespace

void log_line(std::string_view text) {
    write_line(STDERR_FILENO, text);
}

void print_line(std::string_view text) {
    write_line(STDOUT_FILENO, text);
}

}  // namespace mosaic::runner
