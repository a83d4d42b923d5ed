#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "harness/module.h"
#include "host/data_root.h"

namespace mosaic::host {

// The tree that sessions of one module have at /run/mosaic: mosaic-runner and the module's files,
// read-only, under bus-host/stage/<sha256 of it all>.
struct StagedTree {
    std::string digest;
    std::vector<harness::StagedFile> files;

    bool operator==(const StagedTree&) const = default;
};

// Reads the runner and takes the sum. `module_files` may be empty.
[[nodiscard]] Result<StagedTree> plan_tree(const std::string& runner_program,
                                           const std::vector<harness::StagedFile>& module_files);

// Whether the directory `stage` has it.
[[nodiscard]] bool is_laid(int stage, const StagedTree& tree);

// Writes it under a temporary name and renames it, so that a tree that exists is whole. Blocking,
// an fsync for each file: a running host leaves it to a child.
[[nodiscard]] Result<void> lay_tree(int stage, const StagedTree& tree);

// Plans it and lays it unless it is there. Returns its path. Blocking, like lay_tree.
[[nodiscard]] Result<std::string> stage_tree(const DataRoot& root,
                                             const std::string& runner_program,
                                             const std::vector<harness::StagedFile>& module_files);

// Trees on their way to the child that lays them, which is this program at the same moment: lengths
// are in the machine's own order.
[[nodiscard]] std::string encode_trees(const std::vector<StagedTree>& trees);
[[nodiscard]] Result<std::vector<StagedTree>> decode_trees(std::string_view bytes);

}  // namespace mosaic::host
