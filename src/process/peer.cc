#include "process/peer.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "process/pidfd.h"
#include "process/proc.h"

// Linux 6.5, include/uapi/asm-generic/socket.h; newer than the 6.1 headers that this builds with.
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace mosaic::process {
namespace {

// More than any real chain of parents; a bound, so that a /proc that changes can't hold us.
constexpr int kAncestorsMax = 4096;
constexpr int kWalksMax = 3;

tl::unexpected<Error> peer_gone() {
    return fail(Code::unavailable, "the peer has exited");
}

// The pidfd that the kernel keeps for the socket; where it can't give one, a pidfd by number, which
// is only as good as the number.
Result<UniqueFd> pin(int socket, pid_t pid) {
    int pidfd = -1;
    socklen_t length = sizeof(pidfd);
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) == 0) {
        return UniqueFd(pidfd);
    }
    const int error = errno;
    if (error == ENOPROTOOPT) {
        return open_pidfd(pid);
    }
    // ESRCH, or ENODATA for a peer that was never recorded.
    return fail_sys(error, "SO_PEERPIDFD");
}

enum class Walk {
    clean,  // reached the top without meeting a session
    in_session,
    broken,  // a parent went away on the way
};

Walk walk_ancestors(pid_t start, const std::vector<pid_t>& session_pids) {
    pid_t pid = start;
    for (int i = 0; i < kAncestorsMax; ++i) {
        if (std::find(session_pids.begin(), session_pids.end(), pid) != session_pids.end()) {
            return Walk::in_session;
        }
        if (pid == 1) {
            return Walk::clean;
        }
        const auto stat = read_stat(pid);
        if (!stat) {
            return Walk::broken;
        }
        // A parent outside our PID namespace reads 0: the top of what can be seen.
        if (stat->parent == 0) {
            return Walk::clean;
        }
        pid = stat->parent;
    }
    return Walk::broken;
}

}  // namespace

Result<Peer> peer_of(int socket) {
    ucred credentials{};
    socklen_t length = sizeof(credentials);
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
        return fail_sys(errno, "SO_PEERCRED");
    }
    if (credentials.pid <= 0) {
        return fail(Code::unavailable, "the peer lies in another PID namespace");
    }
    const auto pidfd = pin(socket, credentials.pid);
    if (!pidfd) {
        return fail(Code::unavailable, "the peer can't be pinned: " + pidfd.error().text);
    }
    const auto stat = read_stat(credentials.pid);
    // Alive after the reading: what was read was this process and not one that got its number.
    if (!stat || has_exited(pidfd->get())) {
        return peer_gone();
    }
    return Peer{credentials.pid, credentials.uid, stat->start_time};
}

Result<void> check_human(const Peer& peer, const std::vector<pid_t>& session_pids) {
    if (peer.uid != ::geteuid()) {
        return fail(Code::unsafe,
                    "the peer is user " + std::to_string(peer.uid) + ", not " +
                        std::to_string(::geteuid()));
    }
    const ino_t ours = read_pid_namespace(::getpid());
    const ino_t theirs = read_pid_namespace(peer.pid);
    if (ours == 0 || theirs == 0) {
        return fail(Code::unavailable, "the peer's PID namespace can't be read");
    }
    if (ours != theirs) {
        return fail(Code::unsafe, "the peer lies in another PID namespace");
    }
    Walk walk = Walk::broken;
    for (int i = 0; i < kWalksMax && walk == Walk::broken; ++i) {
        walk = walk_ancestors(peer.pid, session_pids);
    }
    if (walk == Walk::in_session) {
        return fail(Code::unsafe, "the peer descends from a session");
    }
    if (walk == Walk::broken) {
        return fail(Code::unavailable, "the peer's ancestors can't be read");
    }
    // Last: all of the above spoke of this process and not of one that got its number.
    if (!is_alive(peer.pid, peer.start_time)) {
        return peer_gone();
    }
    return {};
}

}  // namespace mosaic::process
