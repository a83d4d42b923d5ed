#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "cli/would_be_run.h"
#include "harness/module.h"

// The directories of a shell in a sandbox: below <data root>/shells, one for each shell that runs,
// named by the process that made it, so that what a killed one left can be told from what is in
// use. Not among the runs: a host that starts must not take it for a run of its own.

namespace mosaic::cli {

class ScratchRun {
  public:
    // `data_root` is a real path of a directory that is ours and private. Removes what shells that
    // run no longer have left there.
    [[nodiscard]] static Result<ScratchRun> make(const std::string& data_root);

    ScratchRun(ScratchRun&&) = default;
    ScratchRun& operator=(ScratchRun&&) = default;
    ScratchRun(const ScratchRun&) = delete;
    ScratchRun& operator=(const ScratchRun&) = delete;
    // Removes the directory.
    ~ScratchRun();

    [[nodiscard]] const std::string& run() const { return run_; }

    [[nodiscard]] std::string run_dir() const { return path_ + "/" + run_; }

    [[nodiscard]] std::string stage_dir() const { return path_ + "/stage"; }

    // Lays the run directory with the files of the run, and the staged tree.
    [[nodiscard]] Result<void> lay(const std::vector<BundleFile>& files,
                                   const std::vector<harness::StagedFile>& staged);

  private:
    ScratchRun() = default;

    UniqueFd shells_;
    UniqueFd directory_;
    std::string name_;
    std::string path_;
    std::string run_;
};

}  // namespace mosaic::cli
