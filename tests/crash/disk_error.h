#pragma once

#include <array>
#include <atomic>
#include <cstdint>

// What a test and a host that is built for it share: a file, named by MOSAIC_DISK_ERRORS, that both
// have mapped. In the host every operation that writes below the data root is counted and named,
// and the operations `fail_from` to `fail_from + fail_count - 1` fail.

namespace mosaic::crash {

struct DiskErrors {
    static constexpr uint32_t kNamed = 1024;

    std::array<char, 256>
        root;  // the data root; empty: nothing counts. Written before the host runs
    std::atomic<uint32_t> passed;                    // operations since the test set it to 0
    std::atomic<uint32_t> failed;                    // how many of them failed
    std::atomic<uint32_t> fail_from;                 // from 1; 0: none
    std::atomic<uint32_t> fail_count;                // so many in a row; then the disk works again
    std::atomic<int32_t> sys;                        // the errno that they fail with
    std::array<std::array<char, 64>, kNamed> names;  // of the first operations: "fsync broker.tmp"
};

static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace mosaic::crash
