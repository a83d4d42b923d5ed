#include "cli/follow.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "cli/output.h"
#include "process/files.h"
#include "wire/limits.h"

namespace mosaic::cli {

LineFollower::LineFollower(UniqueFd directory, std::string name, UniqueFd watch)
    : directory_(std::move(directory)),
      name_(std::move(name)),
      watch_(std::move(watch)),
      lines_(limits::kFrameBytesMax) {}

Result<LineFollower> LineFollower::open(const std::string& directory,
                                        const std::string& name,
                                        bool follow) {
    MOSAIC_TRY_ASSIGN(UniqueFd there, process::open_directory(directory));
    UniqueFd watch;
    if (follow) {
        // Before the first read: what is written between the two is then an event, not a gap.
        watch.reset(::inotify_init1(IN_CLOEXEC));
        constexpr uint32_t kWhat =
            IN_MODIFY | IN_CREATE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE | IN_ONLYDIR;
        if (!watch.valid() || ::inotify_add_watch(watch.get(), directory.c_str(), kWhat) < 0) {
            return fail_sys(errno, "inotify on " + directory);
        }
    }
    return LineFollower(std::move(there), name, std::move(watch));
}

Result<bool> LineFollower::read_some() {
    if (!file_.valid()) {
        return false;
    }
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): read fills it
    std::array<char, 65536> buffer;
    ssize_t n = 0;
    do {
        n = ::read(file_.get(), buffer.data(), buffer.size());
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return fail_sys(errno, name_);
    }
    lines_.append({buffer.data(), static_cast<size_t>(n)});
    return n > 0;
}

bool LineFollower::replaced() const {
    struct stat opened {};

    struct stat named {};

    if (::fstatat(directory_.get(), name_.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0) {
        return false;  // renamed away and not made anew yet: its writer may still use it
    }
    return ::fstat(file_.get(), &opened) != 0 || opened.st_ino != named.st_ino ||
           opened.st_dev != named.st_dev;
}

bool LineFollower::rewind_if_truncated() {
    struct stat now {};

    if (::fstat(file_.get(), &now) != 0 || now.st_size >= ::lseek(file_.get(), 0, SEEK_CUR)) {
        return false;
    }
    ::lseek(file_.get(), 0, SEEK_SET);
    return true;
}

Result<bool> LineFollower::open_named() {
    UniqueFd file(
        ::openat(directory_.get(), name_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file.valid()) {
        return errno == ENOENT ? Result<bool>(false) : fail_sys(errno, name_);
    }

    struct stat kind {};

    if (::fstat(file.get(), &kind) != 0 || !S_ISREG(kind.st_mode)) {
        return fail(Code::unsafe, name_ + ": is no regular file");
    }
    file_ = std::move(file);
    return true;
}

Result<bool> LineFollower::move_on() {
    if (!file_.valid()) {
        return open_named();
    }
    if (replaced()) {
        // What was written to the old one between its end and its replacement comes first.
        MOSAIC_TRY_ASSIGN(const bool more, read_some());
        if (more) {
            return true;
        }
        ignore(lines_.take_rest(), "the half line of a file that nobody will finish");
        return open_named();
    }
    if (rewind_if_truncated()) {
        ignore(lines_.take_rest(), "the half line belongs to bytes that are gone");
        return true;
    }
    return false;
}

Result<std::optional<std::string>> LineFollower::next() {
    while (true) {
        if (auto line = lines_.next()) {
            return line;
        }
        if (lines_.overlong()) {
            return fail(Code::too_large, name_ + ": a line is longer than 1 MiB");
        }
        MOSAIC_TRY_ASSIGN(bool more, read_some());
        if (!more) {
            MOSAIC_TRY_ASSIGN(more, move_on());
        }
        if (!more) {
            return std::optional<std::string>();
        }
    }
}

Result<void> LineFollower::wait() {
    MOSAIC_TRY(wait_for_input(watch_.get()));
    // Only that something happened matters; which file it was is found out by looking.
    alignas(inotify_event) std::array<char, 16384> events{};
    ssize_t n = 0;
    do {
        n = ::read(watch_.get(), events.data(), events.size());
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return fail_sys(errno, "inotify");
    }
    return {};
}

}  // namespace mosaic::cli
