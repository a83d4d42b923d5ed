// Goal: whatever a session left, the tree goes and nothing outside it is touched. Method: real
// trees of the kinds that break recursive removals.
#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "scratch.h"

using namespace mosaic;
using namespace mosaic::process;
using namespace mosaic::test;

namespace {

constexpr int kDeep = 20'000;

}  // namespace

TEST_CASE("a tree 20,000 levels deep goes with a handful of descriptors") {
    const Scratch scratch(fast_place());
    scratch.directory("tree");
    const UniqueFd tree(::open(scratch.at("tree").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    make_chain(tree.get(), kDeep);
    const int lowest = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
    ::close(lowest);
    const DescriptorLimit limit(static_cast<rlim_t>(lowest + 5));
    const auto removed = remove_tree(scratch.fd(), "tree");
    if (!removed) {
        FAIL(removed.error().text);
    }
    CHECK_FALSE(scratch.exists("tree"));
}

TEST_CASE("directories without any mode bit are ours to remove") {
    const Scratch scratch;
    scratch.directory("open", 0777);
    const AsOrdinaryUser ordinary;
    scratch.directory("open/tree");
    scratch.directory("open/tree/a");
    scratch.directory("open/tree/a/b");
    scratch.directory("open/tree/a/b/c");
    scratch.file("open/tree/a/b/c/f", "x", 0000);
    scratch.directory("open/tree/a/full");
    scratch.directory("open/tree/a/full/x");
    for (const char* shut : {"open/tree/a/b/c",
                             "open/tree/a/b",
                             "open/tree/a/full/x",
                             "open/tree/a/full",
                             "open/tree/a",
                             "open/tree"}) {
        REQUIRE(::chmod(scratch.at(shut).c_str(), 0000) == 0);
    }
    const auto parent = open_directory(scratch.at("open"));
    REQUIRE(parent.has_value());
    const auto removed = remove_tree(parent->get(), "tree");
    if (!removed) {
        FAIL(removed.error().text);
    }
    CHECK_FALSE(scratch.exists("open/tree"));
}

TEST_CASE("a deep chain of unreadable directories goes as an ordinary user") {
    const Scratch scratch(fast_place());
    scratch.directory("open", 0777);
    const AsOrdinaryUser ordinary;
    scratch.directory("open/tree");
    const UniqueFd tree(
        ::open(scratch.at("open/tree").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    make_chain(tree.get(), 500, 0000);
    const auto parent = open_directory(scratch.at("open"));
    REQUIRE(parent.has_value());
    CHECK(remove_tree(parent->get(), "tree").has_value());
    CHECK_FALSE(scratch.exists("open/tree"));
}

TEST_CASE("links are removed and never followed") {
    const Scratch scratch;
    scratch.directory("outside", 0500);
    scratch.directory("victim");
    scratch.file("victim/kept", "x");
    scratch.directory("tree");
    scratch.directory("tree/a");
    scratch.directory("tree/a/b");
    scratch.link("../victim", "tree/link");
    scratch.link(scratch.at("victim"), "tree/a/link");
    scratch.link(scratch.at("victim/kept"), "tree/a/b/link");
    scratch.link(scratch.at("outside"), "tree/a/b/mode");
    scratch.link("nowhere", "tree/a/b/dangling");
    scratch.link("..", "tree/a/b/up");
    REQUIRE(remove_tree(scratch.fd(), "tree").has_value());
    CHECK_FALSE(scratch.exists("tree"));
    CHECK(scratch.exists("victim/kept"));

    struct stat info {};

    REQUIRE(::stat(scratch.at("outside").c_str(), &info) == 0);
    CHECK((info.st_mode & 0777U) == 0500U);
}

TEST_CASE("FIFOs, sockets' names, odd names and full directories go") {
    const Scratch scratch(fast_place());
    scratch.directory("tree");
    scratch.directory("tree/a");
    REQUIRE(::mkfifo(scratch.at("tree/fifo").c_str(), 0600) == 0);
    REQUIRE(::mkfifo(scratch.at("tree/a/fifo").c_str(), 0000) == 0);
    REQUIRE(::mknod(scratch.at("tree/a/socket").c_str(), S_IFSOCK | 0600, 0) == 0);
    scratch.file("tree/a/" + std::string(255, 'n'));
    scratch.file("tree/a/\n\x01\xFF");
    scratch.directory("tree/...");
    scratch.directory("tree/a/ ");
    for (int i = 0; i < 3000; ++i) {
        scratch.file("tree/a/" + std::to_string(i));
    }
    for (int i = 0; i < 200; ++i) {
        const std::string name = "tree/a/dir" + std::to_string(i);
        scratch.directory(name);
        scratch.directory(name + "/x");
        scratch.file(name + "/x/f");
    }
    REQUIRE(remove_tree(scratch.fd(), "tree").has_value());
    CHECK_FALSE(scratch.exists("tree"));
}

TEST_CASE("a file, a link and nothing at all are removed as well") {
    const Scratch scratch;
    scratch.file("f");
    scratch.file("target");
    scratch.link("target", "l");
    CHECK(remove_tree(scratch.fd(), "f").has_value());
    CHECK(remove_tree(scratch.fd(), "l").has_value());
    CHECK(remove_tree(scratch.fd(), "none").has_value());
    CHECK_FALSE(scratch.exists("f"));
    CHECK_FALSE(scratch.exists("l"));
    CHECK(scratch.exists("target"));
}

TEST_CASE("an interrupted removal goes on from whatever it left, its own names taken included") {
    const Scratch scratch(fast_place());
    scratch.directory("tree");
    scratch.directory("tree/.removing-0");
    scratch.directory("tree/.removing-0/x");
    scratch.file("tree/.removing-0/x/f");
    scratch.file("tree/.removing-1");
    scratch.directory("tree/a");
    scratch.directory("tree/a/b");
    scratch.file("tree/a/b/f");
    REQUIRE(remove_tree(scratch.fd(), "tree").has_value());
    CHECK_FALSE(scratch.exists("tree"));

    // The process dies in the middle: after so many of the places that it moves directories to.
    for (const int moves : {0, 10, 600}) {
        scratch.directory("tree");
        const UniqueFd tree(::open(scratch.at("tree").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        make_chain(tree.get(), 1000);
        const pid_t child = ::fork();
        if (child == 0) {
            ignore(remove_tree(scratch.fd(), "tree"), "it is killed");
            ::_exit(0);
        }
        const std::string place = "tree/.removing-" + std::to_string(moves);
        while (!scratch.exists(place) && scratch.exists("tree")) {
            ::sched_yield();
        }
        ::kill(child, SIGKILL);
        REQUIRE(::waitpid(child, nullptr, 0) == child);
        CHECK(remove_tree(scratch.fd(), "tree").has_value());
        CHECK_FALSE(scratch.exists("tree"));
    }
}

TEST_CASE("what can't be removed is named and the rest of the disk is untouched") {
    const Scratch scratch;
    if (::geteuid() != 0) {
        MESSAGE("skipped: needs root to lay another user's directory");
        return;
    }
    scratch.directory("open", 0777);
    scratch.directory("open/tree");
    scratch.directory("open/tree/theirs", 0755);
    scratch.file("open/tree/theirs/f");
    REQUIRE(::chown(scratch.at("open/tree").c_str(), kOrdinaryUser, kOrdinaryUser) == 0);
    {
        const AsOrdinaryUser ordinary;
        const auto parent = open_directory(scratch.at("open"));
        REQUIRE(parent.has_value());
        const auto removed = remove_tree(parent->get(), "tree");
        REQUIRE_FALSE(removed.has_value());
        CHECK(removed.error().sys == EACCES);
        CHECK(removed.error().text == "remove tree: unlink f: Permission denied");
    }
    CHECK(scratch.exists("open/tree/theirs/f"));
}

TEST_CASE("a mount inside the tree is not emptied, at its top or below") {
    const Scratch scratch;
    scratch.directory("kept");
    scratch.file("kept/f");
    scratch.directory("kept/d");
    scratch.file("kept/d/f");
    for (const std::string place : {"tree/mount", "tree/a/mount"}) {
        CAPTURE(place);
        scratch.directory("tree");
        scratch.directory("tree/a");
        scratch.directory(place);
        // In a mount namespace of its own: the machine's mounts stay as they are.
        const pid_t child = ::fork();
        if (child == 0) {
            if (::unshare(CLONE_NEWNS) != 0 ||
                ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
                ::mount(scratch.at("kept").c_str(),
                        scratch.at(place).c_str(),
                        nullptr,
                        MS_BIND,
                        nullptr) != 0) {
                ::_exit(77);
            }
            // Anew: a descriptor from before names the other namespace's mount.
            const UniqueFd parent(
                ::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
            const auto removed = remove_tree(parent.get(), "tree");
            ::_exit(!removed && removed.error().code == Code::unsafe ? 0 : 1);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CHECK(scratch.exists("kept/f"));
        CHECK(scratch.exists("kept/d/f"));
        if (WEXITSTATUS(status) == 77) {
            MESSAGE("skipped: no mount namespace here");
            return;
        }
        CHECK(WEXITSTATUS(status) == 0);
        // With the mount gone the removal goes on.
        CHECK(remove_tree(scratch.fd(), "tree").has_value());
    }
}
