#include "cli/admin_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <variant>

#include "cli/output.h"
#include "wire/limits.h"

namespace mosaic::cli {
namespace {

tl::unexpected<Error> no_answer(const std::string& path, std::string_view why) {
    return fail(Code::unavailable, path + " doesn't answer: " + std::string(why));
}

// Milliseconds for poll(2), rounded up so that it doesn't return before the deadline; -1 for ever.
int poll_timeout(std::optional<Instant> deadline) {
    if (!deadline) {
        return -1;
    }
    const int64_t left = (*deadline - monotonic_now()).ns;
    return static_cast<int>(std::clamp<int64_t>((left + 999'999) / 1'000'000, 0, INT_MAX));
}

std::optional<Instant> deadline_after(std::optional<Duration> within) {
    if (!within) {
        return std::nullopt;
    }
    return monotonic_now() + *within;
}

}  // namespace

Result<UniqueFd> connect_to(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() > limits::kSocketPathBytesMax) {
        return no_answer(path, "a socket's path may have 107 bytes");
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd.valid()) {
        return fail_sys(errno, "socket");
    }
    int result = 0;
    do {
        // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the socket API's own cast
        result = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
        return no_answer(path, errno_text(errno) + "; no host runs there");
    }
    return fd;
}

AdminClient::AdminClient(std::string path, UniqueFd fd)
    : path_(std::move(path)), fd_(std::move(fd)), lines_(limits::kFrameBytesMax) {}

Result<AdminClient> AdminClient::connect(const std::string& path) {
    MOSAIC_TRY_ASSIGN(UniqueFd fd, connect_to(path));
    return AdminClient(path, std::move(fd));
}

Result<void> AdminClient::wait_ready(short events, std::optional<Instant> deadline) {
    while (true) {
        pollfd wait{fd_.get(), events, 0};
        const int ready = ::poll(&wait, 1, poll_timeout(deadline));
        if (ready > 0) {
            return {};
        }
        if (ready < 0 && errno != EINTR) {
            return fail_sys(errno, "poll");
        }
        if (deadline && monotonic_now() >= *deadline) {
            return fail(Code::missing, path_ + ": no reply came in time");
        }
    }
}

Result<void> AdminClient::send(std::string_view bytes, std::optional<Instant> deadline) {
    while (!bytes.empty()) {
        MOSAIC_TRY(wait_ready(POLLOUT, deadline));
        const ssize_t n =
            ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (n < 0) {
            // What the other side said before it closed is worth more than that it closed.
            return errno == EPIPE || errno == ECONNRESET ? Result<void>()
                                                         : fail_sys(errno, path_ + ": send");
        }
        bytes.remove_prefix(static_cast<size_t>(n));
    }
    return {};
}

Result<std::string> AdminClient::receive_line(std::optional<Instant> deadline) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): recv fills it
    std::array<char, 65536> buffer;
    while (true) {
        if (auto line = lines_.next()) {
            return std::move(*line);
        }
        if (lines_.overlong()) {
            return fail(Code::too_large, path_ + ": a reply is longer than 1 MiB");
        }
        MOSAIC_TRY(deadline ? wait_ready(POLLIN, deadline) : wait_for_input(fd_.get()));
        const ssize_t n = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (n <= 0) {
            return no_answer(path_, "it closed the connection");
        }
        lines_.append({buffer.data(), static_cast<size_t>(n)});
    }
}

Result<wire::Reply> AdminClient::call(std::string_view verb,
                                      json::Value args,
                                      std::optional<Duration> within) {
    const std::optional<Instant> deadline = deadline_after(within);
    const int64_t id = ++last_id_;
    MOSAIC_TRY(
        send(wire::encode(wire::Request{id, std::string(verb), "", std::move(args)}), deadline));
    while (true) {
        MOSAIC_TRY_ASSIGN(const std::string line, receive_line(deadline));
        MOSAIC_TRY_ASSIGN(auto frame, wire::decode_frame(line));
        auto* reply = std::get_if<wire::Reply>(&frame);
        if (reply == nullptr) {
            return fail(Code::invalid, path_ + ": sent a request where a reply was due");
        }
        // Id 0 answers a connection as a whole: not-human, say.
        if (reply->id == id || (reply->id == 0 && !reply->ok)) {
            return std::move(*reply);
        }
    }
}

}  // namespace mosaic::cli
