#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "host/children.h"

namespace mosaic::host {

// Staged trees that no session uses any more, removed off the loop by a child. A tree that has its
// own name is always whole: one that is to go is renamed first, and may be staged anew meanwhile.
class StageTrees {
  public:
    // `stage` is the directory that holds them all, open; everything outlives this.
    StageTrees(Children& children, int stage) : children_(children), stage_(stage) {}

    // All but these go, and what a removal or a staging that died has left. Not while a tree is
    // being staged, and not while a child is at it.
    void keep_only(const std::set<std::string>& names);

    // No child is at it.
    [[nodiscard]] bool quiet() const { return job_ == 0; }

    // Takes the result when it is that of its own child.
    bool settle(const ChildResult& result);

  private:
    Children& children_;
    int stage_;
    uint64_t job_ = 0;  // 0: no child is at it
};

// The first half, in the loop: renames the trees that aren't in `keep`, and returns the names of
// all that is to be removed.
[[nodiscard]] std::vector<std::string> set_trees_aside(int stage,
                                                       const std::set<std::string>& keep);

// ---- the child's part ----

constexpr const char* kRemoveStage = "--remove-stage";

// Removes such trees below `stage`. Says what doesn't work and goes on; returns the exit code.
int remove_in_stage(int stage, const std::vector<std::string>& names);

}  // namespace mosaic::host
