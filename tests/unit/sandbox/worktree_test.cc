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

constexpr GitOptions kAllowed = {.common_dir = true};

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
        for (const char* name : {"objects/info", "objects/pack", "refs/heads", "logs"}) {
            scratch.directory(std::string("main/.git/") + name);
        }
    }

    [[nodiscard]] GitFinding look(const GitOptions& options = kAllowed,
                                  const std::vector<Place>& places = {}) const {
        Workspace workspace;
        workspace.path = ws;
        workspace.fd.reset(::open(ws.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        return look_at_git(workspace, options, places);
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
    const GitFinding finding = clone.look();
    CHECK(finding.warning.empty());

    struct Wanted {
        std::string dest;
        BindKind kind = BindKind::read_write_fd;
    };

    const std::vector<Wanted> wanted = {{clone.common, BindKind::read_only_fd},
                                        {clone.common + "/objects"},
                                        {clone.common + "/objects/info", BindKind::read_only_fd},
                                        {clone.common + "/objects/pack"},
                                        {clone.common + "/refs"},
                                        {clone.common + "/logs", BindKind::tmpfs},
                                        {clone.admin},
                                        {clone.admin + "/gitdir", BindKind::read_only_fd},
                                        {clone.admin + "/commondir", BindKind::read_only_fd},
                                        {clone.admin + "/logs", BindKind::tmpfs}};
    REQUIRE(finding.binds.size() == wanted.size());
    size_t descriptors = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
        const Bind& bind = finding.binds[i];
        CAPTURE(bind.dest);
        CHECK(bind.dest == wanted[i].dest);
        CHECK(bind.kind == wanted[i].kind);
        if (bind.kind == BindKind::tmpfs) {
            CHECK(bind.bytes > 0);
            continue;
        }
        CHECK(bind.source == bind.dest);
        CHECK(bind.fd == kGitFdFirst + static_cast<int>(descriptors));
        ++descriptors;
    }
    CHECK(finding.fds.size() == descriptors);
}

TEST_CASE("a relative gitdir is read from the workspace") {
    const Clone clone;
    clone.scratch.file("ws/.git", "gitdir: ../main/.git/worktrees/ws\n");
    clone.scratch.file("main/.git/worktrees/ws/gitdir", "../../../../ws/.git\n");
    CHECK(clone.look().warning.empty());
    CHECK_FALSE(clone.look().binds.empty());
}

TEST_CASE("without the option nothing is bound and the warning says what to do") {
    const Clone clone;
    check_unbound(clone.look(GitOptions{}), "set sandbox.gitCommonDir to true");
    check_unbound(clone.look(GitOptions{}), clone.admin);
}

TEST_CASE("a repository is not bound where a session could undo its read-only mounts") {
    const Clone clone;
    check_unbound(clone.look({.common_dir = true, .nested = true}), "sandbox.nested is on");
    check_unbound(clone.look({.nested = true}), "set sandbox.gitCommonDir to true");
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

TEST_CASE("a repository of which a part is a link is not bound") {
    for (const char* name : {"config", "objects", "objects/info", "objects/pack", "refs", "logs"}) {
        CAPTURE(name);
        const Clone clone;
        std::filesystem::rename(clone.common + "/" + name, clone.scratch / "moved");
        clone.scratch.link(clone.scratch / "moved", std::string("main/.git/") + name);
        CHECK(clone.look().binds.empty());
        CHECK_FALSE(clone.look().warning.empty());
    }
    for (const char* name : {"gitdir", "commondir"}) {
        CAPTURE(name);
        const Clone clone;
        std::filesystem::rename(clone.admin + "/" + name, clone.scratch / "moved");
        clone.scratch.link(clone.scratch / "moved", std::string("main/.git/worktrees/ws/") + name);
        if (std::string(name) == "commondir") {
            clone.scratch.file("moved", clone.common + "\n");
        }
        check_unbound(clone.look(), "as git lays it");
    }
}

TEST_CASE("a repository with a link that its owner's git would follow is not bound") {
    for (const char* name : {"refs/heads/master",
                             "refs/heads/a/b",
                             "refs/x",
                             "objects/aa",
                             "objects/aa/bb",
                             "objects/info/commit-graph",
                             "objects/pack/multi-pack-index",
                             "logs/HEAD",
                             "logs/refs/heads/master",
                             "worktrees/ws/HEAD",
                             "worktrees/ws/logs",
                             "worktrees/ws/logs/HEAD"}) {
        CAPTURE(name);
        const Clone clone;
        const std::filesystem::path path = clone.common + "/" + name;
        std::filesystem::create_directories(path.parent_path());
        CHECK(clone.look().warning.empty());
        std::filesystem::create_symlink("/etc/hostname", path);
        check_unbound(clone.look(), path.string() + " is a link");
    }
}

TEST_CASE("a repository with what git would wait at is not bound") {
    for (const char* name : {"refs/heads/master",
                             "objects/x",
                             "objects/aa/bb",
                             "objects/info/commit-graph",
                             "objects/pack/x.pack",
                             "logs/refs/heads/master",
                             "worktrees/ws/HEAD",
                             "worktrees/ws/logs/HEAD"}) {
        CAPTURE(name);
        const Clone clone;
        const std::filesystem::path path = clone.common + "/" + name;
        std::filesystem::create_directories(path.parent_path());
        REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
        check_unbound(clone.look(), path.string() + " is neither a file nor a directory");
        std::filesystem::remove(path);
        REQUIRE(::mknod(path.c_str(), S_IFSOCK | 0600, 0) == 0);
        check_unbound(clone.look(), path.string() + " is neither a file nor a directory");
        std::filesystem::remove(path);
        clone.scratch.file(std::string("main/.git/") + name);
        CHECK(clone.look().warning.empty());
    }
}

TEST_CASE("a repository is not bound when a link could lie too deep to be seen") {
    const Clone clone;
    std::string deep = "main/.git/refs";
    for (int i = 0; i < 15; ++i) {
        deep += "/d";
    }
    clone.scratch.file(deep + "/x");
    CHECK(clone.look().warning.empty());
    clone.scratch.link("/etc/hostname", deep + "/d/x");
    check_unbound(clone.look(), "lies too deep");
}

TEST_CASE("how deep objects lie is no matter") {
    const Clone clone;
    clone.scratch.link("/etc/hostname", "main/.git/objects/aa/b/c");
    CHECK(clone.look().warning.empty());
}

TEST_CASE("a repository's names are told on one line") {
    const Clone clone;
    clone.scratch.link("/etc/hostname", "main/.git/refs/a\nb");
    check_unbound(clone.look(), "refs/a\\nb is a link");
}

TEST_CASE("a repository whose logs are no directory is not bound") {
    const Clone clone;
    clone.scratch.file("main/.git/worktrees/ws/logs");
    check_unbound(clone.look(), "worktrees/ws/logs is no directory");
    std::filesystem::remove(clone.admin + "/logs");
    std::filesystem::remove(clone.common + "/logs");
    check_unbound(clone.look(), "main/.git/logs is no directory");
}

TEST_CASE("a repository is looked through to a bound") {
    for (const std::string part : {"refs/", "objects/aa/"}) {
        CAPTURE(part);
        const Clone clone;
        for (int i = 0; i <= 20'000; ++i) {
            clone.scratch.file("main/.git/logs/" + std::to_string(i));
        }
        CHECK(clone.look().warning.empty());
        for (int i = 0; i <= 20'000; ++i) {
            clone.scratch.file("main/.git/" + part + std::to_string(i));
        }
        check_unbound(clone.look(), "too many files");
    }
}

TEST_CASE("a repository's directories are looked through to a bound, those of logs among them") {
    const Clone clone;
    const auto make = [&](const std::string& where, int from, int to) {
        for (int i = from; i < to; ++i) {
            std::filesystem::create_directory(clone.common + where + std::to_string(i));
        }
    };
    make("/logs/", 0, 2'500);
    CHECK(clone.look().warning.empty());
    // refs and heads, objects, and pack and info as a part of them and on their own, and the
    // worktree's make eight.
    make("/refs/heads/", 0, 1'992);
    CHECK(clone.look().warning.empty());
    CHECK_FALSE(clone.look().binds.empty());
    // Nothing is left for the logs.
    std::filesystem::remove_all(clone.common + "/logs");
    clone.scratch.link("/etc/hostname", "main/.git/logs/HEAD");
    CHECK(clone.look().warning.empty());
    make("/refs/heads/", 1'992, 1'993);
    check_unbound(clone.look(), "too many directories");
}

TEST_CASE("a repository on a file system that may not answer is not looked at") {
    // /proc and /sys stand for those.
    const std::string refused = "/proc lies on a file system of type proc, which may not answer; ";
    const Clone clone;
    clone.scratch.link("/proc", "ws/far");
    clone.scratch.link("../ws/far/self", "main/way");
    for (const std::string& path : {std::string("/proc/self/cwd/worktrees/ws"),
                                    "/proc/self/root" + clone.admin,
                                    clone.scratch / "main/way/x/worktrees/ws",
                                    std::string("../ws/far/none/worktrees/ws")}) {
        CAPTURE(path);
        clone.scratch.file("ws/.git", "gitdir: " + path + "\n");
        check_unbound(clone.look(), refused);
    }
}

TEST_CASE("nor is it when what lies there leads to one") {
    const std::string refused = "/proc lies on a file system of type proc, which may not answer; ";
    for (const char* name : {"commondir", "gitdir"}) {
        CAPTURE(name);
        const Clone clone;
        const std::string file = std::string("main/.git/worktrees/ws/") + name;
        clone.scratch.file(file, "/proc/self/.git\n");
        check_unbound(clone.look(), refused);
        std::filesystem::remove(clone.scratch / file);
        clone.scratch.link("/proc/self/comm", file);
        check_unbound(clone.look(), refused);
    }
    const Clone clone;
    clone.scratch.link("/proc/none", "main/.git/worktrees/ws/config.worktree");
    check_unbound(clone.look(), clone.admin + "/config.worktree");
}

TEST_CASE("a repository in a place that no workspace may be in is not bound") {
    const Clone clone;
    const std::vector<Place> data = {
        Place{.path = clone.scratch / "main", .what = "the data root"}};
    check_unbound(clone.look(kAllowed, data), "the data root");
}

TEST_CASE("a repository in or around another workspace is not bound") {
    const Clone clone;
    for (const bool shared : {false, true}) {
        for (const std::string& path :
             {clone.scratch / "main", clone.common + "/refs", clone.common + "/worktrees"}) {
            CAPTURE(path);
            check_unbound(clone.look(kAllowed, {workspace_place({"pm", path, shared}, shared)}),
                          std::string(kWorkspaceOf) + "pm, " + path);
        }
    }
    CHECK(clone.look(kAllowed, {workspace_place({"pm", clone.scratch / "main/.gi", false}, false)})
              .warning.empty());
    // Both share the workspace that is the worktree.
    CHECK(clone.look(kAllowed, {workspace_place({"pm", clone.ws, true}, true)}).warning.empty());
}

TEST_CASE("a repository in what sessions write of another is not bound") {
    // A session with a worktree lays it there for one that has none.
    for (const std::string part : {"objects/r", "refs/heads/r", "logs/r", "worktrees/ws/r"}) {
        CAPTURE(part);
        const Clone clone;
        const std::string forged = "main/.git/" + part;
        for (const char* name : {"objects/info", "objects/pack", "refs", "logs", "worktrees/x"}) {
            clone.scratch.directory(forged + "/" + name);
        }
        clone.scratch.file(forged + "/config");
        clone.scratch.file(forged + "/worktrees/x/commondir", "../..\n");
        clone.scratch.file(forged + "/worktrees/x/gitdir", clone.ws + "/.git\n");
        clone.scratch.file("ws/.git", "gitdir: " + (clone.scratch / forged) + "/worktrees/x\n");
        check_unbound(clone.look(), "it lies where sessions write to the repository");
        // What isn't written by sessions holds submodules.
        std::filesystem::create_directory(clone.common + "/modules");
        std::filesystem::rename(clone.scratch / forged, clone.common + "/modules/r");
        clone.scratch.file("ws/.git", "gitdir: " + clone.common + "/modules/r/worktrees/x\n");
        CHECK(clone.look().warning.empty());
    }
}

TEST_CASE("settings of a worktree's own keep a repository from being bound") {
    const Clone clone;
    clone.scratch.file("main/.git/config", "[extensions]\n\tWorktreeConfig = true\n");
    check_unbound(clone.look(), "extensions.worktreeConfig on");
}

TEST_CASE("settings that wait for that to be switched on do so too") {
    const Clone clone;
    clone.scratch.file("main/.git/worktrees/ws/config.worktree");
    check_unbound(clone.look(), clone.admin + "/config.worktree");
    std::filesystem::remove(clone.admin + "/config.worktree");
    CHECK(clone.look().warning.empty());
}

TEST_CASE("a repository that is swapped while it is looked at is never another's") {
    // A session whose workspace is `other` offers a repository that names `ws`, and puts a link to
    // somebody's clone on the way to it, again and again. That clone names another workspace.
    const Scratch scratch;
    const std::string ws = scratch.directory("ws");
    for (const std::string repository : {"other/way/.git", "private/.git"}) {
        const std::string admin = repository + "/worktrees/ws";
        for (const char* name : {"objects/info", "objects/pack", "refs", "logs"}) {
            scratch.directory(repository + "/" + name);
        }
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
        const GitFinding finding = look_at_git(workspace, kAllowed, {});

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
