#include "process/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>

#include "base/unique_fd.h"

namespace mosaic::process {
namespace {

// Well past what the kernel gives: a command line is bounded by execve(2)'s 6 MiB of arguments.
constexpr size_t kProcFileBytesMax = size_t{8} * 1024 * 1024;
constexpr size_t kStartTimeDigitsMax = 20;  // an unsigned 64-bit number

std::optional<pid_t> parse_pid(std::string_view text) {
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
    if (error != std::errc{} || end != text.data() + text.size() || pid < 0) {
        return std::nullopt;
    }
    return pid;
}

// Cuts the next word off the head of `text`; words are separated by single blanks or tabs.
std::string_view next_word(std::string_view& text) {
    const size_t start = std::min(text.find_first_not_of(" \t\n"), text.size());
    text.remove_prefix(start);
    const size_t length = std::min(text.find_first_of(" \t\n"), text.size());
    const std::string_view word = text.substr(0, length);
    text.remove_prefix(length);
    return word;
}

bool is_number(std::string_view text) {
    return !text.empty() && text.size() <= kStartTimeDigitsMax &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string proc_path(pid_t pid, const char* name) {
    return "/proc/" + std::to_string(pid) + "/" + name;
}

// Nothing when it can't be read. A process may end between open and read (ESRCH).
std::optional<std::string> read_proc_file(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid()) {
        return std::nullopt;
    }
    std::string text;
    std::array<char, 4096> buffer{};
    while (text.size() < kProcFileBytesMax) {
        const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return std::nullopt;
        }
        if (got == 0) {
            break;
        }
        text.append(buffer.data(), static_cast<size_t>(got));
    }
    return text;
}

tl::unexpected<Error> bad_stat(const char* field) {
    return fail(Code::invalid, std::string("/proc/PID/stat: ") + field + " is not as proc(5) says");
}

}  // namespace

Result<Stat> parse_stat(std::string_view text) {
    const size_t open = text.find(" (");
    const size_t close = text.rfind(')');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open + 2) {
        return bad_stat("field 2");
    }
    Stat stat;
    const auto pid = parse_pid(text.substr(0, open));
    if (!pid || *pid == 0) {
        return bad_stat("field 1");
    }
    stat.pid = *pid;
    stat.comm = text.substr(open + 2, close - open - 2);

    std::string_view rest = text.substr(close + 1);
    const std::string_view state = next_word(rest);
    if (state.size() != 1) {
        return bad_stat("field 3");
    }
    stat.state = state[0];
    const auto parent = parse_pid(next_word(rest));
    if (!parent) {
        return bad_stat("field 4");
    }
    stat.parent = *parent;
    for (int field = 5; field < 22; ++field) {
        next_word(rest);
    }
    const std::string_view start_time = next_word(rest);
    if (!is_number(start_time)) {
        return bad_stat("field 22");
    }
    stat.start_time = start_time;
    return stat;
}

std::vector<std::string> parse_cmdline(std::string_view text) {
    std::vector<std::string> arguments;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\0'), text.size());
        arguments.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return arguments;
}

std::vector<pid_t> parse_ns_pids(std::string_view status) {
    constexpr std::string_view kKey = "NSpid:";
    while (!status.empty()) {
        const size_t end = std::min(status.find('\n'), status.size());
        std::string_view line = status.substr(0, end);
        status.remove_prefix(std::min(end + 1, status.size()));
        if (!line.starts_with(kKey)) {
            continue;
        }
        line.remove_prefix(kKey.size());
        std::vector<pid_t> pids;
        for (auto word = next_word(line); !word.empty(); word = next_word(line)) {
            const auto pid = parse_pid(word);
            if (!pid) {
                return {};
            }
            pids.push_back(*pid);
        }
        return pids;
    }
    return {};
}

std::optional<Stat> read_stat(pid_t pid) {
    const auto text = read_proc_file(proc_path(pid, "stat"));
    if (!text) {
        return std::nullopt;
    }
    auto stat = parse_stat(*text);
    if (!stat) {
        return std::nullopt;
    }
    return std::move(*stat);
}

std::vector<std::string> read_cmdline(pid_t pid) {
    const auto text = read_proc_file(proc_path(pid, "cmdline"));
    return text ? parse_cmdline(*text) : std::vector<std::string>{};
}

std::vector<pid_t> read_ns_pids(pid_t pid) {
    const auto text = read_proc_file(proc_path(pid, "status"));
    return text ? parse_ns_pids(*text) : std::vector<pid_t>{};
}

std::string read_exe(pid_t pid) {
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlink(proc_path(pid, "exe").c_str(), target.data(), target.size());
    return length < 0 ? std::string() : std::string(target.data(), static_cast<size_t>(length));
}

std::optional<uid_t> read_owner(pid_t pid) {
    struct stat info {};

    if (::stat(("/proc/" + std::to_string(pid)).c_str(), &info) != 0) {
        return std::nullopt;
    }
    return info.st_uid;
}

ino_t read_pid_namespace(pid_t pid) {
    struct stat info {};

    return ::stat(proc_path(pid, "ns/pid").c_str(), &info) == 0 ? info.st_ino : 0;
}

std::vector<pid_t> list_pids() {
    std::vector<pid_t> pids;
    const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
    if (!proc) {
        return pids;
    }
    while (const dirent* entry = ::readdir(proc.get())) {
        const auto pid = parse_pid(entry->d_name);
        if (pid) {
            pids.push_back(*pid);
        }
    }
    return pids;
}

bool is_alive(pid_t pid, std::string_view start_time) {
    const auto stat = read_stat(pid);
    return stat && stat->state != 'Z' && stat->state != 'X' && stat->start_time == start_time;
}

std::string boot_id() {
    auto text = read_proc_file("/proc/sys/kernel/random/boot_id");
    if (!text) {
        return {};
    }
    std::string_view rest = *text;
    return std::string(next_word(rest));
}

}  // namespace mosaic::process
