#include "runner/socket_path.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "wire/limits.h"

namespace mosaic::runner {
namespace {

std::string own_descriptor(int fd) {
    return "/proc/self/fd/" + std::to_string(fd);
}

sockaddr_un address_of(const std::string& path) {
    MOSAIC_ASSERT(path.size() <= limits::kSocketPathBytesMax);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), std::begin(address.sun_path));
    return address;
}

UniqueFd stream_socket(int flags) {
    return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
}

Result<UniqueFd> connect_with(const std::string& path, int flags) {
    if (path.size() > limits::kSocketPathBytesMax) {
        return fail(Code::too_large, path + ": too long for a socket's address");
    }
    UniqueFd fd = stream_socket(flags);
    if (!fd.valid()) {
        return fail_sys(errno, "socket");
    }
    const sockaddr_un address = address_of(path);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        return fail_sys(errno, path);
    }
    return fd;
}

}  // namespace

Result<void> SocketPath::take() {
    if (handle_.valid()) {
        return {};
    }
    UniqueFd handle(::open(path_.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!handle.valid()) {
        return fail_sys(errno, path_);
    }
    handle_ = std::move(handle);
    return {};
}

Result<UniqueFd> SocketPath::connect() const {
    if (!handle_.valid()) {
        return fail(Code::unavailable, path_ + ": not there when the session began");
    }
    auto connected = connect_to(own_descriptor(handle_.get()));
    if (!connected) {
        const int sys = connected.error().sys;
        return tl::unexpected<Error>({Code::unavailable, sys, path_ + ": " + errno_text(sys)});
    }
    return connected;
}

Result<UniqueFd> connect_to(const std::string& path) {
    return connect_with(path, SOCK_NONBLOCK);
}

Result<UniqueFd> connect_blocking(const std::string& path) {
    return connect_with(path, 0);
}

Result<UniqueFd> listen_in(int directory, const std::string& name, int backlog) {
    UniqueFd fd = stream_socket(SOCK_NONBLOCK);
    if (!fd.valid()) {
        return fail_sys(errno, "socket");
    }
    ::unlinkat(directory, name.c_str(), 0);
    const sockaddr_un address = address_of(own_descriptor(directory) + "/" + name);
    const mode_t old_mask = ::umask(0177);
    const int bound =
        ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    const int why = errno;
    ::umask(old_mask);
    if (bound != 0) {
        return fail_sys(why, name);
    }
    if (::listen(fd.get(), backlog) != 0) {
        return fail_sys(errno, name);
    }
    return fd;
}

}  // namespace mosaic::runner
