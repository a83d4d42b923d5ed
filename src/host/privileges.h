#pragma once

#include <string>

#include "base/error.h"

namespace mosaic::host {

// The host never runs sessions as root. As an ordinary user this does nothing (and refuses `user`
// when it names somebody else). As root it takes the user's ids and groups, HOME, USER and LOGNAME,
// drops the XDG paths, and executes this program again with the same arguments: it returns only
// when that failed. Without a user it refuses with the remedy.
[[nodiscard]] Result<void> leave_root(const std::string& user, char** argv);

}  // namespace mosaic::host
