#pragma once

#include <cstdint>

#include "base/unique_fd.h"

namespace mosaic::host {

// Notices that something was mounted, unmounted or remounted where we live. A sandbox that was made
// before may look different from one that would be made now: what is mounted later below one of its
// binds comes into it as it is, neither read-only nor without devices (mount_namespaces(7), slave
// mounts; bwrap(1) asks for those).
class MountTable {
  public:
    MountTable();

    // Another number than before when the table has changed since the last call: one poll(2) of
    // /proc/self/mountinfo, which is exceptional once after each change (proc(5)). When it can't be
    // watched, another one each time.
    [[nodiscard]] uint64_t version();

  private:
    UniqueFd table_;
    uint64_t version_ = 1;
};

}  // namespace mosaic::host
