#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wire/messages.h"
#include "wire/session_file.h"

namespace mosaic::runner {

// What a turn's variables are made from; all must outlive the call only.
struct TurnVariables {
    const wire::SessionFile& session;
    const wire::Message& message;
    std::string_view run_directory;
    std::string_view request;       // the whole request text
    std::string_view request_file;  // its absolute path
};

// "NAME=value" of a turn: the runner's own environment (`inherited`, as environ), then the module's
// variables, then the runner's MOSAIC_ ones; a later one replaces an earlier of the same name.
// Pure.
[[nodiscard]] std::vector<std::string> turn_environment(const char* const* inherited,
                                                        const TurnVariables& turn);

}  // namespace mosaic::runner
