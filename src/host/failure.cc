#include "host/failure.h"

#include <cerrno>

namespace mosaic::host {

Refusal refusal_of(const Error& error) {
    const bool disk = error.sys == ENOSPC || error.sys == EDQUOT || error.sys == EIO ||
                      error.sys == EROFS || error.sys == EACCES;
    return disk ? Refusal::storage_unavailable : Refusal::launch_failed;
}

std::string failure_text(const RunSlot& s, int64_t setup_wait_ms) {
    const Refusal code = s.state.refusal;
    if (code == Refusal::launch_failed || code == Refusal::storage_unavailable) {
        return std::string(to_string(s.state.failed_in)) + ": " + s.failure;
    }
    if (code == Refusal::busy) {
        return "too many launches are being set up, and this one waited " +
               std::to_string(setup_wait_ms) + " ms";
    }
    if (code == Refusal::host_stopping) {
        return "the host is stopping";
    }
    if (code == Refusal::broker_unavailable) {
        return "the broker isn't running at the moment";
    }
    if (code == Refusal::launch_revoked) {
        return "launches are revoked";
    }
    if (code == Refusal::decision_required) {
        return "it needs a decision: " + s.decision;
    }
    if (code == Refusal::not_authorized) {
        return s.caller.name + " has no authority for role.launch";
    }
    return s.failure;
}

}  // namespace mosaic::host
