#include "cli/scratch_run.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <charconv>
#include <string_view>

#include "base/ids.h"
#include "harness/stage.h"
#include "process/files.h"
#include "process/proc.h"
#include "registry/layout.h"

namespace mosaic::cli {
namespace {

// "<pid>-<start time>"
std::string own_name() {
    const auto stat = process::read_stat(::getpid());
    return std::to_string(::getpid()) + "-" + (stat ? stat->start_time : "0");
}

bool is_in_use(std::string_view name) {
    const size_t dash = name.find('-');
    pid_t pid = 0;
    const char* const end = name.data() + std::min(dash, name.size());
    const auto [at, error] = std::from_chars(name.data(), end, pid);
    return dash != std::string_view::npos && error == std::errc() && at == end && pid > 0 &&
           process::is_alive(pid, name.substr(dash + 1));
}

std::vector<std::string> names_in(int directory) {
    std::vector<std::string> out;
    const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* stream = copy >= 0 ? ::fdopendir(copy) : nullptr;
    if (stream == nullptr) {
        return out;
    }
    while (const dirent* entry = ::readdir(stream)) {
        const std::string_view name = static_cast<const char*>(entry->d_name);
        if (name != "." && name != "..") {
            out.emplace_back(name);
        }
    }
    ::closedir(stream);
    return out;
}

Result<UniqueFd> open_shells(const std::string& data_root) {
    const size_t slash = data_root.rfind('/');
    MOSAIC_TRY_ASSIGN(const UniqueFd above,
                      process::open_directory(data_root.substr(0, std::max<size_t>(slash, 1))));
    MOSAIC_TRY_ASSIGN(const UniqueFd root,
                      process::open_private_directory(above.get(), data_root.substr(slash + 1)));
    return process::make_private_directory(root.get(), std::string(registry::kShells));
}

}  // namespace

Result<ScratchRun> ScratchRun::make(const std::string& data_root) {
    ScratchRun out;
    MOSAIC_TRY_ASSIGN(out.shells_, open_shells(data_root));
    for (const std::string& name : names_in(out.shells_.get())) {
        if (!is_in_use(name)) {
            ignore(process::remove_tree(out.shells_.get(), name), "the next one tries again");
        }
    }
    unsigned char random[6] = {};
    if (::getrandom(static_cast<void*>(random), sizeof(random), 0) != ssize_t{sizeof(random)}) {
        return fail_sys(errno, "getrandom");
    }
    out.run_ = run_id_from(random);
    out.name_ = own_name();
    out.path_ = registry::join(registry::join(data_root, registry::kShells), out.name_);
    MOSAIC_TRY_ASSIGN(out.directory_,
                      process::make_private_directory(out.shells_.get(), out.name_));
    return out;
}

ScratchRun::~ScratchRun() {
    if (directory_.valid()) {
        ignore(process::remove_tree(shells_.get(), name_), "the next shell tries again");
    }
}

Result<void> ScratchRun::lay(const std::vector<BundleFile>& files,
                             const std::vector<harness::StagedFile>& staged) {
    MOSAIC_TRY_ASSIGN(const UniqueFd run, process::make_private_directory(directory_.get(), run_));
    MOSAIC_TRY_ASSIGN(const UniqueFd bundle,
                      process::make_private_directory(run.get(), std::string(registry::kBundle)));
    MOSAIC_TRY_ASSIGN(const UniqueFd rw,
                      process::make_private_directory(run.get(), std::string(registry::kRw)));
    for (const std::string_view path : {registry::kRwHome,
                                        registry::kRwTmp,
                                        registry::kRwSession,
                                        registry::kRwTurns,
                                        registry::kRwIo}) {
        MOSAIC_TRY(process::make_private_directory(
            rw.get(), std::string(path.substr(registry::kRw.size() + 1))));
    }
    const std::string in_bundle = std::string(registry::kBundle) + "/";
    for (const BundleFile& file : files) {
        const bool inside = file.path.starts_with(in_bundle);
        MOSAIC_TRY(process::create_file(inside ? bundle.get() : run.get(),
                                        inside ? file.path.substr(in_bundle.size()) : file.path,
                                        file.content,
                                        registry::kFileMode));
    }
    MOSAIC_TRY(process::create_file(
        run.get(), std::string(registry::kRunnerLog), "", registry::kFileMode));
    return harness::lay_stage(directory_.get(), "stage", staged);
}

}  // namespace mosaic::cli
