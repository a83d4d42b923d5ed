// Goal: what a session wrote is counted whatever shape it has, and nothing else is. Method: real
// trees; figures are compared with what the kernel says of each file, so any file system will do.
#include "process/measure_tree.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "scratch.h"

using namespace mosaic;
using namespace mosaic::process;
using namespace mosaic::test;

namespace {

constexpr int kDeep = 20'000;
constexpr uint64_t kEntry = 512;
constexpr uint64_t kAll = UINT64_MAX;

uint64_t blocks_of(const Scratch& scratch, const std::string& name) {
    struct stat facts {};

    REQUIRE(::lstat(scratch.at(name).c_str(), &facts) == 0);
    return static_cast<uint64_t>(facts.st_blocks) * 512;
}

TreeUse use_of(const Scratch& scratch, const std::string& name, uint64_t enough = kAll) {
    const auto use = measure_tree(scratch.fd(), name, enough);
    REQUIRE(use.has_value());
    return *use;
}

// In a child: its user and namespaces are its own.
template <class Body>
int status_of(const Body& body) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(body());
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("every file and directory counts with its blocks and its entry") {
    const Scratch scratch;
    scratch.directory("tree");
    scratch.directory("tree/a");
    scratch.file("tree/a/large", std::string(300'000, 'x'));
    scratch.file("tree/small", "x");
    scratch.file("tree/empty");
    uint64_t expected = 0;
    for (const char* name : {"tree", "tree/a", "tree/a/large", "tree/small", "tree/empty"}) {
        expected += kEntry + blocks_of(scratch, name);
    }
    CHECK(use_of(scratch, "tree").bytes == expected);
    CHECK(use_of(scratch, "tree").unread == 0);
    CHECK(use_of(scratch, "none").bytes == 0);
    CHECK_FALSE(measure_tree(scratch.fd(), "tree/a", kAll).has_value());
}

TEST_CASE("links are not followed and special files are not opened") {
    const Scratch scratch;
    scratch.directory("outside");
    scratch.file("outside/large", std::string(1'000'000, 'x'));
    scratch.directory("tree");
    const uint64_t before = use_of(scratch, "tree").bytes;
    scratch.link(scratch.at("outside"), "tree/link");
    scratch.link(scratch.at("outside/large"), "tree/file-link");
    scratch.link("..", "tree/up");
    REQUIRE(::mkfifo(scratch.at("tree/fifo").c_str(), 0600) == 0);
    CHECK(use_of(scratch, "tree").bytes < before + 300'000);
    scratch.link("outside", "link");
    CHECK(use_of(scratch, "link").bytes == 0);
}

TEST_CASE("a file with several names counts once") {
    const Scratch scratch;
    scratch.directory("tree");
    scratch.file("tree/one", std::string(400'000, 'x'));
    const uint64_t before = use_of(scratch, "tree").bytes;
    REQUIRE(::link(scratch.at("tree/one").c_str(), scratch.at("tree/two").c_str()) == 0);
    REQUIRE(::link(scratch.at("tree/one").c_str(), scratch.at("tree/three").c_str()) == 0);
    CHECK(use_of(scratch, "tree").bytes <= before + 3 * kEntry);
}

TEST_CASE("a hole takes no room") {
    const Scratch scratch;
    scratch.directory("tree");
    scratch.file("tree/hole");
    REQUIRE(::truncate(scratch.at("tree/hole").c_str(), off_t{1} << 40) == 0);
    CHECK(use_of(scratch, "tree").bytes < uint64_t{1} << 30);
}

TEST_CASE("a tree 20,000 levels deep is measured whole with a few descriptors") {
    const Scratch scratch(fast_place());
    scratch.directory("tree");
    const UniqueFd tree(::open(scratch.at("tree").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    make_chain(tree.get(), kDeep);
    scratch.file("tree/beside", std::string(4'000'000, 'x'));
    const int lowest = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
    ::close(lowest);
    const DescriptorLimit limit(static_cast<rlim_t>(lowest + 20));
    const uint64_t bytes = use_of(scratch, "tree").bytes;
    CHECK(bytes >= kDeep * kEntry + 4'000'000);
    CHECK(bytes <= kDeep * (kEntry + 8192) + 5'000'000);
}

TEST_CASE("wide directories below deep ones are read to their end") {
    const Scratch scratch(fast_place());
    std::string path = "tree";
    scratch.directory(path);
    uint64_t entries = 1;
    // Each level is wider than one read of a directory, so the walk comes back into the middle.
    for (int level = 0; level < 20; ++level) {
        for (int i = 0; i < 60; ++i) {
            scratch.directory(path + "/" + std::string(200, 'x') + std::to_string(i));
            ++entries;
        }
        path += "/d";
        scratch.directory(path);
        ++entries;
    }
    const uint64_t bytes = use_of(scratch, "tree").bytes;
    CHECK(bytes >= entries * kEntry);
    const uint64_t blocks = blocks_of(scratch, "tree");
    CHECK(bytes <= entries * (kEntry + std::max<uint64_t>(blocks, 4096)));
}

TEST_CASE("counting stops when enough is found") {
    const Scratch scratch(fast_place());
    scratch.directory("tree");
    for (int i = 0; i < 2000; ++i) {
        scratch.file("tree/" + std::to_string(i));
    }
    const uint64_t bytes = use_of(scratch, "tree", 100 * kEntry).bytes;
    CHECK(bytes >= 100 * kEntry);
    CHECK(bytes < 1000 * kEntry);
}

TEST_CASE("directories without mode bits are looked into by a process that may") {
    const Scratch scratch;
    scratch.directory("open", 0777);
    const int status = status_of([&] {
        if (::geteuid() == 0 && (::setgid(kOrdinaryUser) != 0 || ::setuid(kOrdinaryUser) != 0 ||
                                 ::prctl(PR_SET_DUMPABLE, 1) != 0)) {
            return 76;
        }
        const std::string shut = scratch.at("open/tree/shut");
        if (::mkdir(scratch.at("open/tree").c_str(), 0700) != 0 ||
            ::mkdir(shut.c_str(), 0700) != 0 || ::mkdir((shut + "/d").c_str(), 0700) != 0) {
            return 76;
        }
        {
            const UniqueFd file(
                ::open((shut + "/d/f").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
            const std::string text(500'000, 'x');
            if (::write(file.get(), text.data(), text.size()) !=
                static_cast<ssize_t>(text.size())) {
                return 76;
            }
        }
        if (::chmod((shut + "/d").c_str(), 0000) != 0 || ::chmod(shut.c_str(), 0000) != 0) {
            return 76;
        }
        const UniqueFd parent(
            ::open(scratch.at("open").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        const auto blind = measure_tree(parent.get(), "tree", kAll);
        if (!blind || blind->unread != 1 || blind->bytes >= 500'000) {
            return 1;
        }
        if (!see_into_own_directories()) {
            return 77;
        }
        const auto seen = measure_tree(parent.get(), "tree", kAll);

        struct stat facts {};

        const bool unchanged = ::lstat(shut.c_str(), &facts) == 0 && (facts.st_mode & 07777U) == 0;
        return seen && seen->unread == 0 && seen->bytes >= 500'000 && unchanged ? 0 : 2;
    });
    if (status == 77) {
        MESSAGE("skipped: no user namespace here");
        return;
    }
    CHECK(status == 0);
}

TEST_CASE("another mount in the tree is not counted") {
    const Scratch scratch;
    scratch.directory("kept");
    scratch.file("kept/large", std::string(900'000, 'x'));
    scratch.directory("tree");
    scratch.directory("tree/mount");
    const int status = status_of([&] {
        if (::unshare(CLONE_NEWNS) != 0 ||
            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount(scratch.at("kept").c_str(),
                    scratch.at("tree/mount").c_str(),
                    nullptr,
                    MS_BIND,
                    nullptr) != 0) {
            return 77;
        }
        const UniqueFd parent(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        const auto use = measure_tree(parent.get(), "tree", kAll);
        return use && use->bytes < 500'000 ? 0 : 1;
    });
    if (status == 77) {
        MESSAGE("skipped: no mount namespace here");
        return;
    }
    CHECK(status == 0);
}

TEST_CASE("a tree that moves about while it is measured ends the measuring all the same") {
    const Scratch scratch(fast_place());
    scratch.directory("tree");
    const UniqueFd tree(::open(scratch.at("tree").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    make_chain(tree.get(), 200);
    scratch.directory("tree/other");
    const std::string from = scratch.at("tree/d/d/d/d");
    const std::string to = scratch.at("tree/other/d");
    const pid_t mover = ::fork();
    if (mover == 0) {
        for (;;) {
            ::rename(from.c_str(), to.c_str());
            ::rename(to.c_str(), from.c_str());
        }
    }
    for (int i = 0; i < 50; ++i) {
        CHECK(use_of(scratch, "tree").bytes > 0);
    }
    ::kill(mover, SIGKILL);
    REQUIRE(::waitpid(mover, nullptr, 0) == mover);
}
