#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

// Paths that somebody else wrote, resolved without asking a file system that may never answer: NFS
// or FUSE whose server is gone, an automount point. The kernel waits for those without end, in any
// call that looks below them or at their inodes, and nothing ends that wait from outside.
//
// So a path is walked one name at a time, with O_PATH | O_NOFOLLOW, which looks the name up in its
// directory and asks nothing of a file system that is mounted there (open(2)), nor triggers an
// automount, for the name is always the last (the kernel's "autofs - how it works"). Links are read
// and followed here. Where a step leaves the mount of the one before, fdinfo says to which it came
// and mountinfo says of what type that is (proc_pid_fdinfo(5), proc_pid_mountinfo(5)); neither asks
// the file system. Only then is anything asked of what was opened.
//
// What lies below a local file system isn't known here: the disk of an ext4 may be far away, and so
// may be the layers of an overlay.

namespace mosaic::process {

// The mount's id in a text of /proc/PID/fdinfo/N; -1 when it says none. Pure.
[[nodiscard]] int mount_id_in(std::string_view fdinfo);

// The type ("ext4", "fuse.sshfs") of a mount in a text of /proc/PID/mountinfo, "" when it isn't
// there. Pure.
[[nodiscard]] std::string mount_type_in(std::string_view mountinfo, int mount_id);

// Whether file systems of this type answer from this machine alone. Pure.
[[nodiscard]] bool is_local_type(std::string_view type);

struct LocalPath {
    UniqueFd fd;       // O_PATH | O_CLOEXEC; no link
    std::string path;  // its real path, as the kernel has it
};

// For one look and one thread: what it learned of mounts isn't looked up again.
class LocalPaths {
  public:
    // The mounts of `trusted` and of the root directory count as local, whatever their type.
    explicit LocalPaths(int trusted);

    // What lies at a path, which begins at `from` unless it is absolute. At most 40 links and 256
    // names. Code::missing; Code::unsafe where it leads to a mount that isn't local, with a text
    // "<path> lies on a file system of type <type>, which may not answer"; Code::invalid;
    // Code::system with the errno (ELOOP, ENAMETOOLONG, ENOTDIR, EACCES, ...). Its text is one
    // line.
    [[nodiscard]] Result<LocalPath> open(int from, const std::string& path);

    // The same for one name of a directory that was opened here; a link is opened itself.
    [[nodiscard]] Result<UniqueFd> open_in(int directory, const std::string& name);

  private:
    std::vector<int> local_;  // mount ids
    std::string mounts_;      // mountinfo, read when it is first needed

    Result<UniqueFd> step(int directory, const std::string& name, const std::string& what);
    Result<void> judge(int fd);
};

}  // namespace mosaic::process
