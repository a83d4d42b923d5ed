#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/config.h"
#include "harness/module.h"
#include "sandbox/binds.h"
#include "sandbox/layout.h"
#include "sandbox/workspace.h"
#include "wire/codes.h"

// What a launch of an instance would give its session, worked out without making anything: the
// same lists that the host makes, for `sandbox show` and `doctor`.

namespace mosaic::cli {

struct Refused {
    Refusal code = Refusal::no_route;
    std::string reason;
};

struct BundleFile {
    std::string path;  // below the run directory
    std::string content;
};

struct WouldBeRun {
    std::string harness;               // the chosen route's; empty when it is refused
    std::string route;                 // "script, local, shell (primary)"; empty when it is refused
    std::vector<sandbox::Bind> binds;  // in mount order
    std::vector<std::string> namespaces;  // "user", "pid", ...
    std::vector<std::string> variables;   // names only, sorted
    std::string network;
    std::vector<std::string> warnings;
    // Checks of route, workspace and files that would refuse; what depends on them is left out
    // above.
    std::vector<Refused> refused;

    // For who starts something in it. The environment holds credentials and is never printed.
    std::vector<std::string> environment;  // "NAME=value"
    std::vector<BundleFile> files;         // below the run directory; none without a route
    sandbox::Workspace workspace;          // opened, unless it was refused
    std::vector<UniqueFd> git_fds;         // from sandbox::kGitFdFirst on
};

struct Setting {
    const config::SystemConfig& system;
    const config::Business& business;
    const config::Environment& env;
    const harness::ModuleSet& modules;
    const sandbox::Layout& layout;
    std::string data_root;  // absolute
};

// Where a run would be; stands for what only a launch decides.
struct RunPlace {
    std::string run = "RUN";
    std::string run_dir{};    // empty: where the host would make it
    std::string stage_dir{};  // empty: where the host would stage it
};

// Fails only for what isn't the instance's own fault.
[[nodiscard]] Result<WouldBeRun> would_be_run(const Setting& setting,
                                              const config::Instance& instance,
                                              const RunPlace& place = {});

}  // namespace mosaic::cli
