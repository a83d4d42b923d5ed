#include "broker/watches.h"

#include <algorithm>
#include <cerrno>

namespace mosaic::broker {
namespace {

// The bits that poll(2) and epoll(7) have in common mean the same in both.
static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR &&
              EPOLLHUP == POLLHUP);

epoll_event event_of(uint64_t token, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = token;
    return event;
}

}  // namespace

Result<void> Watches::open() {
    epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_.valid()) {
        return fail_sys(errno, "epoll_create1");
    }
    return {};
}

Result<void> Watches::set(int fd, uint64_t token, uint32_t events, bool known) {
    epoll_event event = event_of(token, events);
    const auto polled = std::find_if(
        polled_.begin(), polled_.end(), [&](const Polled& other) { return other.fd == fd; });
    const int operation = known && polled == polled_.end() ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(epoll_.get(), operation, fd, &event) == 0) {
        if (polled != polled_.end()) {
            polled_.erase(polled);  // there is room again
        }
        return {};
    }
    if (operation != EPOLL_CTL_ADD || (errno != ENOSPC && errno != ENOMEM)) {
        return fail_sys(errno, "epoll_ctl");
    }
    if (polled != polled_.end()) {
        *polled = {fd, token, events};
    } else {
        polled_.push_back({fd, token, events});
    }
    return {};
}

void Watches::remove(int fd) {
    // epoll forgets by itself what is closed.
    std::erase_if(polled_, [&](const Polled& other) { return other.fd == fd; });
}

Result<size_t> Watches::wait(int timeout_ms, std::span<epoll_event> out) {
    size_t told = 0;
    if (!polled_.empty()) {
        asked_.assign(1, {epoll_.get(), POLLIN, 0});
        for (const Polled& one : polled_) {
            asked_.push_back({one.fd, static_cast<short>(one.events), 0});
        }
        const int ready = poll(asked_.data(), asked_.size(), timeout_ms);
        if (ready < 0 && errno != EINTR) {
            return fail_sys(errno, "poll");
        }
        if (ready <= 0) {
            return size_t{0};
        }
        timeout_ms = 0;
        // Half of the room, and the next time from where this one ends.
        const size_t first = first_;
        for (size_t i = 0; i < polled_.size() && told < out.size() / 2; ++i) {
            const size_t index = (first + i) % polled_.size();
            const auto found = static_cast<uint32_t>(asked_[index + 1].revents);
            if (found != 0) {
                out[told++] = event_of(polled_[index].token, found);
                first_ = index + 1;
            }
        }
    }
    const auto room = static_cast<int>(out.size() - told);
    const int count = epoll_wait(epoll_.get(), out.data() + told, room, timeout_ms);
    if (count < 0 && errno != EINTR) {
        return fail_sys(errno, "epoll_wait");
    }
    return told + static_cast<size_t>(std::max(count, 0));
}

}  // namespace mosaic::broker
