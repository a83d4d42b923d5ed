#include "bench/waiter.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace mosaic::bench {

Result<Waiter> Waiter::make() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) {
        return fail_sys(errno, "sigprocmask");
    }
    ::signal(SIGPIPE, SIG_IGN);
    Waiter out;
    out.signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!out.signals_.valid()) {
        return fail_sys(errno, "signalfd");
    }
    return out;
}

Result<void> Waiter::wait(std::vector<pollfd>& polls, Instant deadline, const char* what) {
    polls.push_back({signals_.get(), POLLIN, 0});
    int ready = 0;
    do {
        const int64_t left_us = to_us(deadline - monotonic_now());
        const int64_t left_ms = std::max<int64_t>((left_us + 999) / 1000, 0);
        ready = ::poll(polls.data(), polls.size(), static_cast<int>(left_ms));
    } while (ready < 0 && errno == EINTR);
    const bool interrupted = polls.back().revents != 0;
    polls.pop_back();
    if (ready < 0) {
        return fail_sys(errno, "poll");
    }
    if (interrupted) {
        return fail(Code::held, "interrupted");
    }
    if (ready == 0) {
        return fail(Code::unavailable, std::string("it takes too long: ") + what);
    }
    return {};
}

void Waiter::forget_signal() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof(info)) > 0) {
    }
}

}  // namespace mosaic::bench
