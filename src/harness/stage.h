#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "harness/module.h"

namespace mosaic::harness {

// Writes the tree that a session has at /run/mosaic as a new directory `name` below `parent`: the
// files as they are given (a module's, and mosaic-runner), durable when it returns. What is left of
// it after an error is the caller's to remove.
[[nodiscard]] Result<void> lay_stage(int parent,
                                     const std::string& name,
                                     const std::vector<StagedFile>& files);

// The runner's program as one more file of such a tree.
[[nodiscard]] Result<StagedFile> staged_runner(const std::string& program);

}  // namespace mosaic::harness
