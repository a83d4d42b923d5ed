// /proc/PID/stat, cmdline and status: a session's process names itself as it likes, and is killed
// or spared by what is read here.

#include "fuzz/fuzz.h"
#include "process/proc.h"

namespace mosaic {
namespace {

void check_stat(std::string_view text) {
    const auto stat = process::parse_stat(text);
    if (!stat) {
        return;
    }
    FUZZ_CHECK(stat->pid > 0 && stat->parent >= 0);
    FUZZ_CHECK(!stat->start_time.empty() && stat->start_time.size() <= 20);
    FUZZ_CHECK(stat->start_time.find_first_not_of("0123456789") == std::string::npos);
    FUZZ_CHECK(text.find(stat->comm) != std::string_view::npos);
}

// Whatever a process calls itself, the kernel's own fields are read from behind the name.
void check_name(std::string_view name) {
    const std::string_view comm = name.substr(0, 64);
    const std::string text = "4321 (" + std::string(comm) +
                             ") S 17 4321 4321 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654321 9 9";
    const auto stat = process::parse_stat(text);
    FUZZ_CHECK(stat);
    FUZZ_CHECK(stat->pid == 4321 && stat->parent == 17 && stat->state == 'S');
    FUZZ_CHECK(stat->start_time == "987654321" && stat->comm == comm);
}

void check_command_line(std::string_view text) {
    const std::vector<std::string> arguments = process::parse_cmdline(text);
    std::string joined;
    for (const std::string& argument : arguments) {
        FUZZ_CHECK(argument.find('\0') == std::string::npos);
        joined += argument;
        joined += '\0';
    }
    // All bytes are there, but for the last NUL, which may be missing.
    FUZZ_CHECK(joined == text || joined == std::string(text) + '\0');
    for (const pid_t pid : process::parse_ns_pids(text)) {
        FUZZ_CHECK(pid >= 0);
    }
}

}  // namespace
}  // namespace mosaic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text = mosaic::fuzz::text_of(data, size);
    mosaic::check_stat(text);
    mosaic::check_name(text);
    mosaic::check_command_line(text);
    return 0;
}
