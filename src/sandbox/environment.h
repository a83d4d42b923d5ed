#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "config/config.h"

// A session's environment: built name by name, never inherited. Pure. Values of it are credentials;
// they appear in no error, warning or argument.

namespace mosaic::sandbox {

struct EnvironmentSpec {
    const config::Environment* host = nullptr;  // must outlive the call
    std::string run;
    std::string run_dir;
    std::vector<std::string> path_dirs;  // the module's directories, as seen inside
    std::vector<std::string> provider;   // the module's credential and provider variables: names
    std::vector<std::string> pass_env;   // sandbox.passEnv: names
};

// A CA file or directory that a passed variable names: it must be mounted (layout.h, mounts_for).
struct CaPath {
    std::string variable;
    std::string path;

    bool operator==(const CaPath&) const = default;
};

struct SessionEnvironment {
    std::vector<std::string> variables;  // "NAME=value", sorted by name, no name twice
    std::vector<CaPath> ca_paths;
    std::vector<std::string> warnings;  // names, never values
};

// HOME, TMPDIR, PATH and MOSAIC_RUN_ID are ours; USER LOGNAME LANG LC_ALL TZ TERM and the names of
// `provider` and `pass_env` have the host's values, where it has any (blank counts as none).
// Code::unsafe: a name of the forbidden table (wire/environment_rules.h) in `provider` or
// `pass_env`, or a value of the host with a control character. Code::invalid: a name that is none.
[[nodiscard]] Result<SessionEnvironment> session_environment(const EnvironmentSpec& spec);

// PATH by itself: /run/mosaic, the module's directories, then the host's. Relative and empty parts
// of the host's mean "where the program stands", which inside would be the workspace: they are
// dropped.
[[nodiscard]] std::string session_path(const EnvironmentSpec& spec);

}  // namespace mosaic::sandbox
