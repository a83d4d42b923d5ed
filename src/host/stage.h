#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "harness/module.h"
#include "host/data_root.h"

namespace mosaic::host {

// Lays the tree that sessions of one module have at /run/mosaic: mosaic-runner and the module's
// files, read-only, under bus-host/stage/<sha256 of it all>. Written under a temporary name and
// renamed, so a tree that exists is whole; one that is there already is used again. Blocking:
// before the loop runs and when modules change. Returns the tree's path.
[[nodiscard]] Result<std::string> stage_tree(const DataRoot& root,
                                             const std::string& runner_program,
                                             const std::vector<harness::StagedFile>& module_files);

}  // namespace mosaic::host
