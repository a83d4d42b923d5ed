#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <optional>

#include "process/files.h"
#include "process/open_beneath.h"

// A tree is removed by flattening it: a directory that lies in a directory of the tree's root is
// moved up into the root, until everything lies there. So three descriptors do at any depth, no way
// back up by ".." is needed that somebody could bend, and a removal that was interrupted goes on
// from whatever it finds.

namespace mosaic::process {
namespace {

struct CloseDirectory {
    void operator()(DIR* directory) const { ::closedir(directory); }
};

using Directory = std::unique_ptr<DIR, CloseDirectory>;

// Adds the owner's rights to a directory of ours that lacks them; without read rights it can only
// be held by O_PATH, and such a descriptor's mode changes through its link in /proc.
void restore_mode(int by_path) {
    struct stat info {};

    if (::fstat(by_path, &info) != 0 || info.st_uid != ::geteuid() ||
        (info.st_mode & 0700U) == 0700U) {
        return;
    }
    const std::string link = "/proc/self/fd/" + std::to_string(by_path);
    // When it fails, the call that needs the right reports it.
    [[maybe_unused]] const int result = ::chmod(link.c_str(), (info.st_mode & 0777U) | 0700U);
}

// Opens a directory to be emptied: no link, no other mount. `errno` says why when it is invalid.
Directory open_to_empty(int parent, const char* name) {
    const UniqueFd by_path(open_beneath(parent, name, O_PATH | O_DIRECTORY, RESOLVE_NO_XDEV));
    if (!by_path.valid()) {
        return nullptr;
    }
    restore_mode(by_path.get());
    UniqueFd fd(::openat(by_path.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) {
        return nullptr;
    }
    Directory directory(::fdopendir(fd.get()));
    if (directory) {
        static_cast<void>(fd.release());
    }
    return directory;
}

bool is_dot(const char* name) {
    return ::strcmp(name, ".") == 0 || ::strcmp(name, "..") == 0;
}

class TreeRemoval {
  public:
    TreeRemoval(int parent, const std::string& name) : parent_(parent), name_(name) {}

    Result<void> run() {
        if (unlink_file(parent_, name_.c_str())) {
            return {};
        }
        if (!is_directory_error(errno)) {
            return failed("unlink", name_.c_str());
        }
        root_ = open_to_empty(parent_, name_.c_str());
        if (!root_) {
            return errno == ENOENT ? Result<void>{} : failed("open", name_.c_str());
        }
        for (bool any = true; any;) {
            ::rewinddir(root_.get());
            MOSAIC_TRY_ASSIGN(any, empty_root_once());
        }
        if (::unlinkat(parent_, name_.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
            return failed("rmdir", name_.c_str());
        }
        return {};
    }

  private:
    int parent_;
    const std::string& name_;
    Directory root_;
    uint64_t moved_ = 0;

    // Linux answers EISDIR to unlink(2) of a directory; EPERM is what POSIX lets others say.
    static bool is_directory_error(int error) { return error == EISDIR || error == EPERM; }

    // True when there is no such name any more.
    static bool unlink_file(int parent, const char* name) {
        return ::unlinkat(parent, name, 0) == 0 || errno == ENOENT;
    }

    [[nodiscard]] tl::unexpected<Error> failed(const char* what, const char* entry) const {
        const int error = errno;
        if (error == EXDEV || error == EBUSY) {
            return fail(Code::unsafe,
                        "remove " + name_ + ": " + entry + " is a mount point or in use as one");
        }
        return fail_sys(error, "remove " + name_ + ": " + what + " " + entry);
    }

    // One pass over the root's entries; false when it had none.
    Result<bool> empty_root_once() {
        bool any = false;
        for (;;) {
            errno = 0;
            const dirent* entry = ::readdir(root_.get());
            if (entry == nullptr) {
                if (errno != 0) {
                    return failed("read", name_.c_str());
                }
                return any;
            }
            if (is_dot(entry->d_name)) {
                continue;
            }
            any = true;
            const int root = ::dirfd(root_.get());
            if (entry->d_type != DT_DIR && unlink_file(root, entry->d_name)) {
                continue;
            }
            if (entry->d_type != DT_DIR && !is_directory_error(errno)) {
                return failed("unlink", entry->d_name);
            }
            MOSAIC_TRY(remove_directory(entry->d_name));
        }
    }

    // A directory of the root: its files go, its directories move up, then it goes.
    Result<void> remove_directory(const char* name) {
        const Directory directory = open_to_empty(::dirfd(root_.get()), name);
        if (!directory) {
            // ENOTDIR: it was replaced under us; the next pass sees what it is now.
            return errno == ENOENT || errno == ENOTDIR ? Result<void>{} : failed("open", name);
        }
        const int from = ::dirfd(directory.get());
        for (;;) {
            errno = 0;
            const dirent* entry = ::readdir(directory.get());
            if (entry == nullptr) {
                if (errno != 0) {
                    return failed("read", name);
                }
                break;
            }
            if (is_dot(entry->d_name) ||
                (entry->d_type != DT_DIR && unlink_file(from, entry->d_name))) {
                continue;
            }
            if (entry->d_type != DT_DIR && !is_directory_error(errno)) {
                return failed("unlink", entry->d_name);
            }
            MOSAIC_TRY(move_up(from, entry->d_name));
        }
        // Not empty: entries that appeared during the pass; the next one takes them.
        if (::unlinkat(::dirfd(root_.get()), name, AT_REMOVEDIR) != 0 && errno != ENOENT &&
            errno != ENOTEMPTY && errno != EEXIST) {
            return failed("rmdir", name);
        }
        return {};
    }

    Result<void> move_up(int from, const char* name) {
        // An empty directory needs no move.
        if (::unlinkat(from, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
            return {};
        }
        // A directory that moves needs its own write right: its ".." changes.
        bool restored = false;
        for (;;) {
            const std::string place = ".removing-" + std::to_string(moved_++);
            if (::renameat(from, name, ::dirfd(root_.get()), place.c_str()) == 0 ||
                errno == ENOENT) {
                return {};
            }
            const int error = errno;
            // The place is taken by what an interrupted removal left.
            if (error == ENOTEMPTY || error == EEXIST || error == ENOTDIR) {
                continue;
            }
            if (restored || (error != EACCES && error != EPERM)) {
                errno = error;
                return failed("move", name);
            }
            restored = true;
            const UniqueFd by_path(open_beneath(from, name, O_PATH | O_DIRECTORY, RESOLVE_NO_XDEV));
            if (by_path.valid()) {
                restore_mode(by_path.get());
            }
        }
    }
};

}  // namespace

Result<void> remove_tree(int parent, const std::string& name) {
    MOSAIC_TRY(check_segment(name));
    return TreeRemoval(parent, name).run();
}

Result<UniqueFd> reopen_directory(int parent, const std::string& name) {
    MOSAIC_TRY(check_segment(name));
    UniqueFd by_path(open_beneath(parent, name.c_str(), O_PATH | O_DIRECTORY, RESOLVE_NO_XDEV));
    if (!by_path.valid()) {
        return open_error(errno, name);
    }
    restore_mode(by_path.get());
    return by_path;
}

}  // namespace mosaic::process
