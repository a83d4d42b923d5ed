#include "runner/environment.h"

#include <functional>
#include <map>

#include "runner/turn_text.h"

namespace mosaic::runner {

std::vector<std::string> turn_environment(const char* const* inherited, const TurnVariables& turn) {
    std::map<std::string, std::string, std::less<>> all;
    for (; *inherited != nullptr; ++inherited) {
        const std::string_view entry = *inherited;
        const size_t equals = entry.find('=');
        if (equals != std::string_view::npos && equals > 0) {
            all.insert_or_assign(std::string(entry.substr(0, equals)),
                                 std::string(entry.substr(equals + 1)));
        }
    }
    const wire::SessionFile& session = turn.session;
    for (const auto& [name, value] : session.harness_env) {
        all.insert_or_assign(name, value);
    }
    const std::string run_directory(turn.run_directory);
    all.insert_or_assign("MOSAIC_REQUEST", request_for_environment(turn.request));
    all.insert_or_assign("MOSAIC_REQUEST_FILE", std::string(turn.request_file));
    all.insert_or_assign("MOSAIC_WORKSPACE", session.workspace);
    all.insert_or_assign("MOSAIC_RUN_DIR", run_directory);
    all.insert_or_assign("MOSAIC_BUNDLE", run_directory + "/bundle");
    all.insert_or_assign("MOSAIC_SESSION_DIR", session.session_dir);
    all.insert_or_assign("MOSAIC_TURN_MARKER", session.turn_marker);
    all.insert_or_assign("MOSAIC_THINKING", session.thinking);
    all.insert_or_assign("MOSAIC_MODEL", session.model);
    all.insert_or_assign("MOSAIC_PROVIDER", session.provider);
    all.insert_or_assign("MOSAIC_MESSAGE_FROM", turn.message.from);
    all.insert_or_assign("MOSAIC_MESSAGE_ID", turn.message.id);
    all.insert_or_assign("MOSAIC_MESSAGE_CLASS",
                         std::string(to_string(turn.message.message_class)));
    std::vector<std::string> out;
    out.reserve(all.size());
    for (const auto& [name, value] : all) {
        out.push_back(name + "=" + value);
    }
    return out;
}

}  // namespace mosaic::runner
