// Goal: a workspace whose git repository lies elsewhere works as far as the operator allows, and
// what a session writes into its .git never widens what it gets. Method: real worktrees, real git.

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

void git(const World& world, const std::string& script) {
    const Finished done = run({"/bin/sh", "-ec", script}, world.environment());
    REQUIRE_MESSAGE(done.exit.code == 0, done.err);
}

constexpr const char* kIdentity = "git -c user.name=n -c user.email=e ";

// The main clone `name` beside the workspaces, with one commit, and `workspace` as its worktree.
void make_worktree(const World& world, const std::string& name, const std::string& workspace) {
    const std::string main = world.root + "/" + name;
    git(world,
        "rm -rf " + workspace + "; git init -q " + main + "; cd " + main +
            "; echo x >f; git add f; " + kIdentity + "commit -q -m first; git worktree add -q " +
            workspace);
}

void allow(World& world) {
    world.system.set("sandbox", object({{"gitCommonDir", true}}));
    world.write_config();
}

}  // namespace

TEST_CASE("a workspace that is a git worktree is told at launch with what to do") {
    World world;
    make_worktree(world, "main", world.workspace("coder"));
    world.start();
    world.launch("coder");
    CHECK_CONTAINS(world.host_log(),
                   "is a git worktree of " + world.root + "/main/.git/worktrees/");
    CHECK_CONTAINS(world.host_log(), "sandbox.gitCommonDir");
    CHECK(trim(world.ask("coder",
                         "git status >/dev/null 2>&1 && echo works || echo fails; ls " +
                             world.root + "/main 2>/dev/null; :")) == "fails");
    const Finished shown = world.mosaic({"sandbox", "show", "coder", "--business", "acme"});
    CHECK_CONTAINS(shown.out, "sandbox.gitCommonDir");
}

TEST_CASE("a worktree works where the repository may be bound and its hooks and settings stay") {
    World world;
    make_worktree(world, "main", world.workspace("coder"));
    allow(world);
    const std::string common = world.root + "/main/.git";
    write_text(common + "/hooks/pre-commit", "#!/bin/sh\necho ours\n", 0755);
    world.start();
    world.launch("coder");
    CHECK(!contains(world.host_log(), "is a git worktree"));
    CHECK(trim(world.ask("coder",
                         std::string("echo y >f; ") + kIdentity +
                             "commit -q -a -m second 2>/dev/null; git log --format=%s")) ==
          "second\nfirst");
    CHECK(
        trim(world.ask(
            "coder",
            "LC_ALL=C; export LC_ALL; cd " + common +
                "; for try in 'mv hooks h' 'mv config c' 'rm config' 'tee hooks/post-commit' 'tee "
                "config' 'tee commondir' 'mkdir worktrees/x'; do $try </dev/null 2>&1 >/dev/null | "
                "sed 's/.*: //'; done; mv ../.git ../g 2>/dev/null || echo stays")) ==
        "Read-only file system\nRead-only file system\nRead-only file system\n"
        "Read-only file system\nRead-only file system\nRead-only file system\n"
        "Read-only file system\nstays");
    CHECK(trim(world.ask("coder", "ls " + world.root + "/main; :")).empty());
    CHECK(trim(world.ask("coder", "ls /proc/$$/fd; :")) == "0\n1\n2");
    git(world, "cd " + world.root + "/main; git log --all --format=%s | grep -q second");
}

TEST_CASE("a gitdir that a session planted is not bound") {
    World world;
    make_worktree(world, "main", world.workspace("coder"));
    make_worktree(world, "other", world.root + "/elsewhere");
    allow(world);
    write_text(world.root + "/other/.git/secret", "secret");
    world.start();
    std::string run = text(world.launch("coder"), "run");
    const std::string secret =
        "cat " + world.root + "/other/.git/secret 2>/dev/null || echo hidden";
    const std::string main_secret = "ls -d " + world.root + "/main/.git 2>/dev/null || echo hidden";
    CHECK(trim(world.ask("coder", secret)) == "hidden");
    // Another repository's worktree, and a repository of its own making that names the other.
    for (const std::string& target : {world.root + "/other/.git/worktrees/elsewhere",
                                      world.workspace("coder") + "/w/worktrees/x"}) {
        CAPTURE(target);
        CHECK(trim(world.ask(
                  "coder",
                  "mkdir -p w/worktrees/x w/objects w/refs w/hooks; echo " + world.root +
                      "/other/.git >w/worktrees/x/commondir; echo " + world.workspace("coder") +
                      "/.git >w/worktrees/x/gitdir; touch w/config; echo 'gitdir: " + target +
                      "' >.git; echo planted")) == "planted");
        world.stop_run(run);
        world.wait_log("end", run);
        run = text(world.launch("coder"), "run");
        CHECK(trim(world.ask("coder", secret)) == "hidden");
        CHECK(trim(world.ask("coder", main_secret)) == "hidden");
    }
    CHECK_CONTAINS(world.host_log(), "doesn't name this workspace");
}
