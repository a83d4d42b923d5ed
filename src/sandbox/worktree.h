#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "sandbox/bind.h"
#include "sandbox/workspace.h"

// A workspace whose `.git` is a file: a worktree (or submodule) whose repository lies elsewhere,
// where a session doesn't see it. What the file says must never decide by itself what a session
// gets, for sessions write that file. So the repository is bound only where the operator allows it
// (sandbox.gitCommonDir), and only when it names this workspace as its worktree in turn.

namespace mosaic::sandbox {

// Descriptors from here on are those of such a repository, in the outer bwrap.
constexpr int kGitFdFirst = 7;

struct GitFinding {
    // Why git won't work in the session, and what to do; empty: it will, as far as this matters.
    std::string warning;
    // The repository, read-only, with what a commit writes on top: objects, refs, logs and the
    // worktree's own directory. By descriptor, for others may change what lies there meanwhile.
    std::vector<Bind> binds;
    std::vector<UniqueFd> fds;  // of the binds, in their order, from kGitFdFirst on
};

// Looks at the workspace. `places` are where a workspace must not be, resolved; a repository that
// lies in another instance's workspace is no reason, the operator has said that it is shared.
// Blocking, by small reads; what lies elsewhere is only looked at when `allowed`.
[[nodiscard]] GitFinding look_at_git(const Workspace& workspace,
                                     bool allowed,
                                     const std::vector<Place>& places);

// The path in the text of a `.git` or `gitdir` file; nothing when it is none. Pure.
[[nodiscard]] std::optional<std::string> git_path_in(std::string_view text,
                                                     std::string_view prefix);

}  // namespace mosaic::sandbox
