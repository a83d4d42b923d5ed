#include "host/stage.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "harness/stage.h"
#include "process/files.h"
#include "registry/layout.h"

namespace mosaic::host {
namespace {

void put(std::string& out, uint64_t number) {
    out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void put(std::string& out, const std::string& text) {
    put(out, text.size());
    out += text;
}

// Takes from the head of what is left; after a first failure everything is empty.
class Taker {
  public:
    explicit Taker(std::string_view bytes) : left_(bytes) {}

    uint64_t number() {
        uint64_t out = 0;
        const std::string_view bytes = take(sizeof out);
        if (bytes.size() == sizeof out) {
            ::memcpy(&out, bytes.data(), sizeof out);
        }
        return out;
    }

    std::string text() { return std::string(take(number())); }

    [[nodiscard]] bool good() const { return good_; }

    [[nodiscard]] bool at_end() const { return good_ && left_.empty(); }

  private:
    std::string_view take(uint64_t size) {
        if (!good_ || size > left_.size()) {
            good_ = false;
            return {};
        }
        const std::string_view out = left_.substr(0, size);
        left_.remove_prefix(size);
        return out;
    }

    std::string_view left_;
    bool good_ = true;
};

}  // namespace

Result<StagedTree> plan_tree(const std::string& runner_program,
                             const std::vector<harness::StagedFile>& module_files) {
    StagedTree out;
    out.files = module_files;
    MOSAIC_TRY_ASSIGN(harness::StagedFile runner, harness::staged_runner(runner_program));
    out.files.push_back(std::move(runner));
    out.digest = harness::stage_digest(out.files);
    return out;
}

bool is_laid(int stage, const StagedTree& tree) {
    struct stat facts {};

    return ::fstatat(stage, tree.digest.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
}

Result<void> lay_tree(int stage, const StagedTree& tree) {
    const std::string temporary = tree.digest + ".tmp";
    MOSAIC_TRY(process::remove_tree(stage, temporary));
    MOSAIC_TRY(harness::lay_stage(stage, temporary, tree.files));
    if (::renameat(stage, temporary.c_str(), stage, tree.digest.c_str()) != 0) {
        return fail_sys(errno, "stage/" + tree.digest);
    }
    return {};
}

Result<std::string> stage_tree(const DataRoot& root,
                               const std::string& runner_program,
                               const std::vector<harness::StagedFile>& module_files) {
    MOSAIC_TRY_ASSIGN(const StagedTree tree, plan_tree(runner_program, module_files));
    if (!is_laid(root.stage.get(), tree)) {
        MOSAIC_TRY(lay_tree(root.stage.get(), tree));
    }
    return registry::join(registry::stage_dir(root.path), tree.digest);
}

std::string encode_trees(const std::vector<StagedTree>& trees) {
    std::string out;
    put(out, trees.size());
    for (const StagedTree& tree : trees) {
        put(out, tree.digest);
        put(out, tree.files.size());
        for (const harness::StagedFile& file : tree.files) {
            put(out, file.path);
            put(out, file.mode);
            put(out, file.content);
        }
    }
    return out;
}

Result<std::vector<StagedTree>> decode_trees(std::string_view bytes) {
    Taker from(bytes);
    std::vector<StagedTree> out;
    for (uint64_t trees = from.number(); trees > 0 && from.good(); --trees) {
        StagedTree tree;
        tree.digest = from.text();
        for (uint64_t files = from.number(); files > 0 && from.good(); --files) {
            harness::StagedFile file;
            file.path = from.text();
            file.mode = static_cast<mode_t>(from.number());
            file.content = from.text();
            tree.files.push_back(std::move(file));
        }
        out.push_back(std::move(tree));
    }
    if (!from.at_end()) {
        return fail(Code::invalid, "the trees to lay are cut short");
    }
    return out;
}

}  // namespace mosaic::host
