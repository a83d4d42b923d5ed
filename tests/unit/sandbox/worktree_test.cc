// Goal: a repository is bound only where it is allowed and names the workspace as its worktree.
// Method: trees as git lays them, one thing wrong in each.
#include "sandbox/worktree.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "scratch.h"

using namespace mosaic;
using namespace mosaic::sandbox;

namespace {

// A main clone with the worktree `ws`.
struct Clone {
    Scratch scratch;
    std::string ws = scratch.directory("ws");
    std::string common = scratch.directory("main/.git");
    std::string admin = scratch.directory("main/.git/worktrees/ws");

    Clone() {
        scratch.file("ws/.git", "gitdir: " + admin + "\n");
        scratch.file("main/.git/worktrees/ws/commondir", "../..\n");
        scratch.file("main/.git/worktrees/ws/gitdir", ws + "/.git\n");
        scratch.file("main/.git/config", "[core]\n\tbare = false\n");
        for (const char* name : {"objects", "refs"}) {
            scratch.directory(std::string("main/.git/") + name);
        }
    }

    [[nodiscard]] GitFinding look(bool allowed = true,
                                  const std::vector<Place>& places = {}) const {
        Workspace workspace;
        workspace.path = ws;
        workspace.fd.reset(::open(ws.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        return look_at_git(workspace, allowed, places);
    }
};

void check_unbound(const GitFinding& finding, const std::string& problem) {
    CHECK(finding.binds.empty());
    CHECK(finding.fds.empty());
    CHECK_MESSAGE(finding.warning.find(problem) != std::string::npos, finding.warning);
}

}  // namespace

TEST_CASE("a worktree's repository is bound read-only, with what a commit writes on top") {
    const Clone clone;
    clone.scratch.directory("main/.git/logs");
    const GitFinding finding = clone.look();
    CHECK(finding.warning.empty());
    REQUIRE(finding.binds.size() == 5);
    REQUIRE(finding.fds.size() == 5);
    const std::vector<std::string> dests = {clone.common,
                                            clone.common + "/objects",
                                            clone.common + "/refs",
                                            clone.common + "/logs",
                                            clone.admin};
    for (size_t i = 0; i < dests.size(); ++i) {
        CHECK(finding.binds[i].dest == dests[i]);
        CHECK(finding.binds[i].source == dests[i]);
        CHECK(finding.binds[i].fd == kGitFdFirst + static_cast<int>(i));
        CHECK(finding.binds[i].kind == (i == 0 ? BindKind::read_only_fd : BindKind::read_write_fd));
    }
}

TEST_CASE("a relative gitdir is read from the workspace") {
    const Clone clone;
    clone.scratch.file("ws/.git", "gitdir: ../main/.git/worktrees/ws\n");
    clone.scratch.file("main/.git/worktrees/ws/gitdir", "../../../../ws/.git\n");
    CHECK(clone.look().binds.size() == 4);
}

TEST_CASE("without the option nothing is bound and the warning says what to do") {
    const Clone clone;
    check_unbound(clone.look(false), "set sandbox.gitCommonDir to true");
    check_unbound(clone.look(false), clone.admin);
}

TEST_CASE("what is no worktree is nothing to speak of") {
    const Clone clone;
    for (const char* text :
         {"", "gitdir: ", "gitdir: .git-inside\n", "something else\n", "gitdir: a\nb"}) {
        CAPTURE(text);
        clone.scratch.file("ws/.git", text);
        CHECK(clone.look().warning.empty());
        CHECK(clone.look().binds.empty());
    }
    std::filesystem::remove(clone.ws + "/.git");
    CHECK(clone.look().warning.empty());
    clone.scratch.directory("ws/.git");
    CHECK(clone.look().warning.empty());
    std::filesystem::remove(clone.ws + "/.git");
    clone.scratch.link(clone.common, "ws/.git");
    CHECK(clone.look().binds.empty());
}

TEST_CASE("a repository that doesn't name the workspace back is not bound") {
    const Clone clone;
    clone.scratch.directory("other");
    for (const std::string& text : {clone.scratch / "other/.git",
                                    clone.ws,
                                    clone.ws + "/x/.git",
                                    std::string(),
                                    std::string("/")}) {
        CAPTURE(text);
        clone.scratch.file("main/.git/worktrees/ws/gitdir", text + "\n");
        check_unbound(clone.look(), "doesn't name this workspace");
    }
    std::filesystem::remove(clone.admin + "/gitdir");
    check_unbound(clone.look(), "doesn't name this workspace");
}

TEST_CASE("only the directory that holds the worktrees can be the repository") {
    const Clone clone;
    clone.scratch.directory("secret");
    clone.scratch.file("main/.git/worktrees/ws/commondir", clone.scratch / "secret\n");
    check_unbound(clone.look(), "names another repository");
    std::filesystem::remove(clone.admin + "/commondir");
    check_unbound(clone.look(), "names another repository");
    clone.scratch.file("ws/.git", "gitdir: " + (clone.scratch / "secret") + "\n");
    check_unbound(clone.look(), "no worktree's directory");
    clone.scratch.file("ws/.git", "gitdir: " + (clone.scratch / "none") + "\n");
    check_unbound(clone.look(), "No such file or directory");
}

TEST_CASE("links in a repository are not bound") {
    for (const char* name : {"config", "objects", "refs"}) {
        CAPTURE(name);
        const Clone clone;
        clone.scratch.directory("secret");
        std::filesystem::remove_all(clone.common + "/" + name);
        clone.scratch.link(clone.scratch / "secret", std::string("main/.git/") + name);
        CHECK(clone.look().binds.empty());
        CHECK_FALSE(clone.look().warning.empty());
    }
    const Clone clone;
    clone.scratch.directory("secret");
    clone.scratch.link(clone.scratch / "secret", "main/.git/logs");
    CHECK(clone.look().binds.size() == 4);
}

TEST_CASE("a repository in a place that no workspace may be in is not bound") {
    const Clone clone;
    const std::vector<Place> data = {
        Place{.path = clone.scratch / "main", .what = "the data root"}};
    check_unbound(clone.look(true, data), "the data root");
    // Another instance's workspace is what its owner has allowed.
    const std::vector<Place> other = {
        Place{.path = clone.scratch / "main", .what = std::string(kWorkspaceOf) + "pm,"}};
    CHECK(clone.look(true, other).binds.size() == 4);
}

TEST_CASE("settings of a worktree's own keep a repository from being bound") {
    const Clone clone;
    clone.scratch.file("main/.git/config", "[extensions]\n\tWorktreeConfig = true\n");
    check_unbound(clone.look(), "extensions.worktreeConfig");
}

TEST_CASE("a repository that is swapped while it is looked at is never another's") {
    // A session whose workspace is `other` offers a repository that names `ws`, and puts a link to
    // somebody's clone on the way to it, again and again. That clone names another workspace.
    const Scratch scratch;
    const std::string ws = scratch.directory("ws");
    for (const std::string repository : {"other/way/.git", "private/.git"}) {
        const std::string admin = repository + "/worktrees/ws";
        scratch.directory(repository + "/objects");
        scratch.directory(repository + "/refs");
        scratch.file(repository + "/config");
        scratch.file(admin + "/commondir", "../..\n");
    }
    scratch.file("other/way/.git/worktrees/ws/gitdir", ws + "/.git\n");
    scratch.file("private/.git/worktrees/ws/gitdir", scratch / "elsewhere/.git\n");
    scratch.file("ws/.git", "gitdir: " + (scratch / "other/way/.git/worktrees/ws\n"));
    scratch.link("../private", "other/aside");
    std::atomic<bool> over = false;
    std::thread swapper([&] {
        while (!over) {
            ::renameat2(AT_FDCWD,
                        (scratch / "other/way").c_str(),
                        AT_FDCWD,
                        (scratch / "other/aside").c_str(),
                        RENAME_EXCHANGE);
        }
    });
    Workspace workspace;
    workspace.path = ws;
    workspace.fd.reset(::open(ws.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));

    struct stat secret {};

    REQUIRE(::stat((scratch / "private/.git").c_str(), &secret) == 0);
    int leaked = 0;
    for (int i = 0; i < 20000; ++i) {
        const GitFinding finding = look_at_git(workspace, true, {});

        struct stat bound {};

        if (!finding.fds.empty() && ::fstat(finding.fds[0].get(), &bound) == 0 &&
            bound.st_ino == secret.st_ino) {
            ++leaked;
        }
    }
    over = true;
    swapper.join();
    CHECK(leaked == 0);
}
