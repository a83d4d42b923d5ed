#pragma once

#include "base/error.h"

namespace mosaic::runner {

// Where sandboxes inside a session are allowed (sandbox.nested), bwrap leaves the runner the
// capabilities CAP_SYS_RESOURCE and CAP_SETPCAP in the session's own user namespace, for this
// alone: it bounds how many namespaces of each kind may be made there, which the kernel otherwise
// counts against the user as a whole, and gives both up for good. Without them it does nothing. To
// be called before anything else is run or read.
[[nodiscard]] Result<void> bound_namespaces();

}  // namespace mosaic::runner
