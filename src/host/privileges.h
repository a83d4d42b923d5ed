#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace mosaic::host {

// The host never runs sessions as root. As an ordinary user this does nothing (and refuses `user`
// when it names somebody else). As root it takes the user's ids and groups, HOME, USER and LOGNAME,
// drops the XDG paths, and executes this program again in / with the same arguments, in which the
// paths that were meant from the working directory, and $MOSAIC_CONFIG, are absolute: it returns
// only when that failed. Without a user it refuses with the remedy. `argv` has been parsed.
[[nodiscard]] Result<void> leave_root(const std::string& user, char** argv);

// The host's arguments, the program's name first, with the paths among them absolute: --config,
// --data, and --business where that is a file's path. Asks for the working directory when one is
// relative.
[[nodiscard]] Result<std::vector<std::string>> absolute_arguments(std::vector<std::string> words);

}  // namespace mosaic::host
