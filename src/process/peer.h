#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

// Who is at the other end of a Unix socket, decided before a byte is read. SO_PEERCRED gives the
// pid that connected; SO_PEERPIDFD (Linux 6.5) pins it. The uid proves nothing by itself: a session
// runs as the same user.

namespace mosaic::process {

struct Peer {
    pid_t pid = 0;
    uid_t uid = 0;
    std::string start_time;  // of that pid, read while it was pinned
};

// Code::unavailable when the peer has exited or can't be found: it must be refused then. Before
// Linux 6.5 a peer that exited before this call and whose number was given to another process at
// once reads as that process; a caller that compares the start time with its own record isn't
// misled.
[[nodiscard]] Result<Peer> peer_of(int socket);

// Whether the peer may use admin.sock: same user, same PID namespace as ours, and no ancestor
// (itself included) among `session_pids` (outer and runner pids of all live runs). The error says
// which of these failed.
[[nodiscard]] Result<void> check_human(const Peer& peer, const std::vector<pid_t>& session_pids);

}  // namespace mosaic::process
