#include "host/stage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/files.h"
#include "registry/layout.h"

namespace mosaic::host {
namespace {

constexpr uint64_t kRunnerBytesMax = uint64_t{64} * 1024 * 1024;

std::vector<std::string> segments_of(const std::string& path) {
    std::vector<std::string> out;
    size_t start = 0;
    for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', start)) {
        out.push_back(path.substr(start, slash - start));
        start = slash + 1;
    }
    out.push_back(path.substr(start));
    return out;
}

// Durable before the rename: a tree under its final name must be whole after a power cut as well.
Result<void> sync_path(int directory, const std::string& path) {
    const UniqueFd file(::openat(directory, path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file.valid() || ::fsync(file.get()) != 0) {
        return fail_sys(errno, "stage/" + path);
    }
    return {};
}

// One file, its directories made on the way.
Result<void> write_file(int tree, const harness::StagedFile& file) {
    UniqueFd holder;
    int at = tree;
    const std::vector<std::string> segments = segments_of(file.path);
    for (size_t i = 0; i + 1 < segments.size(); ++i) {
        MOSAIC_TRY_ASSIGN(UniqueFd next, process::make_private_directory(at, segments[i]));
        MOSAIC_TRY(sync_path(at, "."));
        holder = std::move(next);
        at = holder.get();
    }
    MOSAIC_TRY(process::create_file(at, segments.back(), file.content, file.mode));
    MOSAIC_TRY(sync_path(at, segments.back()));
    return sync_path(at, ".");
}

}  // namespace

Result<std::string> stage_tree(const DataRoot& root,
                               const std::string& runner_program,
                               const std::vector<harness::StagedFile>& module_files) {
    std::vector<harness::StagedFile> files = module_files;
    MOSAIC_TRY_ASSIGN(std::string runner, process::read_file(runner_program, kRunnerBytesMax));
    files.push_back({"mosaic-runner", std::move(runner), 0500});
    const std::string digest = harness::stage_digest(files);
    const std::string path = registry::join(registry::stage_dir(root.path), digest);

    struct stat facts {};

    if (::fstatat(root.stage.get(), digest.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0) {
        return path;
    }
    const std::string temporary = digest + ".tmp";
    MOSAIC_TRY(process::remove_tree(root.stage.get(), temporary));
    MOSAIC_TRY_ASSIGN(const UniqueFd directory,
                      process::make_private_directory(root.stage.get(), temporary));
    for (const harness::StagedFile& file : files) {
        MOSAIC_TRY(write_file(directory.get(), file));
    }
    if (::renameat(root.stage.get(), temporary.c_str(), root.stage.get(), digest.c_str()) != 0) {
        return fail_sys(errno, path);
    }
    return path;
}

}  // namespace mosaic::host
