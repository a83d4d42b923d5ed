#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

// How much of a disk a tree takes that somebody else may be changing meanwhile.

namespace mosaic::process {

struct TreeUse {
    uint64_t bytes = 0;
    // Directories that could not be looked into; each counts for itself alone.
    uint64_t unread = 0;
};

// The blocks of everything in the tree and 512 bytes for each entry, so that empty files count too.
// A file with several names counts once when all of them lie in the tree. Follows no link, enters
// no other mount, opens no file and changes nothing. At any depth a few descriptors do, and 32
// bytes of memory a level. Stops when `enough` bytes are reached. Where directories move about
// while they are walked it is a lower bound. `name` is one segment below `parent`; one that isn't
// there is empty.
[[nodiscard]] Result<TreeUse> measure_tree(int parent, const std::string& name, uint64_t enough);

// Lets the calling process, which must have one thread, look into directories of its user and group
// that have no mode bit: it moves into a user namespace of its own, where it may read what is its
// user's. Only for a process that does nothing but look. Code::system where that is refused.
[[nodiscard]] Result<void> see_into_own_directories();

}  // namespace mosaic::process
