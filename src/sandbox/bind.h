#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// One step of building a session's file system. A list of them, in mount order, is all that a
// session sees: the root they are mounted on starts empty.

namespace mosaic::sandbox {

enum class BindKind {
    read_only,      // what lies at `source`, unwritable, submounts included
    read_write,     // the same, writable
    read_only_fd,   // what descriptor `fd` names, unwritable, whatever lies at its path by now
    read_write_fd,  // the directory that descriptor `fd` names, whatever lies at its path by now
    symlink,        // a link at `dest` whose text is `source`
    directory,      // an empty directory
    device,         // a private /dev with the harmless devices
    proc,           // a /proc of the session's own PID namespace
    tmpfs,          // an empty file system of at most `bytes`, mode `mode`
    remount_read_only,  // what has been built at `dest` so far becomes unwritable
};

// "read-only", "read-write", "link", ... for people and the manifest.
[[nodiscard]] std::string_view to_string(BindKind kind);

struct Bind {
    BindKind kind = BindKind::read_only;
    std::string source{};  // a path on the host; a link's text; empty for kinds without a source.
                           // kinds with a descriptor: the real path, for people only
    std::string dest{};    // absolute path inside
    std::string reason{};  // for people: why the session has it
    int fd = -1;           // kinds with a descriptor: its number in bwrap
    int64_t bytes = 0;     // tmpfs; 0: the kernel's default (half of the memory)
    mode_t mode = 0755;    // tmpfs

    bool operator==(const Bind&) const = default;
};

// Text of a path without doubled and trailing slashes and "." segments; ".." stays, for it can't be
// resolved in text. "/" stays "/".
[[nodiscard]] std::string tidy_path(std::string_view path);

// Whether `path` is `parent` or lies below it, by text; both tidy and absolute.
[[nodiscard]] bool lies_in(std::string_view path, std::string_view parent);

// How many segments a tidy absolute path has: 0 for "/".
[[nodiscard]] size_t depth_of(std::string_view path);

}  // namespace mosaic::sandbox
