#include "process/pidfd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// By number: glibc 2.36's <sys/pidfd.h> doesn't declare its functions for C++.

namespace mosaic::process {

Result<UniqueFd> open_pidfd(pid_t pid) {
    if (pid <= 0) {
        return fail(Code::invalid, "process " + std::to_string(pid) + ": not a process number");
    }
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // close-on-exec by itself
    if (!pidfd.valid()) {
        const int error = errno;
        // EINVAL: the number belongs to a thread that leads no process.
        if (error == ESRCH || error == EINVAL) {
            return fail(Code::missing, "process " + std::to_string(pid) + " does not exist");
        }
        return fail_sys(error, "pidfd_open " + std::to_string(pid));
    }
    return pidfd;
}

Result<void> signal_pidfd(int pidfd, int signal) {
    if (::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) != 0 && errno != ESRCH) {
        return fail_sys(errno, "pidfd_send_signal " + signal_name(signal));
    }
    return {};
}

Result<Exit> reap(int pidfd) {
    siginfo_t info{};
    int result = 0;
    do {
        result = ::waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED | WNOHANG);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
        return fail_sys(errno, "waitid");
    }
    if (info.si_pid == 0) {
        return fail(Code::unavailable, "the child has not exited yet");
    }
    if (info.si_code == CLD_EXITED) {
        return Exit{info.si_status, 0};
    }
    return Exit{0, info.si_status};
}

Result<Exit> wait_and_reap(int pidfd) {
    pollfd exited{.fd = pidfd, .events = POLLIN, .revents = 0};
    while (::poll(&exited, 1, -1) < 0) {
        if (errno != EINTR) {
            return fail_sys(errno, "poll");
        }
    }
    return reap(pidfd);
}

bool has_exited(int pidfd) {
    pollfd wait{pidfd, POLLIN, 0};
    int ready = 0;
    do {
        ready = ::poll(&wait, 1, 0);
    } while (ready < 0 && errno == EINTR);
    return ready > 0 && (wait.revents & POLLIN) != 0;
}

std::string signal_name(int signal) {
    const char* name = ::sigabbrev_np(signal);
    return name != nullptr ? std::string("SIG") + name : "SIG" + std::to_string(signal);
}

bool is_signal(int n) {
    return n >= 1 && n <= SIGRTMAX;
}

}  // namespace mosaic::process
