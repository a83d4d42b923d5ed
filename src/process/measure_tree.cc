#include "process/measure_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "process/open_beneath.h"

// Depth first with a stack of levels. The deepest levels keep their stream open; one that lies
// further up is opened again through ".." when the walk comes back to it, and must then be the
// directory that it was: somebody may be moving directories about meanwhile.

namespace mosaic::process {
namespace {

// What a name and an inode cost beside the blocks.
constexpr uint64_t kEntryBytes = 512;
// The unit of st_blocks, whatever the file system.
constexpr uint64_t kBlockBytes = 512;
// Streams that stay open at most.
constexpr size_t kOpenMax = 16;

struct CloseDirectory {
    void operator()(DIR* directory) const { ::closedir(directory); }
};

using Directory = std::unique_ptr<DIR, CloseDirectory>;

struct Level {
    Directory stream;  // null: closed for now
    long position = 0;
    dev_t device = 0;
    ino_t inode = 0;
};

Directory stream_of(int by_path) {
    UniqueFd fd(::openat(by_path, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    Directory directory(fd.valid() ? ::fdopendir(fd.get()) : nullptr);
    if (directory) {
        static_cast<void>(fd.release());
    }
    return directory;
}

bool is_dot(const char* name) {
    return ::strcmp(name, ".") == 0 || ::strcmp(name, "..") == 0;
}

class Measurement {
  public:
    explicit Measurement(uint64_t enough) : enough_(enough) {}

    // False when the tree changed so that the way back was lost.
    bool walk(int parent, const char* name) {
        enter(parent, name);
        while (!levels_.empty() && use_.bytes < enough_) {
            const dirent* entry = ::readdir(levels_.back().stream.get());
            if (entry != nullptr) {
                take(entry->d_name);
            } else if (!leave()) {
                return false;
            }
        }
        return true;
    }

    [[nodiscard]] const TreeUse& use() const { return use_; }

  private:
    uint64_t enough_;
    TreeUse use_;
    std::vector<Level> levels_;

    void take(const char* name) {
        if (is_dot(name)) {
            return;
        }
        const int directory = ::dirfd(levels_.back().stream.get());

        struct stat facts {};

        if (::fstatat(directory, name, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
            // Gone, or in a directory that may be listed and not searched.
            use_.bytes += kEntryBytes;
            use_.unread += errno == EACCES ? 1 : 0;
        } else if (S_ISDIR(facts.st_mode)) {
            enter(directory, name);
        } else {
            // Each name of a file that has several counts its share.
            const auto names = std::max<uint64_t>(1, facts.st_nlink);
            use_.bytes +=
                kEntryBytes + static_cast<uint64_t>(facts.st_blocks) * kBlockBytes / names;
        }
    }

    // Goes down into a directory. One that is gone, or none any more, or another mount is passed
    // over.
    void enter(int parent, const char* name) {
        const UniqueFd by_path(open_beneath(parent, name, O_PATH | O_DIRECTORY, RESOLVE_NO_XDEV));

        struct stat facts {};

        if (!by_path.valid() || ::fstat(by_path.get(), &facts) != 0) {
            return;
        }
        use_.bytes += kEntryBytes + static_cast<uint64_t>(facts.st_blocks) * kBlockBytes;
        Level level;
        level.device = facts.st_dev;
        level.inode = facts.st_ino;
        level.stream = stream_of(by_path.get());
        if (!level.stream) {
            ++use_.unread;
            return;
        }
        levels_.push_back(std::move(level));
        if (levels_.size() <= kOpenMax) {
            return;
        }
        // Those further up were closed on the way down, unless the walk has come back to one since.
        if (Level& far = levels_[levels_.size() - 1 - kOpenMax]; far.stream) {
            far.position = ::telldir(far.stream.get());
            far.stream.reset();
        }
    }

    // Back up. The level above may have to be opened again.
    bool leave() {
        const Level left = std::move(levels_.back());
        levels_.pop_back();
        if (levels_.empty() || levels_.back().stream) {
            return true;
        }
        Level& above = levels_.back();
        const UniqueFd by_path(
            ::openat(::dirfd(left.stream.get()), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));

        struct stat facts {};

        if (!by_path.valid() || ::fstat(by_path.get(), &facts) != 0 ||
            facts.st_dev != above.device || facts.st_ino != above.inode) {
            return false;
        }
        above.stream = stream_of(by_path.get());
        if (!above.stream) {
            return false;
        }
        ::seekdir(above.stream.get(), above.position);
        return true;
    }
};

Result<void> write_map(const char* path, const std::string& text) {
    const UniqueFd file(::open(path, O_WRONLY | O_CLOEXEC));
    if (!file.valid() ||
        ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
        return fail_sys(errno, path);
    }
    return {};
}

std::string to_itself(unsigned id) {
    return std::to_string(id) + " " + std::to_string(id) + " 1";
}

}  // namespace

Result<TreeUse> measure_tree(int parent, const std::string& name, uint64_t enough) {
    constexpr int kTries = 3;
    MOSAIC_TRY(check_segment(name));
    TreeUse most;
    for (int i = 0; i < kTries; ++i) {
        Measurement measurement(enough);
        const bool whole = measurement.walk(parent, name.c_str());
        most.bytes = std::max(most.bytes, measurement.use().bytes);
        most.unread = std::max(most.unread, measurement.use().unread);
        if (whole) {
            break;
        }
    }
    return most;
}

Result<void> see_into_own_directories() {
    const uid_t user = ::geteuid();
    const gid_t group = ::getegid();
    if (::unshare(CLONE_NEWUSER) != 0) {
        return fail_sys(errno, "a user namespace");
    }
    MOSAIC_TRY(write_map("/proc/self/setgroups", "deny"));
    MOSAIC_TRY(write_map("/proc/self/uid_map", to_itself(user)));
    return write_map("/proc/self/gid_map", to_itself(group));
}

}  // namespace mosaic::process
