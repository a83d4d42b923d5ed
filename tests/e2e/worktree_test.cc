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

TEST_CASE("git works in a worktree whose logs are the session's own") {
    World world;
    make_worktree(world, "main", world.workspace("coder"));
    git(world,
        "git init -q " + world.root + "/other; cd " + world.root +
            "/other; for i in $(seq 150); do echo $i >f$i; done; git add .; " + kIdentity +
            "commit -q -m other; git clone -q --bare . " + world.workspace("coder") + "/other.git");
    allow(world);
    world.start();
    world.launch("coder");
    const std::string said = world.ask(
        "coder",
        "set -e; git config --list --show-origin >/dev/null; export GIT_AUTHOR_NAME=n "
        "GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e; exec 2>err; "
        "git checkout -q -b side; echo y >g; git add g; git commit -q -m side; git checkout -q "
        "coder; echo z >h; git add h; git commit -q -m mine; git merge -q side -m merged; "
        "git checkout -q -b third HEAD~1; echo 3 >i; git add i; git commit -q -m third; "
        "git rebase -q coder; echo 4 >>i; git stash -q; git stash list | wc -l; git stash pop -q; "
        "git commit -q -a -m fourth; git fetch -q ./other.git; git log -1 --format=%s FETCH_HEAD; "
        "git -c gc.auto=1 gc --auto; git log --format=%s -3 | cat; test $(git "
        "rev-parse HEAD@{1}) = $(git rev-parse HEAD~1) && echo logged");
    CHECK(trim(said) == "1\nother\nfourth\nthird\nmerged\nlogged");
    git(world, "cd " + world.root + "/main; git log --format=%s third | grep -q fourth; git fsck");
}

TEST_CASE("what is read-only in a repository keeps out links that a user's git would follow") {
    World world;
    make_worktree(world, "main", world.workspace("coder"));
    allow(world);
    const std::string main = world.root + "/main";
    const std::string common = main + "/.git";
    const std::string own = common + "/worktrees/coder";
    const std::string profile = world.root + "/profile";
    for (int i = 1; i <= 5; ++i) {
        write_text(profile + std::to_string(i), "alias ll=ls\n");
    }
    git(world,
        "mkdir " + world.root + "/private; touch -d 2001-01-01 " + world.root +
            "/private/tmp_letter; cd " + main + "; git branch -m trunk");
    world.start();
    world.launch("coder");
    // A place of each kind that git writes to by its path, through a link.
    const std::string notes = common + "/objects/info";
    const std::string pack = common + "/objects/pack";
    std::string plant = std::string("exec 2>/dev/null; git checkout -q -b 'x;touch${IFS}y'; ") +
                        "echo y >>f; " + kIdentity + "commit -q -a -m second; ";
    plant += "mkdir -p " + common + "/logs/refs/heads; ln -sf " + profile + "1 " + common +
             "/logs/refs/heads/trunk; ";
    plant += "ln -sf " + profile + "2 " + own + "/logs/HEAD; ";
    plant += "ln -s " + profile + "3 " + notes + "/commit-graph; ";
    plant += "mv " + pack + " " + pack + "s; ln -s " + world.root + "/private " + pack + "; ";
    plant += "ln -sf " + profile + "4 " + own + "/gitdir; ";
    plant += "ln -sf " + profile + "5 " + own + "/commondir; cat " + own + "/commondir";
    CHECK(trim(world.ask("coder", plant)) == "../..");
    git(world,
        "cd " + main + "; " + kIdentity + "merge -q 'x;touch${IFS}y'; git log -1 --format=%s | " +
            "grep -q second; " + kIdentity + "branch -m 'x;touch${IFS}y' named; " + kIdentity +
            "gc -q --prune=now; git worktree list | grep -q " + world.workspace("coder") +
            "; git worktree prune; git worktree move " + world.workspace("coder") + " " +
            world.root + "/moved; git status; git worktree list | grep -q moved");
    for (int i = 1; i <= 5; ++i) {
        CAPTURE(i);
        CHECK(read_text(profile + std::to_string(i)) == "alias ll=ls\n");
    }
    const Finished listed = run({"/bin/ls", world.root + "/private"}, world.environment());
    CHECK(trim(listed.out) == "tmp_letter");
    git(world, "mv " + world.root + "/moved " + world.workspace("coder"));
}

TEST_CASE("a repository in which a session left a link is not bound again") {
    World world;
    make_worktree(world, "main", world.workspace("coder"));
    allow(world);
    const std::string link = world.root + "/main/.git/refs/heads/d";
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    CHECK(trim(world.ask("coder", "ln -s " + world.root + "/home " + link + "; echo planted")) ==
          "planted");
    world.stop_run(run);
    world.wait_log("end", run);
    world.launch("coder");
    const std::string said = link + " is a link, which your own git would follow: remove it";
    CHECK_CONTAINS(world.host_log(), said);
    CHECK_CONTAINS(world.mosaic({"sandbox", "show", "coder", "--business", "acme"}).out, said);
    CHECK(trim(world.ask("coder", "git status >/dev/null 2>&1 && echo works || echo fails")) ==
          "fails");
}

TEST_CASE("a repository in which a session left a FIFO or settings for later is not bound again") {
    World world;
    make_worktree(world, "main", world.workspace("coder"));
    allow(world);
    const std::string common = world.root + "/main/.git";

    struct Left {
        std::string path;
        std::string how;
        std::string said;
    };

    world.start();
    for (const Left& left :
         {Left{common + "/refs/heads/d", "mkfifo", " is neither a file nor a directory"},
          Left{common + "/objects/aa/b",
               "mkdir -p " + common + "/objects/aa; mkfifo",
               " is neither a file nor a directory"},
          Left{common + "/worktrees/coder/config.worktree", "touch", ", which git makes only"}}) {
        CAPTURE(left.path);
        const std::string run = text(world.launch("coder"), "run");
        CHECK(trim(world.ask("coder", left.how + " " + left.path + "; git status -s; echo left")) ==
              "left");
        world.stop_run(run);
        world.wait_log("end", run);
        const std::string again = text(world.launch("coder"), "run");
        CHECK_CONTAINS(world.host_log(), left.path + left.said);
        CHECK(trim(world.ask("coder", "ls " + common + " 2>/dev/null || echo hidden")) == "hidden");
        world.stop_run(again);
        world.wait_log("end", again);
        git(world, "rm " + left.path);
    }
}

TEST_CASE("a repository is not bound for a session that may nest sandboxes") {
    World world;
    make_worktree(world, "main", world.workspace("coder"));
    world.system.set("sandbox", object({{"gitCommonDir", true}, {"nested", true}}));
    world.write_config();
    world.start();
    world.launch("coder");
    const std::string said = "although sandbox.gitCommonDir is on: sandbox.nested is on, too";
    CHECK_CONTAINS(world.host_log(), said);
    CHECK_CONTAINS(world.mosaic({"sandbox", "show", "coder", "--business", "acme"}).out, said);
    CHECK_CONTAINS(world.mosaic({"doctor", "--business", "acme"}).out, said);
    const std::string common = world.root + "/main/.git";
    CHECK(trim(world.ask("coder", "ls " + common + " 2>/dev/null || echo hidden")) == "hidden");
}

TEST_CASE("a repository that one role lays for another is not bound") {
    World world;
    allow(world);
    world.start();
    world.launch("coder");
    const std::string theirs = world.workspace("coder") + "/r";
    CHECK(trim(world.ask("coder",
                         "mkdir -p r/objects/info r/objects/pack r/refs r/logs r/worktrees/x; "
                         "echo >r/config; echo ../.. >r/worktrees/x/commondir; echo " +
                             world.workspace("tester") +
                             "/.git >r/worktrees/x/gitdir; echo laid")) == "laid");
    std::string run = text(world.launch("tester"), "run");
    CHECK(trim(world.ask("tester", "echo gitdir: " + theirs + "/worktrees/x >.git; echo named")) ==
          "named");
    world.stop_run(run);
    world.wait_log("end", run);
    world.launch("tester");
    CHECK(trim(world.ask("tester", "ls " + theirs + " 2>/dev/null || echo hidden")) == "hidden");
    const std::string said =
        theirs + " lies in the workspace of coder, " + world.workspace("coder");
    CHECK_CONTAINS(world.host_log(), said);
    CHECK_CONTAINS(world.mosaic({"sandbox", "show", "tester", "--business", "acme"}).out, said);
}
