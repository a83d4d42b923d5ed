#include "runner/outbox.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>

#include "base/assert.h"

namespace mosaic::runner {
namespace {

constexpr std::string_view kBefore = "{\"cap\":\"";
constexpr std::string_view kAfter = "\",";

// The pieces after their first `skip` bytes.
size_t gather(std::array<std::string_view, 4> pieces, size_t skip, std::array<iovec, 4>& out) {
    size_t used = 0;
    for (std::string_view piece : pieces) {
        const size_t drop = std::min(skip, piece.size());
        skip -= drop;
        piece.remove_prefix(drop);
        if (!piece.empty()) {
            out[used] = iovec{const_cast<char*>(piece.data()), piece.size()};
            ++used;
        }
    }
    return used;
}

}  // namespace

void Outbox::push(std::string_view line) {
    MOSAIC_ASSERT(line.size() > 3 && line.front() == '{' && line.back() == '\n');
    lines_.emplace_back(line.substr(1));
}

void Outbox::clear() {
    lines_.clear();
    sent_ = 0;
}

Result<void> Outbox::flush(int fd, std::string_view capability) {
    while (!lines_.empty()) {
        const std::string& rest = lines_.front();
        const size_t whole = kBefore.size() + capability.size() + kAfter.size() + rest.size();
        std::array<iovec, 4> pieces{};
        msghdr message{};
        message.msg_iov = pieces.data();
        message.msg_iovlen = gather({kBefore, capability, kAfter, rest}, sent_, pieces);
        const ssize_t n = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (errno == EAGAIN) {
                return {};
            }
            if (errno == EINTR) {
                continue;
            }
            return fail_sys(errno, "send");
        }
        sent_ += static_cast<size_t>(n);
        if (sent_ == whole) {
            lines_.pop_front();
            sent_ = 0;
        }
    }
    return {};
}

}  // namespace mosaic::runner
