#pragma once

#include <map>
#include <string>

#include "base/error.h"
#include "wire/json.h"

namespace mosaic::bench {

// What figures depend on: kernel, processor, cores, memory, bwrap's version, the scratch
// directory's file system, mounts, load, and how this program was built. An object of strings and
// numbers, in the order to print.
[[nodiscard]] json::Value machine_facts(const std::string& scratch_root);

// What `node --version` prints, empty when that fails.
[[nodiscard]] std::string node_version(const std::string& node);

// The three load averages, as the kernel prints them.
[[nodiscard]] std::string load_average();

// One line of /proc/meminfo, in KiB.
[[nodiscard]] Result<int64_t> memory_kib(const std::string& name);

// The same of /proc/PID/status ("VmRSS", "RssAnon"), 0 when the process is gone.
[[nodiscard]] int64_t process_kib(pid_t pid, const std::string& name);

// How often each thread of the process has gone to sleep since its start, by thread id; empty when
// it is gone.
[[nodiscard]] std::map<std::string, int64_t> sleeps_of(pid_t pid);

// Empty when sandboxes can be made and measured here, else the reason.
[[nodiscard]] std::string why_not_here();

}  // namespace mosaic::bench
