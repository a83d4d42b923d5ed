#include "process/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>

#include "process/open_beneath.h"
#include "process/write_all.h"

namespace mosaic::process {
namespace {

constexpr int kTemporaryNamesMax = 64;
constexpr int kOpenTriesMax = 8;

Result<std::string> read_regular(const UniqueFd& file,
                                 const std::string& name,
                                 uint64_t bytes_max) {
    struct stat info {};

    if (::fstat(file.get(), &info) != 0) {
        return fail_sys(errno, name);
    }
    if (!S_ISREG(info.st_mode)) {
        return fail(Code::unsafe, name + " is not a regular file");
    }
    const auto too_large = [&] {
        return fail(Code::too_large,
                    name + " has more than " + std::to_string(bytes_max) + " bytes");
    };
    if (info.st_size > 0 && static_cast<uint64_t>(info.st_size) > bytes_max) {
        return too_large();
    }
    std::string text;
    text.reserve(static_cast<size_t>(std::max<off_t>(info.st_size, 0)));
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): read fills it
    std::array<char, size_t{64} * 1024> buffer;
    for (;;) {
        const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return fail_sys(errno, "read " + name);
        }
        if (got == 0) {
            return text;
        }
        // The file may grow while it is read.
        if (text.size() + static_cast<size_t>(got) > bytes_max) {
            return too_large();
        }
        text.append(buffer.data(), static_cast<size_t>(got));
    }
}

constexpr int kCreateFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

// Makes a file that did not exist, with this mode whatever the umask, and writes it. Removes it
// again when that fails.
Result<UniqueFd> create_and_write(int parent,
                                  const std::string& name,
                                  std::string_view content,
                                  mode_t mode) {
    UniqueFd file(::openat(parent, name.c_str(), kCreateFlags, mode));
    if (!file.valid()) {
        return fail_sys(errno, "create " + name);
    }
    const auto written = [&]() -> Result<void> {
        if (::fchmod(file.get(), mode) != 0) {
            return fail_sys(errno, "chmod " + name);
        }
        return write_all(file.get(), content, "write " + name);
    }();
    if (!written) {
        ::unlinkat(parent, name.c_str(), 0);
        return tl::unexpected<Error>(written.error());
    }
    return file;
}

struct Temporary {
    std::string name;
    UniqueFd file;
};

std::string temporary_prefix(const std::string& name) {
    return "." + name + ".tmp";
}

// A name that no other process and no earlier one that died has.
Result<Temporary> create_temporary(int parent,
                                   const std::string& name,
                                   std::string_view content,
                                   mode_t mode) {
    static std::atomic<uint32_t> counter{0};
    for (int i = 0;; ++i) {
        Temporary temporary;
        temporary.name = temporary_prefix(name) + std::to_string(::getpid()) + "-" +
                         std::to_string(counter.fetch_add(1));
        auto file = create_and_write(parent, temporary.name, content, mode);
        if (file) {
            temporary.file = std::move(*file);
            return temporary;
        }
        if (file.error().sys != EEXIST || i >= kTemporaryNamesMax) {
            return tl::unexpected<Error>(file.error());
        }
    }
}

}  // namespace

int open_beneath(int parent, const char* name, int flags, uint64_t resolve) {
    open_how how{};
    how.flags = static_cast<unsigned>(flags | O_CLOEXEC | O_NOFOLLOW);
    how.resolve = resolve | RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
    // EAGAIN: something was renamed while the kernel resolved the name.
    long fd = -1;
    for (int i = 0; i < kOpenTriesMax; ++i) {
        fd = ::syscall(SYS_openat2, parent, name, &how, sizeof(how));
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) {
            break;
        }
    }
    return static_cast<int>(fd);
}

tl::unexpected<Error> open_error(int error, const std::string& name) {
    switch (error) {
        case ENOENT:
            return fail(Code::missing, name + " does not exist");
        case ELOOP:
            return fail(Code::unsafe, name + " is or lies behind a symbolic link");
        case EXDEV:
            return fail(Code::unsafe, name + " leads out of its directory or to another mount");
        case ENOTDIR:
            return fail(Code::unsafe, name + " is not a directory");
        case ENXIO:
        case ENODEV:
            return fail(Code::unsafe, name + " is not a regular file");
        default:
            return fail_sys(error, name);
    }
}

Result<void> check_segment(const std::string& name) {
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos) {
        return fail(Code::invalid, "\"" + name + "\" is not the name of one file");
    }
    return {};
}

Result<UniqueFd> open_directory(const std::string& path) {
    if (path.empty() || path[0] != '/' || path.find('\0') != std::string::npos) {
        return fail(Code::invalid, "\"" + path + "\" is not an absolute path");
    }
    UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid()) {
        const int error = errno;
        if (error == ENOENT) {
            return fail(Code::missing, path + " does not exist");
        }
        return fail_sys(error, path);
    }
    return directory;
}

Result<UniqueFd> open_private_directory(int parent, const std::string& name) {
    MOSAIC_TRY(check_segment(name));
    // By O_PATH first: a directory of ours without its read bit is unsafe, not unreadable.
    const UniqueFd found(open_beneath(parent, name.c_str(), O_PATH | O_DIRECTORY, 0));
    if (!found.valid()) {
        return open_error(errno, name);
    }

    struct stat info {};

    if (::fstat(found.get(), &info) != 0) {
        return fail_sys(errno, name);
    }
    if (info.st_uid != ::geteuid()) {
        return fail(Code::unsafe,
                    name + " is owned by user " + std::to_string(info.st_uid) + ", not by " +
                        std::to_string(::geteuid()));
    }
    if ((info.st_mode & 0777U) != 0700U) {
        std::array<char, 8> mode{};
        ignore(::snprintf(mode.data(), mode.size(), "%04o", info.st_mode & 0777U), "there is room");
        return fail(Code::unsafe, name + " has mode " + mode.data() + ", not 0700");
    }
    UniqueFd directory(::openat(found.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid()) {
        return fail_sys(errno, name);
    }
    return directory;
}

Result<void> make_directories(const std::string& path) {
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
        const std::string part = path.substr(0, end);
        if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
            return fail_sys(errno, part);
        }
        if (end == std::string::npos) {
            return {};
        }
    }
}

Result<UniqueFd> make_private_directory(int parent, const std::string& name) {
    MOSAIC_TRY(check_segment(name));
    if (::mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) {
        return fail_sys(errno, "mkdir " + name);
    }
    return open_private_directory(parent, name);
}

namespace {

Result<UniqueFd> open_to_read_beneath(int parent, const std::string& name) {
    if (name.empty() || name.find('\0') != std::string::npos) {
        return fail(Code::invalid, "\"" + name + "\" is not a file name");
    }
    UniqueFd file(
        open_beneath(parent, name.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY, RESOLVE_NO_XDEV));
    if (!file.valid()) {
        return open_error(errno, name);
    }
    return file;
}

}  // namespace

Result<std::string> read_file_beneath(int parent, const std::string& name, uint64_t bytes_max) {
    MOSAIC_TRY_ASSIGN(const UniqueFd file, open_to_read_beneath(parent, name));
    return read_regular(file, name, bytes_max);
}

Result<std::string> read_tail_beneath(int parent, const std::string& name, uint64_t bytes_max) {
    MOSAIC_TRY_ASSIGN(const UniqueFd file, open_to_read_beneath(parent, name));

    struct stat info {};

    if (::fstat(file.get(), &info) != 0) {
        return fail_sys(errno, name);
    }
    const auto size = static_cast<uint64_t>(info.st_size);
    const uint64_t skipped = size > bytes_max ? size - bytes_max : 0;
    if (!S_ISREG(info.st_mode)) {
        return fail(Code::unsafe, name + " is not a regular file");
    }
    std::string text(static_cast<size_t>(size - skipped), '\0');
    size_t filled = 0;
    while (filled < text.size()) {
        const ssize_t got = ::pread(file.get(),
                                    text.data() + filled,
                                    text.size() - filled,
                                    static_cast<off_t>(skipped + filled));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return fail_sys(errno, "read " + name);
        }
        if (got == 0) {
            break;  // cut meanwhile
        }
        filled += static_cast<size_t>(got);
    }
    text.resize(filled);
    return text;
}

Result<std::string> read_file_in(int parent, const std::string& name, uint64_t bytes_max) {
    MOSAIC_TRY(check_segment(name));
    const UniqueFd file(
        ::openat(parent, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!file.valid()) {
        return open_error(errno, name);
    }
    return read_regular(file, name, bytes_max);
}

Result<std::string> read_file(const std::string& path, uint64_t bytes_max) {
    if (path.empty() || path.find('\0') != std::string::npos) {
        return fail(Code::invalid, "\"" + path + "\" is not a path");
    }
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!file.valid()) {
        const int error = errno;
        return error == ENXIO || error == ENOENT ? open_error(error, path) : fail_sys(error, path);
    }
    return read_regular(file, path, bytes_max);
}

namespace {

// Whose a file is to be; nothing: whoever makes it.
struct Owner {
    uid_t user = 0;
    gid_t group = 0;
};

// acl(5): with a list the mode's group bits are its mask, and without it the group's own rights.
Result<void> copy_access_list(int from, int to, const std::string& name) {
    constexpr const char* kAttribute = "system.posix_acl_access";
    std::string list(XATTR_SIZE_MAX, '\0');
    const ssize_t bytes = ::fgetxattr(from, kAttribute, list.data(), list.size());
    if (bytes < 0 && (errno == ENODATA || errno == ENOTSUP)) {
        return {};
    }
    if (bytes < 0 || ::fsetxattr(to, kAttribute, list.data(), static_cast<size_t>(bytes), 0) != 0) {
        return fail_sys(errno, "giving the new " + name + " the access list that it had");
    }
    return {};
}

// Whose the new file is to be, and what access list it gets: that of an open file, -1 for none.
struct Like {
    std::optional<Owner> owner{};
    int access_list_of = -1;
};

// `put` brings the temporary file to its name, and tells whether the file is the new one then.
template <class Put>
Result<bool> replace_as(int parent,
                        const std::string& name,
                        std::string_view content,
                        mode_t mode,
                        const Like& like,
                        const Put& put) {
    MOSAIC_TRY_ASSIGN(Temporary temporary, create_temporary(parent, name, content, mode));
    auto replaced = [&]() -> Result<bool> {
        const auto& owner = like.owner;
        if (owner && ::fchown(temporary.file.get(), owner->user, owner->group) != 0) {
            return fail_sys(errno,
                            "giving the new " + name + " to user " + std::to_string(owner->user) +
                                " and group " + std::to_string(owner->group) + ", as it was");
        }
        if (like.access_list_of >= 0) {
            MOSAIC_TRY(copy_access_list(like.access_list_of, temporary.file.get(), name));
        }
        if (::fsync(temporary.file.get()) != 0) {
            return fail_sys(errno, "fsync " + temporary.name);
        }
        return put(temporary.name);
    }();
    // What came out of an exchange, or what nobody took.
    ::unlinkat(parent, temporary.name.c_str(), 0);
    if (replaced && *replaced && ::fsync(parent) != 0) {
        return fail_sys(errno, "fsync of the directory of " + name);
    }
    return replaced;
}

Result<bool> put_over(int parent, const std::string& temporary, const std::string& name) {
    if (::renameat(parent, temporary.c_str(), parent, name.c_str()) != 0) {
        return fail_sys(errno, "rename " + temporary + " to " + name);
    }
    return true;
}

}  // namespace

Result<void> replace_file(int parent,
                          const std::string& name,
                          std::string_view content,
                          mode_t mode) {
    MOSAIC_TRY(check_segment(name));
    MOSAIC_TRY(replace_as(parent, name, content, mode, {}, [&](const std::string& temporary) {
        return put_over(parent, temporary, name);
    }));
    return {};
}

namespace {

bool holds(int parent, const std::string& name, std::string_view content) {
    const auto now = read_file_in(parent, name, content.size());
    return now && *now == content;
}

// Where nothing was.
Result<bool> put_new(int parent, const std::string& temporary, const std::string& name) {
    if (::renameat2(parent, temporary.c_str(), parent, name.c_str(), RENAME_NOREPLACE) == 0) {
        return true;
    }
    if (errno == EEXIST) {
        return false;
    }
    return errno == EINVAL ? put_over(parent, temporary, name)
                           : fail_sys(errno, "rename " + temporary + " to " + name);
}

// In the place of a file with the content `before`. An editor that saves meanwhile doesn't ask for
// our lock: the two files change places, so that what we take away can be looked at, and is brought
// back when it isn't what we know. A file system that has no such exchange (EINVAL) gets the last
// look that there is.
Result<bool> put_for(int parent,
                     const std::string& temporary,
                     const std::string& name,
                     std::string_view before,
                     std::string_view content) {
    const auto exchange = [&] {
        return ::renameat2(parent, temporary.c_str(), parent, name.c_str(), RENAME_EXCHANGE) == 0;
    };
    if (!exchange()) {
        const int error = errno;
        if (error == EINVAL) {
            return holds(parent, name, before) ? put_over(parent, temporary, name) : false;
        }
        return error == ENOENT ? Result<bool>(false)
                               : fail_sys(error, "exchange " + temporary + " and " + name);
    }
    if (holds(parent, temporary, before)) {
        return true;
    }
    if (!exchange()) {
        return put_over(parent, temporary, name).map([](bool) { return false; });
    }
    // Ours comes out; anything else was saved since, and is the newest.
    if (!holds(parent, temporary, content)) {
        ignore(exchange(), "what is there then is what the same editor saved before");
    }
    return false;
}

// A temporary file whose writer died goes when nothing is lost with it. After an exchange it is
// what an editor saved meanwhile: what may be that gets a name that can be seen.
void settle_temporary(int parent,
                      const std::string& name,
                      const std::string& temporary,
                      std::string_view known) {
    if (holds(parent, temporary, "") || holds(parent, temporary, known)) {
        ::unlinkat(parent, temporary.c_str(), 0);
        return;
    }
    const std::string seen = name + ".left" + temporary.substr(temporary_prefix(name).size());
    ::renameat2(parent, temporary.c_str(), parent, seen.c_str(), RENAME_NOREPLACE);
}

// Temporary files of `name`, which has the content `known`, whose writers died. The caller keeps
// every other writer out.
void settle_temporaries(int parent, const std::string& name, std::string_view known) {
    const auto close = [](DIR* directory) { ::closedir(directory); };
    UniqueFd fd(::openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::unique_ptr<DIR, decltype(close)> directory(
        fd.valid() ? ::fdopendir(fd.get()) : nullptr, close);
    if (!directory) {
        return;
    }
    static_cast<void>(fd.release());
    const std::string prefix = temporary_prefix(name);
    while (const dirent* entry = ::readdir(directory.get())) {
        const std::string_view one = entry->d_name;
        if (one.starts_with(prefix) &&
            one.find_first_not_of("0123456789-", prefix.size()) == std::string_view::npos) {
            settle_temporary(parent, name, std::string(one), known);
        }
    }
}

}  // namespace

Result<bool> rewrite_file(int parent,
                          const std::string& name,
                          std::string_view before,
                          std::string_view content) {
    MOSAIC_TRY(check_segment(name));
    // A descriptor of its own, so that the lock goes with it. Only who rewrites takes it.
    const UniqueFd lock(::openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!lock.valid()) {
        return fail_sys(errno, "the directory of " + name);
    }
    while (::flock(lock.get(), LOCK_EX) != 0) {
        if (errno != EINTR) {
            return fail_sys(errno, "locking the directory of " + name);
        }
    }
    settle_temporaries(parent, name, before);
    constexpr mode_t kNewMode = 0600;
    const UniqueFd file(open_beneath(parent, name.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY, 0));
    if (!file.valid() && errno == ENOENT) {
        if (!before.empty()) {
            return false;
        }
        return replace_as(parent, name, content, kNewMode, {}, [&](const std::string& temporary) {
            return put_new(parent, temporary, name);
        });
    }
    if (!file.valid()) {
        return open_error(errno, name);
    }
    const auto now = read_regular(file, name, before.size());
    if (!now && now.error().code != Code::too_large) {
        return tl::unexpected<Error>(now.error());
    }
    if (!now || *now != before) {
        return false;
    }

    struct stat info {};

    if (::fstat(file.get(), &info) != 0) {
        return fail_sys(errno, name);
    }
    Like like;
    like.access_list_of = file.get();
    if (info.st_uid != ::geteuid() || info.st_gid != ::getegid()) {
        like.owner = Owner{info.st_uid, info.st_gid};
    }
    return replace_as(
        parent, name, content, info.st_mode & 07777U, like, [&](const std::string& temporary) {
            return put_for(parent, temporary, name, before, content);
        });
}

Result<void> create_file(int parent,
                         const std::string& name,
                         std::string_view content,
                         mode_t mode) {
    MOSAIC_TRY(check_segment(name));
    MOSAIC_TRY(create_and_write(parent, name, content, mode));
    return {};
}

Result<std::string> real_path(const std::string& path) {
    if (path.empty() || path.find('\0') != std::string::npos) {
        return fail(Code::invalid, "\"" + path + "\" is not a path");
    }
    const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), ::free);
    if (!real) {
        const int error = errno;
        auto failed = fail_sys(error, path);
        if (error == ENOENT) {
            failed.value().code = Code::missing;
        }
        return failed;
    }
    return std::string(real.get());
}

}  // namespace mosaic::process
