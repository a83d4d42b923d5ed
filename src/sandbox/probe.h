#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "process/pidfd.h"
#include "sandbox/binds.h"
#include "sandbox/layout.h"

// Whether bubblewrap works on this machine, found out by trying: a launch's own flags and system
// binds around the runner's self-test. Who runs it and keeps its answer is the caller's business.

namespace mosaic::sandbox {

// Which file a program is; another one means that what was found out about it may no longer hold.
struct FileIdentity {
    uint64_t device = 0;
    uint64_t inode = 0;
    int64_t size = 0;
    int64_t mtime_ns = 0;

    bool operator==(const FileIdentity&) const = default;
};

// Links followed. Code::missing when there is no such file, Code::unsafe when it is no executable
// regular file.
[[nodiscard]] Result<FileIdentity> identity_of(const std::string& path);

struct ProbeSpec {
    Layout layout;
    std::string stage_dir;  // bound at /run/mosaic
    int64_t shm_bytes = 0;  // as launches will have it
    BwrapOptions options;   // as launches will have them; the directory is replaced
};

// Descriptors as for a launch: kStatusFd a pipe's write end, kWorkspaceFd the stage directory
// opened O_PATH (bound a second time: it stands for a workspace), kSeccompFd where options say so.
// Standard error is what explain() reads.
[[nodiscard]] std::vector<std::string> probe_argv(const ProbeSpec& spec);

// Why sessions can't start here.
struct Unavailable {
    std::string reason;  // "/usr/bin/bwrap is missing", "/usr/bin/bwrap failed: <first error line>"
    std::string remedy;  // one line for people; empty when none is known

    bool operator==(const Unavailable&) const = default;
};

// bwrap couldn't be executed: errno of the exec (or of identity_of).
[[nodiscard]] Unavailable explain_exec(const std::string& bwrap, int sys);

// bwrap ran and ended so, not with 0; `error_line` is first_error_line() of its stderr.
[[nodiscard]] Unavailable explain(const std::string& bwrap,
                                  const process::Exit& exit,
                                  std::string_view error_line);

// The remedy alone, for a launch that failed the same way after a good probe. Empty: none known.
[[nodiscard]] std::string remedy_for(std::string_view error_line);

}  // namespace mosaic::sandbox
