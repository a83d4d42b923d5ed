#include "host/stage_trees.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "host/log.h"
#include "process/files.h"
#include "wire/codes.h"

namespace mosaic::host {
namespace {

constexpr Duration kRemovalTakes = seconds(600);
constexpr size_t kDigestSize = 64;
constexpr std::string_view kAside = ".gone";
constexpr std::string_view kHalfStaged = ".tmp";

bool is_digest(std::string_view name) {
    return name.size() == kDigestSize &&
           name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// A name that a tree has which nobody may use.
bool is_waste(std::string_view name) {
    const std::string_view digest = name.substr(0, kDigestSize);
    const std::string_view rest = name.substr(std::min(name.size(), kDigestSize));
    return is_digest(digest) && (rest == kAside || rest == kHalfStaged);
}

std::vector<std::string> names_in(int stage) {
    std::vector<std::string> out;
    const int copy = ::openat(stage, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* directory = copy >= 0 ? ::fdopendir(copy) : nullptr;
    if (directory == nullptr) {
        return out;
    }
    while (const dirent* entry = ::readdir(directory)) {
        out.emplace_back(static_cast<const char*>(entry->d_name));
    }
    ::closedir(directory);
    return out;
}

}  // namespace

std::vector<std::string> set_trees_aside(int stage, const std::set<std::string>& keep) {
    std::vector<std::string> out;
    for (const std::string& name : names_in(stage)) {
        if (is_waste(name)) {
            out.push_back(name);
        } else if (is_digest(name) && keep.count(name) == 0) {
            const std::string aside = name + std::string(kAside);
            // It fails while an earlier removal of the same tree isn't done.
            if (::renameat(stage, name.c_str(), stage, aside.c_str()) == 0) {
                out.push_back(aside);
            }
        }
    }
    return out;
}

void StageTrees::keep_only(const std::set<std::string>& names) {
    MOSAIC_ASSERT(quiet());
    std::vector<std::string> waste = set_trees_aside(stage_, names);
    if (waste.empty()) {
        return;
    }
    process::SpawnSpec spec;
    spec.path = "/proc/self/exe";
    spec.argv = {"mosaic-host"};
    for (std::string& name : waste) {
        spec.argv.emplace_back(kRemoveStage);
        spec.argv.push_back(std::move(name));
    }
    spec.env = {"LANG=C.UTF-8"};
    spec.descriptors = {{stage_, 3}};
    job_ = children_.run(std::move(spec), {}, kRemovalTakes);
}

bool StageTrees::settle(const ChildResult& result) {
    if (job_ == 0 || result.job != job_) {
        return false;
    }
    job_ = 0;
    if (!result.started || result.exit.signal != 0 || result.exit.exit_code != 0) {
        log_line("staged trees stay for the next start: " + result.output);
    }
    return true;
}

int remove_in_stage(int stage, const std::vector<std::string>& names) {
    int code = exit_code::kFine;
    for (const std::string& name : names) {
        if (!is_waste(name)) {
            return exit_code::kInvalidInput;
        }
        const Result<void> done = process::remove_tree(stage, name);
        if (!done && done.error().code != Code::missing) {
            log_line("the staged tree " + name + " can't be removed: " + done.error().text);
            code = exit_code::kFailed;
        }
    }
    return code;
}

}  // namespace mosaic::host
