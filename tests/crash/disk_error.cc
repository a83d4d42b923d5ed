// Disk errors in the host that is built for the tests. The linker puts the functions below in front
// of those by which the host writes: the ring's operations on files, and the system calls of what
// is written before the loop runs. Without the variable MOSAIC_DISK_ERRORS they do nothing but go
// on; see disk_error.h for what it names.
//
// An operation that fails isn't carried out, but a close, whose descriptor is gone as with Linux,
// and a write for which there is no space: the half that fits is written, and the next operation
// fails.

#include "crash/disk_error.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "reactor/ring.h"

namespace mosaic::crash {
namespace {

DiskErrors* map_errors() {
    const char* path = std::getenv("MOSAIC_DISK_ERRORS");
    // Not open(2) by its name: that is one of the functions below.
    const long opened =
        path != nullptr ? ::syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    const int fd = static_cast<int>(opened);
    if (fd < 0) {
        return nullptr;
    }
    void* const page =
        ::mmap(nullptr, sizeof(DiskErrors), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    return page == MAP_FAILED ? nullptr : static_cast<DiskErrors*>(page);
}

DiskErrors* errors() {
    static DiskErrors* const mapped = map_errors();
    return mapped;
}

std::string path_of(int fd) {
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    std::array<char, 4096> text{};
    const ssize_t size = ::readlink(link.c_str(), text.data(), text.size() - 1);
    return {text.data(), size > 0 ? static_cast<size_t>(size) : 0};
}

std::string path_of(int directory, const char* path) {
    if (path[0] == '/' || directory == AT_FDCWD) {
        return path;
    }
    return path_of(directory) + "/" + path;
}

bool is_below(const std::string& path, std::string_view root) {
    return !root.empty() && path.starts_with(root) &&
           (path.size() == root.size() || path[root.size()] == '/');
}

// Counts the operation on what `place` leads to: a descriptor, or a directory and a path. 0: it
// goes on; else the errno it fails with.
template <class... Place>
int pass(const char* call, const Place&... place) {
    DiskErrors* const e = errors();
    if (e == nullptr) {
        return 0;
    }
    const int before = errno;
    const std::string path = path_of(place...);
    if (!is_below(path, e->root.data())) {
        errno = before;
        return 0;
    }
    const uint32_t number = ++e->passed;
    if (number <= DiskErrors::kNamed) {
        const std::string name = path.substr(path.rfind('/') + 1);
        std::snprintf(e->names[number - 1].data(), 64, "%s %.40s", call, name.c_str());
    }
    errno = before;
    const uint32_t from = e->fail_from;
    if (from == 0 || number < from || number >= from + e->fail_count) {
        return 0;
    }
    ++e->failed;
    return e->sys;
}

// How much of a write goes through before `sys` comes.
size_t part_of(int sys, size_t size) {
    return sys == ENOSPC ? size / 2 : 0;
}

// After a part of a write: the next operation fails.
void fail_next() {
    DiskErrors* const e = errors();
    e->fail_from = e->passed + 1;
}

bool fails(int sys) {
    errno = sys != 0 ? sys : errno;
    return sys != 0;
}

}  // namespace

// ---- the ring ----

// A result is the kernel's word, which only a test changes. An explicit instantiation may name what
// is private.
template <int32_t reactor::Op::*Result>
struct ResultOf {
    friend int32_t& result_of(reactor::Op& op) { return op.*Result; }
};

int32_t& result_of(reactor::Op& op);
template struct ResultOf<&reactor::Op::result_>;

namespace {

using reactor::Op;
using reactor::Ring;

// Operations under way that are to fail, and with what.
std::map<Op*, int>& failing() {
    static std::map<Op*, int> ops;
    return ops;
}

}  // namespace

#define MOSAIC_RING(name, type, ...)                                 \
    type real_##name(__VA_ARGS__) asm("__real_" MOSAIC_RING_SYMBOL); \
    type wrap_##name(__VA_ARGS__) asm("__wrap_" MOSAIC_RING_SYMBOL);

#define MOSAIC_RING_SYMBOL "_ZN6mosaic7reactor4Ring5closeERNS0_2OpEi"
MOSAIC_RING(close, void, Ring* ring, Op& op, int fd)
#undef MOSAIC_RING_SYMBOL
#define MOSAIC_RING_SYMBOL "_ZN6mosaic7reactor4Ring5writeERNS0_2OpEiPKvm"
MOSAIC_RING(write, void, Ring* ring, Op& op, int fd, const void* bytes, size_t size)
#undef MOSAIC_RING_SYMBOL
#define MOSAIC_RING_SYMBOL "_ZN6mosaic7reactor4Ring6openatERNS0_2OpEiPKcij"
MOSAIC_RING(openat, void, Ring* ring, Op& op, int dir, const char* path, int flags, mode_t mode)
#undef MOSAIC_RING_SYMBOL
#define MOSAIC_RING_SYMBOL "_ZN6mosaic7reactor4Ring5fsyncERNS0_2OpEi"
MOSAIC_RING(fsync, void, Ring* ring, Op& op, int fd)
#undef MOSAIC_RING_SYMBOL
#define MOSAIC_RING_SYMBOL "_ZN6mosaic7reactor4Ring7mkdiratERNS0_2OpEiPKcj"
MOSAIC_RING(mkdirat, void, Ring* ring, Op& op, int dir, const char* path, mode_t mode)
#undef MOSAIC_RING_SYMBOL
#define MOSAIC_RING_SYMBOL "_ZN6mosaic7reactor4Ring8renameatERNS0_2OpEiPKciS5_"
MOSAIC_RING(renameat, void, Ring* ring, Op& op, int from, const char* old, int to, const char* name)
#undef MOSAIC_RING_SYMBOL
#define MOSAIC_RING_SYMBOL "_ZN6mosaic7reactor4Ring8unlinkatERNS0_2OpEiPKci"
MOSAIC_RING(unlinkat, void, Ring* ring, Op& op, int dir, const char* path, int flags)
#undef MOSAIC_RING_SYMBOL
#define MOSAIC_RING_SYMBOL "_ZN6mosaic7reactor4Ring4tickENS_7InstantERSt6vectorIPNS0_2OpESaIS5_EE"
MOSAIC_RING(tick, Result<void>, Ring* ring, Instant deadline, std::vector<Op*>& done)
#undef MOSAIC_RING_SYMBOL
#undef MOSAIC_RING

namespace {

// In the place of an operation that fails: one that does nothing.
bool fails_instead(Ring* ring, Op& op, int sys) {
    if (sys == 0) {
        return false;
    }
    failing()[&op] = sys;
    real_close(ring, op, -1);
    return true;
}

}  // namespace

void wrap_close(Ring* ring, Op& op, int fd) {
    const int sys = pass("close", fd);
    real_close(ring, op, fd);
    if (sys != 0) {
        failing()[&op] = sys;
    }
}

void wrap_write(Ring* ring, Op& op, int fd, const void* bytes, size_t size) {
    const int sys = pass("write", fd);
    const size_t part = part_of(sys, size);
    if (part > 0) {
        fail_next();
        real_write(ring, op, fd, bytes, part);
    } else if (!fails_instead(ring, op, sys)) {
        real_write(ring, op, fd, bytes, size);
    }
}

void wrap_openat(Ring* ring, Op& op, int dir, const char* path, int flags, mode_t mode) {
    const bool writes = (flags & (O_CREAT | O_WRONLY | O_RDWR)) != 0;
    if (!fails_instead(ring, op, writes ? pass("open", dir, path) : 0)) {
        real_openat(ring, op, dir, path, flags, mode);
    }
}

void wrap_fsync(Ring* ring, Op& op, int fd) {
    if (!fails_instead(ring, op, pass("fsync", fd))) {
        real_fsync(ring, op, fd);
    }
}

void wrap_mkdirat(Ring* ring, Op& op, int dir, const char* path, mode_t mode) {
    if (!fails_instead(ring, op, pass("mkdir", dir, path))) {
        real_mkdirat(ring, op, dir, path, mode);
    }
}

void wrap_renameat(Ring* ring, Op& op, int from, const char* old, int to, const char* name) {
    if (!fails_instead(ring, op, pass("rename", from, old))) {
        real_renameat(ring, op, from, old, to, name);
    }
}

void wrap_unlinkat(Ring* ring, Op& op, int dir, const char* path, int flags) {
    if (!fails_instead(ring, op, pass("unlink", dir, path))) {
        real_unlinkat(ring, op, dir, path, flags);
    }
}

Result<void> wrap_tick(Ring* ring, Instant deadline, std::vector<Op*>& done) {
    auto ticked = real_tick(ring, deadline, done);
    for (Op* const op : done) {
        if (const auto found = failing().find(op); found != failing().end()) {
            result_of(*op) = -found->second;
            failing().erase(found);
        }
    }
    return ticked;
}

}  // namespace mosaic::crash

// ---- the system calls ----

extern "C" {

int __real_openat(int dir, const char* path, int flags, ...);
int __real_open(const char* path, int flags, ...);
int __real_mkdir(const char* path, mode_t mode);
int __real_mkdirat(int dir, const char* path, mode_t mode);
ssize_t __real_write(int fd, const void* bytes, size_t size);
ssize_t __real_pwrite(int fd, const void* bytes, size_t size, off_t offset);
int __real_fsync(int fd);
int __real_fchmod(int fd, mode_t mode);
int __real_ftruncate(int fd, off_t size);
int __real_renameat(int from, const char* old, int to, const char* name);
int __real_unlinkat(int dir, const char* path, int flags);
int __real_bind(int socket, const sockaddr* address, socklen_t size);
int __wrap_openat(int dir, const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...);
int __wrap_mkdir(const char* path, mode_t mode);
int __wrap_mkdirat(int dir, const char* path, mode_t mode);
ssize_t __wrap_write(int fd, const void* bytes, size_t size);
ssize_t __wrap_pwrite(int fd, const void* bytes, size_t size, off_t offset);
int __wrap_fsync(int fd);
int __wrap_fchmod(int fd, mode_t mode);
int __wrap_ftruncate(int fd, off_t size);
int __wrap_renameat(int from, const char* old, int to, const char* name);
int __wrap_unlinkat(int dir, const char* path, int flags);
int __wrap_bind(int socket, const sockaddr* address, socklen_t size);

using mosaic::crash::fails;
using mosaic::crash::pass;

int __wrap_openat(int dir, const char* path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
    const bool writes = (flags & (O_CREAT | O_WRONLY | O_RDWR)) != 0;
    return writes && fails(pass("open", dir, path)) ? -1 : __real_openat(dir, path, flags, mode);
}

int __wrap_open(const char* path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
    const bool writes = (flags & (O_CREAT | O_WRONLY | O_RDWR)) != 0;
    return writes && fails(pass("open", AT_FDCWD, path)) ? -1 : __real_open(path, flags, mode);
}

int __wrap_mkdir(const char* path, mode_t mode) {
    return fails(pass("mkdir", AT_FDCWD, path)) ? -1 : __real_mkdir(path, mode);
}

int __wrap_mkdirat(int dir, const char* path, mode_t mode) {
    return fails(pass("mkdir", dir, path)) ? -1 : __real_mkdirat(dir, path, mode);
}

ssize_t __wrap_write(int fd, const void* bytes, size_t size) {
    const int sys = pass("write", fd);
    const size_t part = mosaic::crash::part_of(sys, size);
    if (part > 0) {
        mosaic::crash::fail_next();
        return __real_write(fd, bytes, part);
    }
    return fails(sys) ? -1 : __real_write(fd, bytes, size);
}

ssize_t __wrap_pwrite(int fd, const void* bytes, size_t size, off_t offset) {
    return fails(pass("write", fd)) ? -1 : __real_pwrite(fd, bytes, size, offset);
}

int __wrap_fsync(int fd) {
    return fails(pass("fsync", fd)) ? -1 : __real_fsync(fd);
}

int __wrap_fchmod(int fd, mode_t mode) {
    return fails(pass("chmod", fd)) ? -1 : __real_fchmod(fd, mode);
}

int __wrap_ftruncate(int fd, off_t size) {
    return fails(pass("truncate", fd)) ? -1 : __real_ftruncate(fd, size);
}

int __wrap_renameat(int from, const char* old, int to, const char* name) {
    return fails(pass("rename", from, old)) ? -1 : __real_renameat(from, old, to, name);
}

int __wrap_unlinkat(int dir, const char* path, int flags) {
    return fails(pass("unlink", dir, path)) ? -1 : __real_unlinkat(dir, path, flags);
}

int __wrap_bind(int socket, const sockaddr* address, socklen_t size) {
    const bool named = address->sa_family == AF_UNIX && size > sizeof(sa_family_t);
    const char* const path = named ? reinterpret_cast<const sockaddr_un*>(address)->sun_path : "";
    return fails(pass("bind", AT_FDCWD, path)) ? -1 : __real_bind(socket, address, size);
}

}  // extern "C"
