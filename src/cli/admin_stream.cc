#include "cli/admin_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>
#include <variant>

#include "cli/admin_client.h"
#include "wire/limits.h"

namespace mosaic::cli {

AdminStream::AdminStream(std::string path, UniqueFd fd)
    : path_(std::move(path)), fd_(std::move(fd)), lines_(limits::kFrameBytesMax) {}

Result<AdminStream> AdminStream::connect(const std::string& path) {
    MOSAIC_TRY_ASSIGN(UniqueFd fd, connect_to(path));
    return AdminStream(path, std::move(fd));
}

short AdminStream::wanted() const {
    return static_cast<short>(POLLIN | (unsent_.empty() ? 0 : POLLOUT));
}

int64_t AdminStream::ask(std::string_view verb, json::Value args) {
    const int64_t id = ++last_id_;
    unsent_ += wire::encode(wire::Request{id, std::string(verb), "", std::move(args)});
    return id;
}

Result<void> AdminStream::send_some() {
    while (!unsent_.empty()) {
        const ssize_t n =
            ::send(fd_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            // What the other side said before it closed is read first.
            const bool later = errno == EAGAIN || errno == EPIPE || errno == ECONNRESET;
            return later ? Result<void>() : fail_sys(errno, path_ + ": send");
        }
        unsent_.erase(0, static_cast<size_t>(n));
    }
    return {};
}

Result<void> AdminStream::receive_some() {
    // Not for ever: whoever waits for keys and signals too gets its turn.
    constexpr int kReadsAtOnce = 16;
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): recv fills it
    std::array<char, 65536> buffer;
    for (int i = 0; i < kReadsAtOnce; ++i) {
        const ssize_t n = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return {};
        }
        if (n <= 0) {
            return fail(Code::unavailable, path_ + " doesn't answer: it closed the connection");
        }
        lines_.append({buffer.data(), static_cast<size_t>(n)});
    }
    return {};
}

Result<std::vector<wire::Reply>> AdminStream::work() {
    MOSAIC_TRY(send_some());
    const Result<void> received = receive_some();
    std::vector<wire::Reply> out;
    while (auto line = lines_.next()) {
        MOSAIC_TRY_ASSIGN(auto frame, wire::decode_frame(*line));
        auto* reply = std::get_if<wire::Reply>(&frame);
        if (reply == nullptr) {
            return fail(Code::invalid, path_ + ": sent a request where a reply was due");
        }
        out.push_back(std::move(*reply));
    }
    if (lines_.overlong()) {
        return fail(Code::too_large, path_ + ": a reply is longer than 1 MiB");
    }
    // What came before the end counts; the next call tells of the end again.
    if (!received && out.empty()) {
        return tl::unexpected<Error>(received.error());
    }
    return out;
}

}  // namespace mosaic::cli
