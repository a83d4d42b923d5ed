#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"

// A pidfd (pidfd_open(2)) names one process for as long as it is open: a signal through it can't
// reach a stranger who got the number later.

namespace mosaic::process {

// Code::missing when there is no such process.
[[nodiscard]] Result<UniqueFd> open_pidfd(pid_t pid);

// pidfd_send_signal(2). A process that is already gone counts as success (TRAP-04).
[[nodiscard]] Result<void> signal_pidfd(int pidfd, int signal);

// How a child ended. Exactly one of the two says something: signal == 0 means exit_code counts.
struct Exit {
    int exit_code = 0;
    int signal = 0;
};

// waitid(P_PIDFD, WEXITED | WNOHANG) for our own child whose pidfd is readable.
[[nodiscard]] Result<Exit> reap(int pidfd);

// The same, waiting for its exit first. For callers without a loop.
[[nodiscard]] Result<Exit> wait_and_reap(int pidfd);

// Whether the pidfd polls readable now: the process has exited. Doesn't block.
[[nodiscard]] bool has_exited(int pidfd);

// "SIGKILL" for 9; "SIG<n>" for numbers without a name.
[[nodiscard]] std::string signal_name(int signal);

// Whether n is a signal that can end a process here (1 to SIGRTMAX).
[[nodiscard]] bool is_signal(int n);

}  // namespace mosaic::process
