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
// (sandbox.gitCommonDir), and only when it names this workspace as its worktree in turn. Then it is
// shared: what is kept read-only in it keeps simple ways out, and not two sessions that hand each
// other descriptors, nor what git reads of what a commit writes. docs/security.md says so.

namespace mosaic::sandbox {

// Descriptors from here on are those of such a repository, in the outer bwrap.
constexpr int kGitFdFirst = 7;

// What the operator's configuration says.
struct GitOptions {
    bool common_dir = false;  // sandbox.gitCommonDir
    bool nested = false;      // sandbox.nested
};

struct GitFinding {
    // Why git won't work in the session, and what to do; empty: it will, as far as this matters.
    std::string warning;
    // The repository, read-only, with what a commit writes on top: objects, refs and the worktree's
    // own directory. By descriptor, for others may change what lies there meanwhile. The logs are
    // the session's own, in memory: git appends to them through links, whoever laid them.
    std::vector<Bind> binds;
    std::vector<UniqueFd> fds;  // of the binds that have one, in their order, from kGitFdFirst on
};

// Looks at the workspace. `places` are where a workspace must not be, resolved, those of other
// instances among them: a repository in one of these is what a session makes up. Nor may there be
// anything but files and directories where sessions write: the owner's git would follow a link and
// wait at a FIFO. Nor is it bound with `nested`, for a session that makes a namespace of its own
// gets rid of mounts on top.
// Blocking, by small reads, at most a few ten thousand directory entries and 2,000 directories;
// what lies elsewhere is only looked at with `common_dir` and without `nested`. It asks nothing of
// a file system that may never answer, wherever sessions lead it: only of local ones, of the root
// directory's and of the workspace's own (process/local_path.h). A repository elsewhere is a
// warning.
[[nodiscard]] GitFinding look_at_git(const Workspace& workspace,
                                     const GitOptions& options,
                                     const std::vector<Place>& places);

// The path in the text of a `.git` or `gitdir` file; nothing when it is none. Pure.
[[nodiscard]] std::optional<std::string> git_path_in(std::string_view text,
                                                     std::string_view prefix);

}  // namespace mosaic::sandbox
