#include "cli/sessions_view.h"

#include <sys/stat.h>

#include "cli/output.h"
#include "process/files.h"
#include "process/proc.h"
#include "registry/layout.h"

namespace mosaic::cli {

const char* SessionView::state() const {
    if (!live) {
        return "stale";
    }
    return entry.warm ? "warm" : "running";
}

json::Value SessionView::to_value() const {
    json::Value out = entry.to_value();
    out.set("live", live);
    out.set("state", state());
    return out;
}

Result<registry::SessionsFile> read_sessions(const std::string& data_root) {
    MOSAIC_TRY(process::open_directory(data_root));
    const std::string path = registry::sessions_path(data_root);

    struct stat there {};

    if (::lstat(path.c_str(), &there) != 0 && errno == ENOENT) {
        return registry::SessionsFile{};
    }
    MOSAIC_TRY_ASSIGN(const std::string text,
                      process::read_file(path, registry::kSessionsFileBytesMax));
    return registry::parse_sessions(text, path, "");
}

std::vector<SessionView> view_sessions(const registry::SessionsFile& file,
                                       const std::string& boot_id) {
    std::vector<SessionView> out;
    for (const registry::SessionEntry& entry : file.entries) {
        const bool live = file.boot_id == boot_id &&
                          process::is_alive(static_cast<pid_t>(entry.process.runner_pid),
                                            entry.process.runner_start_time);
        out.push_back({entry, live});
    }
    return out;
}

std::string table_of(const std::vector<SessionView>& sessions) {
    Table table({"INSTANCE", "RUN", "STATE", "HARNESS", "PROVIDER", "MODEL", "BY", "SINCE", "PID"});
    for (const SessionView& session : sessions) {
        const registry::SessionEntry& e = session.entry;
        table.add({describe(e.seat),
                   e.run,
                   session.state(),
                   e.harness,
                   e.provider,
                   e.model,
                   e.warm ? "-" : e.launched_by,
                   e.warm ? "-" : e.at,
                   std::to_string(e.process.runner_pid)});
    }
    return table.text();
}

}  // namespace mosaic::cli
