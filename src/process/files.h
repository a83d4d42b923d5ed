#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

// Files that somebody else may have laid, and our own. Everything is opened with openat2(2) without
// following links, and checked by what was opened, not by its name.

namespace mosaic::process {

// A directory by absolute path, links on the way allowed (the operator's own path).
[[nodiscard]] Result<UniqueFd> open_directory(const std::string& path);

// One directory below `parent`, which must exist, be a real directory, ours, mode 0700.
// Code::unsafe says which of these fails. `name` is one path segment.
[[nodiscard]] Result<UniqueFd> open_private_directory(int parent, const std::string& name);

// The same, made with mode 0700 when it doesn't exist.
[[nodiscard]] Result<UniqueFd> make_private_directory(int parent, const std::string& name);

// The directory at an absolute path and all that leads to it, made with mode 0700 whatever the
// umask; what exists stays as it is.
[[nodiscard]] Result<void> make_directories(const std::string& path);

// Reads a regular file below `parent` (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
// O_NONBLOCK): no link, no FIFO, no device, at most `bytes_max` bytes (Code::too_large past it).
[[nodiscard]] Result<std::string> read_file_beneath(int parent,
                                                    const std::string& name,
                                                    uint64_t bytes_max);

// The last bytes_max bytes of such a file, or all that it has.
[[nodiscard]] Result<std::string> read_tail_beneath(int parent,
                                                    const std::string& name,
                                                    uint64_t bytes_max);

// Reads a regular file of `parent` itself, `name` being one segment: no link, otherwise the same.
// For where openat2(2) is denied: inside a session.
[[nodiscard]] Result<std::string> read_file_in(int parent,
                                               const std::string& name,
                                               uint64_t bytes_max);

// Reads a whole file by path (links allowed), at most bytes_max bytes; regular files only.
[[nodiscard]] Result<std::string> read_file(const std::string& path, uint64_t bytes_max);

// Writes `name` below `parent` whole: a temporary name, write, fsync, rename, fsync of `parent`.
// Afterwards the file is the old or the new one, never a part. Blocking: for start-up and commands.
[[nodiscard]] Result<void> replace_file(int parent,
                                        const std::string& name,
                                        std::string_view content,
                                        mode_t mode);

// Gives `name` below `parent` this content in the same way, with the mode, owner, group and
// access list (acl(5)) that it has, if it still has the content `before`; false when it hasn't.
// `before` of one that isn't there is empty; it is made with 0600. Waits for who rewrites a file of
// the directory meanwhile. What an editor saves meanwhile by a rename is kept: rename(2) with
// RENAME_EXCHANGE, where the file system has it. What one left that was killed over it may be such
// an edit, and becomes `name`.left<pid>-<n>, unless it is empty or has the content `before`. A link
// isn't followed (Code::unsafe).
[[nodiscard]] Result<bool> rewrite_file(int parent,
                                        const std::string& name,
                                        std::string_view before,
                                        std::string_view content);

// Makes `name` below `parent` with O_EXCL and writes it; no fsync.
[[nodiscard]] Result<void> create_file(int parent,
                                       const std::string& name,
                                       std::string_view content,
                                       mode_t mode);

// Removes a tree, never following a link: iterative, few descriptors at any depth, restores the
// mode of our own directories when it must, resumable after a crash. `name` is one segment below
// `parent`. A name that doesn't exist is success.
[[nodiscard]] Result<void> remove_tree(int parent, const std::string& name);

// One directory of ours below `parent`, to look up and remove names in: a session may have taken
// its owner's rights away, and they are given back. No link, no other mount. Code::missing when it
// isn't there.
[[nodiscard]] Result<UniqueFd> reopen_directory(int parent, const std::string& name);

// The real path (realpath(3)); the error names the path and the errno.
[[nodiscard]] Result<std::string> real_path(const std::string& path);

// Who else could change what lies at `path`: refuses (Code::unsafe, naming the path and why) a file
// or directory, or a directory that holds it, whose owner is neither root nor us, that others may
// write, or that a group may write which isn't our own primary group. A sticky directory that holds
// it, such as /tmp, is no reason to refuse.
[[nodiscard]] Result<void> check_trusted(const std::string& path);

}  // namespace mosaic::process
