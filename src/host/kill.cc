#include "host/kill.h"

#include <csignal>

#include "process/pidfd.h"

namespace mosaic::host {

void kill_session(const SessionProcesses& session) {
    if (session.runner_pidfd >= 0) {
        ignore(process::signal_pidfd(session.runner_pidfd, SIGKILL), "gone is what is wanted");
    }
    if (session.outer_pidfd >= 0) {
        ignore(process::signal_pidfd(session.outer_pidfd, SIGKILL), "gone is what is wanted");
    }
    if (session.group > 0) {
        ::kill(-session.group, SIGKILL);
    }
}

}  // namespace mosaic::host
