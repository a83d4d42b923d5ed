#include "harness/stage.h"

#include <fcntl.h>
#include <unistd.h>

#include "process/files.h"

namespace mosaic::harness {
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
Result<void> write_file(int tree, const StagedFile& file) {
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

Result<void> lay_stage(int parent, const std::string& name, const std::vector<StagedFile>& files) {
    MOSAIC_TRY_ASSIGN(const UniqueFd directory, process::make_private_directory(parent, name));
    for (const StagedFile& file : files) {
        MOSAIC_TRY(write_file(directory.get(), file));
    }
    return {};
}

Result<StagedFile> staged_runner(const std::string& program) {
    MOSAIC_TRY_ASSIGN(std::string content, process::read_file(program, kRunnerBytesMax));
    return StagedFile{"mosaic-runner", std::move(content), 0500};
}

}  // namespace mosaic::harness
