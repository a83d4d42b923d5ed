#include "process/local_path.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>

#include "base/utf8.h"
#include "process/files.h"
#include "process/open_beneath.h"

namespace mosaic::process {
namespace {

constexpr int kLinksMax = 40;  // as the kernel's
constexpr int kNamesMax = 256;
constexpr uint64_t kFdinfoBytesMax = uint64_t{64} * 1024;
constexpr uint64_t kMountinfoBytesMax = uint64_t{16} * 1024 * 1024;

// Takes what stands before the next `end` off the text.
std::string_view take(std::string_view& text, char end) {
    const size_t size = std::min(text.find(end), text.size());
    const std::string_view out = text.substr(0, size);
    text.remove_prefix(std::min(size + 1, text.size()));
    return out;
}

int number_in(std::string_view text) {
    int value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= 0 ? value : -1;
}

// Of a symbolic link that is there for each descriptor; asks the kernel's names alone.
std::string path_of(int fd) {
    std::array<char, PATH_MAX> text{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t n = ::readlink(link.c_str(), text.data(), text.size());
    return n > 0 && static_cast<size_t>(n) < text.size()
               ? std::string(text.data(), static_cast<size_t>(n))
               : "";
}

int mount_of(int fd) {
    const auto text = read_file("/proc/self/fdinfo/" + std::to_string(fd), kFdinfoBytesMax);
    return text ? mount_id_in(*text) : -1;
}

tl::unexpected<Error> failed(int error, const std::string& what) {
    auto out = fail_sys(error, escape_path(what));
    if (error == ENOENT) {
        out.value().code = Code::missing;
    }
    return out;
}

Result<std::string> target_of(int link, const std::string& what) {
    std::array<char, PATH_MAX> text{};
    const ssize_t n = ::readlinkat(link, "", text.data(), text.size());
    if (n <= 0 || static_cast<size_t>(n) == text.size()) {
        return failed(n < 0 ? errno : n == 0 ? ENOENT : ENAMETOOLONG, what);
    }
    return std::string(text.data(), static_cast<size_t>(n));
}

UniqueFd open_root() {
    return UniqueFd(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace

int mount_id_in(std::string_view fdinfo) {
    constexpr std::string_view kKey = "mnt_id:\t";
    while (!fdinfo.empty()) {
        const std::string_view line = take(fdinfo, '\n');
        if (line.starts_with(kKey)) {
            return number_in(line.substr(kKey.size()));
        }
    }
    return -1;
}

// "36 35 98:0 /root /at rw,noatime master:1 - ext3 /dev/root rw,errors=continue"
std::string mount_type_in(std::string_view mountinfo, int mount_id) {
    while (!mountinfo.empty()) {
        std::string_view line = take(mountinfo, '\n');
        if (mount_id < 0 || number_in(take(line, ' ')) != mount_id) {
            continue;
        }
        while (!line.empty() && take(line, ' ') != "-") {
        }
        return std::string(take(line, ' '));
    }
    return "";
}

bool is_local_type(std::string_view type) {
    constexpr std::array<std::string_view, 12> kLocal = {"ext2",
                                                         "ext3",
                                                         "ext4",
                                                         "xfs",
                                                         "btrfs",
                                                         "f2fs",
                                                         "bcachefs",
                                                         "zfs",
                                                         "jfs",
                                                         "tmpfs",
                                                         "ramfs",
                                                         "overlay"};
    return std::find(kLocal.begin(), kLocal.end(), type) != kLocal.end();
}

LocalPaths::LocalPaths(int trusted) {
    const UniqueFd root = open_root();
    for (const int id : {mount_of(trusted), mount_of(root.get())}) {
        if (id >= 0) {
            local_.push_back(id);
        }
    }
}

Result<LocalPath> LocalPaths::open(int from, const std::string& path) {
    if (path.empty() || path.find('\0') != std::string::npos) {
        return fail(Code::invalid, "\"" + escape_path(path) + "\" is not a path");
    }
    UniqueFd at = path[0] == '/' ? open_root()
                                 : UniqueFd(::openat(from, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!at.valid()) {
        return failed(errno, path);
    }
    std::string rest = path;
    int links = 0;
    int names = 0;
    while (!rest.empty()) {
        const std::string name = rest.substr(0, rest.find('/'));
        rest.erase(0, name.size() + 1);
        if (name.empty() || name == ".") {
            continue;
        }
        if (++names > kNamesMax) {
            return failed(ENAMETOOLONG, path);
        }
        MOSAIC_TRY_ASSIGN(UniqueFd next, step(at.get(), name, path));

        struct stat facts {};

        if (::fstat(next.get(), &facts) != 0) {
            return failed(errno, path);
        }
        if (!S_ISLNK(facts.st_mode)) {
            at = std::move(next);
            continue;
        }
        if (++links > kLinksMax) {
            return failed(ELOOP, path);
        }
        MOSAIC_TRY_ASSIGN(const std::string target, target_of(next.get(), path));
        if (target[0] == '/') {
            at = open_root();
        }
        rest.insert(0, target + "/");
        if (rest.size() > size_t{2} * PATH_MAX) {
            return failed(ENAMETOOLONG, path);
        }
    }
    std::string real = path_of(at.get());
    if (!real.starts_with('/')) {
        return fail(Code::missing,
                    escape_path(path) + " was moved or removed while it was looked at");
    }
    return LocalPath{.fd = std::move(at), .path = std::move(real)};
}

Result<UniqueFd> LocalPaths::open_in(int directory, const std::string& name) {
    return step(directory, name, name);
}

Result<UniqueFd> LocalPaths::step(int directory, const std::string& name, const std::string& what) {
    // Most steps stay on the mount, and this says so at once.
    UniqueFd fd(open_beneath(directory, name.c_str(), O_PATH, RESOLVE_NO_XDEV));
    if (fd.valid()) {
        return fd;
    }
    if (errno == EXDEV) {
        fd.reset(::openat(directory, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    }
    if (!fd.valid()) {
        return failed(errno, what);
    }
    MOSAIC_TRY(judge(fd.get()));
    return fd;
}

Result<void> LocalPaths::judge(int fd) {
    const int id = mount_of(fd);
    if (std::find(local_.begin(), local_.end(), id) != local_.end()) {
        return {};
    }
    if (mounts_.empty()) {
        MOSAIC_TRY_ASSIGN(mounts_, read_file("/proc/self/mountinfo", kMountinfoBytesMax));
    }
    const std::string type = mount_type_in(mounts_, id);
    if (!is_local_type(type)) {
        return fail(Code::unsafe,
                    escape_path(path_of(fd)) + " lies on a file system of type " +
                        (type.empty() ? "unknown" : escape_path(type)) + ", which may not answer");
    }
    local_.push_back(id);
    return {};
}

}  // namespace mosaic::process
