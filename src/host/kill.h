#pragma once

#include <sys/types.h>

namespace mosaic::host {

// The processes of one session, as far as they are known. All of it stays the caller's.
struct SessionProcesses {
    int runner_pidfd = -1;  // pid 1 inside; -1: not known yet
    int outer_pidfd = -1;   // the bwrap that we started; -1: none, or reaped
    pid_t group = 0;  // its process group, by the outer's pid; 0: none, or the outer is reaped
};

// SIGKILL to all of a session, in the one order that leaves nobody behind: the runner first, since
// an outer that dies alone in its first milliseconds leaves the runner alive; then the outer; then
// their process group, for what the outer made and nobody knows yet. What is gone already is what
// is wanted. The group may only be named as long as the outer isn't reaped: until then its number
// can't belong to a stranger.
void kill_session(const SessionProcesses& session);

}  // namespace mosaic::host
