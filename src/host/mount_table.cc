#include "host/mount_table.h"

#include <fcntl.h>
#include <poll.h>

namespace mosaic::host {

MountTable::MountTable() : table_(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)) {}

uint64_t MountTable::version() {
    pollfd change{table_.get(), POLLPRI, 0};
    if (!table_.valid() || ::poll(&change, 1, 0) != 0) {
        ++version_;
    }
    return version_;
}

}  // namespace mosaic::host
