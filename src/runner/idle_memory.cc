#include "runner/idle_memory.h"

#include <malloc.h>
#include <sys/mman.h>

#include <cstdint>

namespace mosaic::runner {
namespace {

constexpr uintptr_t kPageBytes = 4096;
// Deeper than any call chain of ours: the largest frames hold buffers of 64 KiB.
constexpr uintptr_t kDepthMax = uintptr_t{1024} * 1024;

}  // namespace

// Not inlined: its own frame, and that of madvise, must lie above what is given back.
__attribute__((noinline)) void give_back_memory() {
    ::malloc_trim(0);
    const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    const uintptr_t end = (here & ~(kPageBytes - 1)) - kPageBytes;
    // madvise(2), MADV_DONTNEED: anonymous pages read as zero afterwards. Most of the range was
    // never mapped, which the kernel passes over and then reports.
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of no object
    ::madvise(reinterpret_cast<void*>(end - kDepthMax), kDepthMax, MADV_DONTNEED);
}

}  // namespace mosaic::runner
