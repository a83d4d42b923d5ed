#include "host/stage.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "harness/stage.h"
#include "process/files.h"
#include "registry/layout.h"

namespace mosaic::host {

Result<std::string> stage_tree(const DataRoot& root,
                               const std::string& runner_program,
                               const std::vector<harness::StagedFile>& module_files) {
    std::vector<harness::StagedFile> files = module_files;
    MOSAIC_TRY_ASSIGN(harness::StagedFile runner, harness::staged_runner(runner_program));
    files.push_back(std::move(runner));
    const std::string digest = harness::stage_digest(files);
    const std::string path = registry::join(registry::stage_dir(root.path), digest);

    struct stat facts {};

    if (::fstatat(root.stage.get(), digest.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0) {
        return path;
    }
    const std::string temporary = digest + ".tmp";
    MOSAIC_TRY(process::remove_tree(root.stage.get(), temporary));
    MOSAIC_TRY(harness::lay_stage(root.stage.get(), temporary, files));
    if (::renameat(root.stage.get(), temporary.c_str(), root.stage.get(), digest.c_str()) != 0) {
        return fail_sys(errno, path);
    }
    return path;
}

}  // namespace mosaic::host
