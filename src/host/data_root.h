#pragma once

#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "registry/sessions.h"

namespace mosaic::host {

// The data root of one business, opened: every directory checked to be ours and 0700, the lock
// held, the sockets bound. All descriptors are CLOEXEC and stay open for life.
struct DataRoot {
    std::string path;  // resolved, without a link on its way
    UniqueFd root;
    UniqueFd bus_host;
    UniqueFd launches;
    UniqueFd runs;   // launches/<business>
    UniqueFd stage;  // bus-host/stage
    // An fcntl lock, which no child can keep alive, and a flock, which a session's bwrap keeps
    // until its exec: who has both knows that no process of an earlier host will yet become a
    // session's.
    UniqueFd lock;
};

// Makes what is missing. Refuses (with the remedy) a root under /tmp, directories that aren't ours
// or not private, socket paths past 107 bytes, and a root that another host serves, naming its pid;
// nothing is made then. Waits, and says so, while a process that an earlier host was starting is on
// its way to its program. `business` is an id.
[[nodiscard]] Result<DataRoot> open_data_root(const std::string& path, const std::string& business);

// Whether launches/<business> is still the directory that was opened, by a walk from the root
// without following links, each step ours and private. Code::unsafe says what isn't.
[[nodiscard]] Result<void> check_runs_directory(const DataRoot& root, const std::string& business);

// What sessions.json says, made empty where there is none. An earlier host may have died between
// its rename and the directory's fsync: what is read is on the disk first, so that no power loss
// brings back entries that this host has never seen. A file that can't be taken for one is left as
// it is.
[[nodiscard]] Result<registry::SessionsFile> read_left_sessions(const DataRoot& root,
                                                                const std::string& business);

// A listening socket `name` in bus-host, mode 0600. A file that an earlier host left there goes
// first: who holds the lock owns the names.
[[nodiscard]] Result<UniqueFd> listen_on(const DataRoot& root, const std::string& name);

}  // namespace mosaic::host
