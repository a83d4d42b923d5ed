#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// Readers of /proc (proc(5)) and the facts that make a pid mean one process: a pid alone is a
// number that is used again, a pid with its start time isn't within one boot.

namespace mosaic::process {

struct Stat {
    pid_t pid = 0;
    std::string comm;
    char state = '?';  // 'Z' and 'X' count as gone
    pid_t parent = 0;
    std::string start_time;  // field 22, clock ticks since boot, as text
};

// Parses the one line of /proc/PID/stat. comm may hold anything, spaces and parentheses included:
// it ends at the last ')'. Pure; fuzzed.
[[nodiscard]] Result<Stat> parse_stat(std::string_view text);

// Splits /proc/PID/cmdline at its NULs. Pure.
[[nodiscard]] std::vector<std::string> parse_cmdline(std::string_view text);

// The numbers of a process in each PID namespace from ours inwards (NSpid of /proc/PID/status); the
// last is its own view. Pure.
[[nodiscard]] std::vector<pid_t> parse_ns_pids(std::string_view status);

// Nothing when the process does not exist (any more).
[[nodiscard]] std::optional<Stat> read_stat(pid_t pid);
[[nodiscard]] std::vector<std::string> read_cmdline(pid_t pid);
[[nodiscard]] std::vector<pid_t> read_ns_pids(pid_t pid);
// The target of /proc/PID/exe, empty when it can't be read.
[[nodiscard]] std::string read_exe(pid_t pid);
// The owner of /proc/PID (the effective user id), nothing when it is gone.
[[nodiscard]] std::optional<uid_t> read_owner(pid_t pid);
// Inode numbers of /proc/PID/ns/pid, 0 when unknown.
[[nodiscard]] ino_t read_pid_namespace(pid_t pid);
// Every process that /proc lists now.
[[nodiscard]] std::vector<pid_t> list_pids();

// Running (not a zombie) and with this start time.
[[nodiscard]] bool is_alive(pid_t pid, std::string_view start_time);

// /proc/sys/kernel/random/boot_id: another one means that no recorded pid means anything.
[[nodiscard]] std::string boot_id();

}  // namespace mosaic::process
