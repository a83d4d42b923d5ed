#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/options.h"
#include "config/config.h"

// Which business a command is about: its data root.

namespace mosaic::cli {

struct Place {
    std::string data_root;  // absolute
    std::string business;   // its id, empty when only --data was given
};

// An error with the exit code that it means.
struct Failure {
    int exit_code = 1;
    std::string text;
};

// What a business is looked for in.
struct Known {
    std::string data_root_parent;         // dataRoot
    std::vector<std::string> there_are;   // the names of the directories below it
    std::vector<std::string> configured;  // configured_ids
};

// The ids of businesses/*.json in the system file's directory, sorted. What they hold isn't looked
// at, and no host may have served them yet.
[[nodiscard]] std::vector<std::string> configured_ids(const std::string& config_directory);

// The rule by itself, pure: --data, else <dataRoot>/<--business>, else the only one there is, else
// the only one configured when there is none yet, else a usage error that names those there are.
[[nodiscard]] tl::expected<Place, Failure> choose_place(const std::string& data,
                                                        const std::string& business,
                                                        Known known);

// The same with what this machine has: reads the system file when it is needed (not with --data),
// and the business file when --business is a path.
[[nodiscard]] tl::expected<Place, Failure> find_place(const Options& options,
                                                      const config::Environment& env);

// As root: becomes the owner of bus-host/lock (or of the nearest directory above it that exists, up
// to the data root), groups included, for good. A command's reads and writes then are what that
// user may do, and the broker takes it for the human. As an ordinary user nothing happens.
[[nodiscard]] Result<void> become_owner(const std::string& data_root);

}  // namespace mosaic::cli
