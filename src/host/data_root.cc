#include "host/data_root.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "process/files.h"
#include "registry/layout.h"
#include "wire/limits.h"

namespace mosaic::host {
namespace {

// mkdir -p for the operator's part of the path; what exists is left as it is.
Result<void> make_parents(const std::string& path) {
    for (size_t slash = path.find('/', 1); slash != std::string::npos;
         slash = path.find('/', slash + 1)) {
        const std::string parent = path.substr(0, slash);
        if (::mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST) {
            return fail_sys(errno, "the data root's directory " + parent);
        }
    }
    return {};
}

// Where `path` leads, whether it exists or not: the real path of what exists, then the rest.
Result<std::string> place_of(const std::string& path) {
    std::string exists = path;
    std::string rest;
    while (true) {
        auto real = process::real_path(exists.empty() ? "/" : exists);
        if (real) {
            return *real == "/" ? (rest.empty() ? "/" : rest) : *real + rest;
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
    return lock;
}

}  // namespace

Result<DataRoot> open_data_root(const std::string& path, const std::string& business) {
    MOSAIC_TRY_ASSIGN(const std::string place, place_of(path));
    MOSAIC_TRY(check_place(place));
    MOSAIC_TRY(make_parents(place + "/"));
    DataRoot root;
    root.path = place;
    const size_t slash = root.path.rfind('/');
    MOSAIC_TRY_ASSIGN(const UniqueFd parent,
                      process::open_directory(slash == 0 ? "/" : root.path.substr(0, slash)));
    MOSAIC_TRY_ASSIGN(root.root,
                      process::make_private_directory(parent.get(), root.path.substr(slash + 1)));
    const auto below = [](int directory, std::string_view name) {
        return process::make_private_directory(directory, std::string(name));
    };
    MOSAIC_TRY_ASSIGN(root.bus_host, below(root.root.get(), registry::kBusHost));
    MOSAIC_TRY_ASSIGN(root.lock, take_lock(root));
    MOSAIC_TRY_ASSIGN(root.launches, below(root.root.get(), registry::kLaunches));
    MOSAIC_TRY_ASSIGN(root.runs, below(root.launches.get(), business));
    MOSAIC_TRY_ASSIGN(root.stage, below(root.bus_host.get(), registry::kStage));
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
