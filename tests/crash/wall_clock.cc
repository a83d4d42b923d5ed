// A wall clock that a test sets. The linker puts the function below in front of clock_gettime(2) in
// the programs that are built for the tests. MOSAIC_WALL_CLOCK names a file that holds how many
// seconds are added, as eight bytes that the test changes while the program runs; without it
// nothing is.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

using Offset = std::atomic<int64_t>;

const Offset* map_offset() {
    const char* path = std::getenv("MOSAIC_WALL_CLOCK");
    const int fd = path != nullptr ? ::open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return nullptr;
    }
    void* const page = ::mmap(nullptr, sizeof(Offset), PROT_READ, MAP_SHARED, fd, 0);
    ::close(fd);
    return page == MAP_FAILED ? nullptr : static_cast<const Offset*>(page);
}

}  // namespace

extern "C" {

int __real_clock_gettime(clockid_t clock, timespec* now);
int __wrap_clock_gettime(clockid_t clock, timespec* now);

int __wrap_clock_gettime(clockid_t clock, timespec* now) {
    static const Offset* const offset = map_offset();
    const int result = __real_clock_gettime(clock, now);
    if (clock == CLOCK_REALTIME && offset != nullptr) {
        now->tv_sec += *offset;
    }
    return result;
}

}  // extern "C"
