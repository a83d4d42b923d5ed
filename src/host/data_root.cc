#include "host/data_root.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "host/log.h"
#include "process/files.h"
#include "process/proc.h"
#include "registry/layout.h"
#include "wire/limits.h"

namespace mosaic::host {
namespace {

namespace fs = std::filesystem;

// The segments of what doesn't exist yet, each with a slash before it.
Result<std::string> tidy_rest(const std::string& rest, const std::string& path) {
    std::string tidy;
    for (size_t start = 0; start < rest.size();) {
        const size_t end = std::min(rest.find('/', start), rest.size());
        const std::string segment = rest.substr(start, end - start);
        start = end + 1;
        if (segment == "..") {
            return fail(Code::invalid,
                        "the data root " + path +
                            " goes up from a directory that doesn't exist; name it without ..");
        }
        if (!segment.empty() && segment != ".") {
            tidy += "/" + segment;
        }
    }
    return tidy;
}

// Where `path` leads, whether it exists or not: the real path of what exists, then the rest.
Result<std::string> place_of(const std::string& path) {
    std::string exists = path;
    std::string rest;
    while (true) {
        auto real = process::real_path(exists.empty() ? "/" : exists);
        if (real) {
            MOSAIC_TRY_ASSIGN(const std::string tidy, tidy_rest(rest, path));
            return *real == "/" && !tidy.empty() ? tidy : *real + tidy;
        }
        const size_t slash = exists.rfind('/');
        if (real.error().sys != ENOENT || slash == std::string::npos) {
            return tl::unexpected<Error>(std::move(real.error()));
        }
        rest = exists.substr(slash) + rest;
        exists.resize(slash);
    }
}

Result<void> check_place(const std::string& real) {
    if (real == "/") {
        return fail(Code::invalid, "the data root can't be /; choose a directory of its own");
    }
    if (real == "/tmp" || real.starts_with("/tmp/")) {
        return fail(Code::unsafe,
                    "the data root " + real +
                        " lies under /tmp, where a session could rename the directories it stands "
                        "on; choose another place with --data or dataRoot");
    }
    const size_t longest = std::max({registry::launch_socket_path(real).size(),
                                     registry::bus_socket_path(real).size(),
                                     registry::admin_socket_path(real).size()});
    if (longest > limits::kSocketPathBytesMax) {
        return fail(Code::too_large,
                    "the data root " + real +
                        " is too long for a socket: its longest socket path has " +
                        std::to_string(longest) + " bytes, at most " +
                        std::to_string(limits::kSocketPathBytesMax) +
                        " fit; choose a shorter place with --data or dataRoot");
    }
    return {};
}

std::string holder_of(int lock) {
    std::array<char, 32> text{};
    const ssize_t bytes = ::pread(lock, text.data(), text.size() - 1, 0);
    std::string pid(text.data(), bytes > 0 ? static_cast<size_t>(bytes) : 0);
    while (!pid.empty() && pid.back() == '\n') {
        pid.pop_back();
    }
    return pid.empty() ? "unknown" : pid;
}

// A host that is killed between the clone and the exec of a bwrap leaves a process that looks like
// itself and becomes a session's later. It has the flock until then (flock(2): a lock is the open
// file's, which a clone shares and an exec closes).
Result<void> wait_for_started(int lock, const std::string& path) {
    if (::flock(lock, LOCK_EX | LOCK_NB) == 0) {
        return {};
    }
    if (errno == EWOULDBLOCK) {
        log_line("waiting for a process that an earlier host was starting; it holds " + path);
    }
    while (::flock(lock, LOCK_EX) != 0) {
        if (errno != EINTR) {
            return fail_sys(errno, path);
        }
    }
    return {};
}

Result<UniqueFd> take_lock(const DataRoot& root) {
    constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    const std::string path = registry::lock_path(root.path);
    UniqueFd lock(
        ::openat(root.bus_host.get(), std::string(registry::kLock).c_str(), kFlags, 0600));
    if (!lock.valid()) {
        return fail_sys(errno, path);
    }

    struct flock whole {};

    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    if (::fcntl(lock.get(), F_SETLK, &whole) != 0) {
        if (errno == EAGAIN || errno == EACCES) {
            return fail(Code::held,
                        "another host serves " + root.path + " (pid " + holder_of(lock.get()) +
                            " holds " + path + ")");
        }
        return fail_sys(errno, path);
    }
    const std::string pid = std::to_string(::getpid()) + "\n";
    if (::ftruncate(lock.get(), 0) != 0 ||
        ::pwrite(lock.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
        return fail_sys(errno, path);
    }
    MOSAIC_TRY(wait_for_started(lock.get(), path));
    return lock;
}

// The parent of the root, and the root's name in it.
struct Split {
    std::string parent;
    std::string name;
};

Split split(const std::string& path) {
    const size_t slash = path.rfind('/');
    return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

// Names the whole root in an error that knows only one directory of it.
tl::unexpected<Error> of_root(const std::string& path, Error error) {
    error.text = "the data root " + path + " can't be used: " + error.text;
    return tl::unexpected<Error>(std::move(error));
}

// Every directory that is there already is ours and private, so that nothing is made where
// something must be refused.
Result<void> check_existing(const std::string& place, const std::string& business) {
    const auto open = [](int parent, std::string_view name) -> Result<UniqueFd> {
        if (parent < 0) {
            return UniqueFd();
        }
        auto opened = process::open_private_directory(parent, std::string(name));
        if (!opened && opened.error().code == Code::missing) {
            return UniqueFd();
        }
        return opened;
    };
    const auto [above, name] = split(place);
    const auto parent = process::open_directory(above);
    if (!parent) {
        return {};  // made, or refused, with the parents
    }
    MOSAIC_TRY_ASSIGN(const UniqueFd root, open(parent->get(), name));
    MOSAIC_TRY_ASSIGN(const UniqueFd bus_host, open(root.get(), registry::kBusHost));
    MOSAIC_TRY(open(bus_host.get(), registry::kStage));
    MOSAIC_TRY_ASSIGN(const UniqueFd launches, open(root.get(), registry::kLaunches));
    MOSAIC_TRY(open(launches.get(), business));
    return {};
}

Result<DataRoot> make_all(const std::string& place, const std::string& business) {
    DataRoot root;
    root.path = place;
    const auto below = [](int directory, std::string_view name) {
        return process::make_private_directory(directory, std::string(name));
    };
    const auto [above, name] = split(place);
    MOSAIC_TRY_ASSIGN(const UniqueFd parent, process::open_directory(above));
    MOSAIC_TRY_ASSIGN(root.root, below(parent.get(), name));
    MOSAIC_TRY_ASSIGN(root.bus_host, below(root.root.get(), registry::kBusHost));
    MOSAIC_TRY_ASSIGN(root.lock, take_lock(root));
    MOSAIC_TRY_ASSIGN(root.launches, below(root.root.get(), registry::kLaunches));
    MOSAIC_TRY_ASSIGN(root.runs, below(root.launches.get(), business));
    MOSAIC_TRY_ASSIGN(root.stage, below(root.bus_host.get(), registry::kStage));
    return root;
}

}  // namespace

Result<DataRoot> open_data_root(const std::string& path, const std::string& business) {
    std::error_code error;
    const fs::path absolute = fs::absolute(path, error);
    if (error) {
        return fail_sys(error.value(), "the data root " + path);
    }
    MOSAIC_TRY_ASSIGN(const std::string place, place_of(absolute.string()));
    MOSAIC_TRY(check_place(place));
    if (auto existing = check_existing(place, business); !existing) {
        return of_root(place, std::move(existing.error()));
    }
    if (auto made = process::make_directories(place); !made) {
        return of_root(place, std::move(made.error()));
    }
    auto root = make_all(place, business);
    if (!root && root.error().code != Code::held) {
        return of_root(place, std::move(root.error()));
    }
    return root;
}

Result<void> check_runs_directory(const DataRoot& root, const std::string& business) {
    const std::string path = registry::runs_dir(root.path, business);
    MOSAIC_TRY_ASSIGN(
        const UniqueFd launches,
        process::open_private_directory(root.root.get(), std::string(registry::kLaunches)));
    MOSAIC_TRY_ASSIGN(const UniqueFd runs,
                      process::open_private_directory(launches.get(), business));

    struct stat now {};

    struct stat opened {};

    if (::fstat(runs.get(), &now) != 0 || ::fstat(root.runs.get(), &opened) != 0) {
        return fail_sys(errno, path);
    }
    if (now.st_dev != opened.st_dev || now.st_ino != opened.st_ino) {
        return fail(Code::unsafe, path + " isn't the directory that it was at the start");
    }
    return {};
}

Result<registry::SessionsFile> read_left_sessions(const DataRoot& root,
                                                  const std::string& business) {
    const std::string path = registry::sessions_path(root.path);

    struct stat facts {};

    if (::fstatat(root.bus_host.get(),
                  std::string(registry::kSessions).c_str(),
                  &facts,
                  AT_SYMLINK_NOFOLLOW) != 0 &&
        errno == ENOENT) {
        MOSAIC_TRY(process::replace_file(root.bus_host.get(),
                                         std::string(registry::kSessions),
                                         registry::dump_sessions({process::boot_id(), {}}),
                                         registry::kFileMode));
    }
    if (::fsync(root.bus_host.get()) != 0) {
        return fail_sys(errno, "fsync of the directory of " + path);
    }
    MOSAIC_TRY_ASSIGN(const std::string text,
                      process::read_file_beneath(root.bus_host.get(),
                                                 std::string(registry::kSessions),
                                                 registry::kSessionsFileBytesMax));
    auto left = registry::parse_sessions(text, path, business);
    if (!left) {
        left.error().text +=
            "; nothing was changed: move the file aside once no session of it runs any more";
    }
    return left;
}

Result<UniqueFd> listen_on(const DataRoot& root, const std::string& name) {
    const std::string path = registry::join(registry::bus_host_dir(root.path), name);
    if (::unlinkat(root.bus_host.get(), name.c_str(), 0) != 0 && errno != ENOENT) {
        return fail_sys(errno, path);
    }
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.valid()) {
        return fail_sys(errno, "socket");
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(static_cast<char*>(address.sun_path), path.data(), path.size());
    const mode_t before = ::umask(0177);
    const int bound =
        ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    const int sys = errno;
    ::umask(before);
    if (bound != 0) {
        return fail_sys(sys, path);
    }
    constexpr int kBacklog = 1024;
    if (::listen(socket.get(), kBacklog) != 0) {
        return fail_sys(errno, path);
    }
    return socket;
}

}  // namespace mosaic::host
