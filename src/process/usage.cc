#include "process/usage.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/error.h"

namespace mosaic::process {
namespace {

struct CloseDirectory {
    void operator()(DIR* directory) const { ::closedir(directory); }
};

uint64_t count_open_fds() {
    constexpr const char* kFds = "/proc/self/fd";

    struct stat there {};

    // From Linux 6.2 on the directory's size is the number of descriptors.
    if (::stat(kFds, &there) == 0 && there.st_size > 0) {
        return static_cast<uint64_t>(there.st_size);
    }
    const std::unique_ptr<DIR, CloseDirectory> directory(::opendir(kFds));
    if (!directory) {
        return 0;
    }
    uint64_t entries = 0;
    while (::readdir(directory.get()) != nullptr) {
        ++entries;
    }
    constexpr uint64_t kNotOnes = 3;  // "." and ".." and the directory's own descriptor
    return entries > kNotOnes ? entries - kNotOnes : 0;
}

// The second number of /proc/self/statm: resident pages.
uint64_t count_resident_pages() {
    struct CloseFile {
        void operator()(FILE* file) const { ignore(std::fclose(file), "it was read only"); }
    };

    const std::unique_ptr<FILE, CloseFile> file(std::fopen("/proc/self/statm", "re"));
    unsigned long long size = 0;
    unsigned long long resident = 0;
    // NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers
    if (!file || std::fscanf(file.get(), "%llu %llu", &size, &resident) != 2) {
        return 0;
    }
    return resident;
}

}  // namespace

Usage usage_of_self() {
    Usage out;
    out.open_fds = count_open_fds();
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        out.max_fds = limit.rlim_cur;
    }
    const long page = ::sysconf(_SC_PAGESIZE);
    out.resident_bytes = page > 0 ? count_resident_pages() * static_cast<uint64_t>(page) : 0;
    return out;
}

}  // namespace mosaic::process
