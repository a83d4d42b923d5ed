#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "registry/sessions.h"
#include "wire/json.h"

// The sessions as `mosaic ps` shows them, from sessions.json and /proc alone: no host is asked, so
// it is the same with a host and without.

namespace mosaic::cli {

struct SessionView {
    registry::SessionEntry entry;
    bool live = false;  // in this boot, runnerPid runs with runnerStartTime

    // "running"; "warm" for one that waits for its launch; "stale" when its runner is gone,
    // whatever it was: the host is about to record its end, or the next one will.
    [[nodiscard]] const char* state() const;

    // The entry's keys, then "live" and "state".
    [[nodiscard]] json::Value to_value() const;
};

// Reads <data_root>/bus-host/sessions.json. Code::missing when there is no data root; a data root
// without the file has no sessions.
[[nodiscard]] Result<registry::SessionsFile> read_sessions(const std::string& data_root);

[[nodiscard]] std::vector<SessionView> view_sessions(const registry::SessionsFile& file,
                                                     const std::string& boot_id);

// The aligned columns, header included.
[[nodiscard]] std::string table_of(const std::vector<SessionView>& sessions);

}  // namespace mosaic::cli
