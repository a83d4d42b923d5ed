// The file operations on the real ring, in the order in which a file is replaced durably.

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "fixture.h"

using namespace reactor_test;

namespace {

// A directory of its own below the build directory, removed at the end.
class Scratch {
  public:
    Scratch() : path_(MOSAIC_BUILD_DIR "/reactor-XXXXXX") {
        REQUIRE(::mkdtemp(path_.data()) != nullptr);
        fd_.reset(::open(path_.c_str(), O_DIRECTORY | O_RDONLY | O_CLOEXEC));
        REQUIRE(fd_.valid());
    }

    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    ~Scratch() { std::filesystem::remove_all(path_); }

    [[nodiscard]] int fd() const { return fd_.get(); }

    [[nodiscard]] std::string file(const char* name) const { return path_ + "/" + name; }

  private:
    std::string path_;
    UniqueFd fd_;
};

}  // namespace

TEST_CASE("a file is made, written, synced, closed, renamed and removed by the ring") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    const Scratch scratch;
    Op op;
    ring->mkdirat(op, scratch.fd(), "sub", 0700);
    CHECK(finish(*ring, op) == 0);
    CHECK(std::filesystem::is_directory(scratch.file("sub")));

    ring->openat(op, scratch.fd(), "sub/new", O_CREAT | O_EXCL | O_WRONLY, 0600);
    const int32_t opened = finish(*ring, op);
    REQUIRE(opened >= 0);
    CHECK((::fcntl(opened, F_GETFD) & FD_CLOEXEC) != 0);

    struct stat status {};

    REQUIRE(::fstat(opened, &status) == 0);
    CHECK((status.st_mode & 07777) == 0600);

    // Twice: the second write goes on where the first ended.
    ring->write(op, opened, "first ", 6);
    CHECK(finish(*ring, op) == 6);
    ring->write(op, opened, "second", 6);
    CHECK(finish(*ring, op) == 6);
    ring->fsync(op, opened);
    CHECK(finish(*ring, op) == 0);
    ring->close(op, opened);
    CHECK(finish(*ring, op) == 0);
    CHECK(::fcntl(opened, F_GETFD) == -1);

    ring->renameat(op, scratch.fd(), "sub/new", scratch.fd(), "final");
    CHECK(finish(*ring, op) == 0);
    ring->fsync(op, scratch.fd());
    CHECK(finish(*ring, op) == 0);

    ring->openat(op, scratch.fd(), "final", O_RDONLY, 0);
    const UniqueFd again(finish(*ring, op));
    REQUIRE(again.valid());
    std::array<char, 64> content{};
    ring->read(op, again.get(), content.data(), 8);
    CHECK(finish(*ring, op) == 8);
    ring->read(op, again.get(), content.data() + 8, content.size() - 8);
    CHECK(finish(*ring, op) == 4);
    CHECK(std::string(content.data(), 12) == "first second");

    ring->unlinkat(op, scratch.fd(), "final", 0);
    CHECK(finish(*ring, op) == 0);
    ring->unlinkat(op, scratch.fd(), "sub", AT_REMOVEDIR);
    CHECK(finish(*ring, op) == 0);
    CHECK(std::filesystem::is_empty(scratch.file("")));
}

TEST_CASE("a file operation that fails completes with its errno") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    const Scratch scratch;
    Op op;
    ring->openat(op, scratch.fd(), "missing", O_RDONLY, 0);
    CHECK(finish(*ring, op) == -ENOENT);
    ring->mkdirat(op, scratch.fd(), "sub", 0700);
    CHECK(finish(*ring, op) == 0);
    ring->mkdirat(op, scratch.fd(), "sub", 0700);
    CHECK(finish(*ring, op) == -EEXIST);
    ring->renameat(op, scratch.fd(), "missing", scratch.fd(), "b");
    CHECK(finish(*ring, op) == -ENOENT);
    ring->unlinkat(op, scratch.fd(), "sub", 0);
    CHECK(finish(*ring, op) == -EISDIR);
    ring->openat(op, scratch.fd(), "sub", O_RDONLY | O_DIRECTORY, 0);
    const UniqueFd directory(finish(*ring, op));
    REQUIRE(directory.valid());
    char byte = 0;
    ring->read(op, directory.get(), &byte, 1);
    CHECK(finish(*ring, op) == -EISDIR);
    ring->fsync(op, -1);
    CHECK(finish(*ring, op) == -EBADF);
    ring->close(op, -1);
    CHECK(finish(*ring, op) == -EBADF);
}

TEST_CASE("a write to a full device completes with ENOSPC") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    REQUIRE(full.valid());
    Op op;
    ring->write(op, full.get(), "x", 1);
    CHECK(finish(*ring, op) == -ENOSPC);
}
