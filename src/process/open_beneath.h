#pragma once

#include <linux/openat2.h>

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

// openat2(2), which glibc doesn't wrap. Internal to this room.

namespace mosaic::process {

// Opens below `parent` with O_CLOEXEC | O_NOFOLLOW added to `flags`, RESOLVE_BENEATH |
// RESOLVE_NO_SYMLINKS added to `resolve`. Returns -1 and sets errno like open(2).
[[nodiscard]] int open_beneath(int parent, const char* name, int flags, uint64_t resolve);

// The error for a failed open_beneath: Code::missing for ENOENT, Code::unsafe where the errno says
// that the thing is not of the wanted kind, else Code::system.
[[nodiscard]] tl::unexpected<Error> open_error(int error, const std::string& name);

// Code::invalid unless `name` is one path segment: not empty, no slash or NUL, not "." or "..".
[[nodiscard]] Result<void> check_segment(const std::string& name);

}  // namespace mosaic::process
