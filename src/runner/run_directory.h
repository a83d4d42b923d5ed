#pragma once

#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "wire/session_file.h"

namespace mosaic::runner {

// The run's directories, opened before the first turn and used by descriptor from then on: what a
// session renames or rebuilds at their paths is never looked at.
struct RunDirectory {
    std::string path;  // absolute
    UniqueFd bundle;
    UniqueFd turns;  // rw/turns
    UniqueFd io;     // rw/io
};

struct Loaded {
    RunDirectory directory;
    wire::SessionFile session;
};

// Opens the directories and reads session.json and bundle/policy.json, each once. The error names
// the file and what is wrong.
[[nodiscard]] Result<Loaded> load_run(const std::string& path);

// The names of our environment's variables that no session may have, with ", " between them; empty:
// none.
[[nodiscard]] std::string forbidden_variables(const char* const* environment);

}  // namespace mosaic::runner
