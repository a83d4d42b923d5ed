#include "host/notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/unique_fd.h"
#include "host/log.h"

namespace mosaic::host {

void notify_service_manager(std::string_view state) {
    const char* path = std::getenv("NOTIFY_SOCKET");
    if (path == nullptr || (path[0] != '/' && path[0] != '@')) {
        return;
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const size_t length = std::strlen(path);
    if (length >= sizeof(address.sun_path)) {
        log_line("NOTIFY_SOCKET is too long");
        return;
    }
    std::memcpy(static_cast<char*>(address.sun_path), path, length);
    if (address.sun_path[0] == '@') {
        address.sun_path[0] = '\0';
    }
    const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
    const ssize_t sent = ::sendto(socket.get(),
                                  state.data(),
                                  state.size(),
                                  MSG_NOSIGNAL | MSG_DONTWAIT,
                                  reinterpret_cast<const sockaddr*>(&address),
                                  size);
    if (sent < 0) {
        log_line("the service manager can't be told: NOTIFY_SOCKET doesn't answer");
    }
}

}  // namespace mosaic::host
