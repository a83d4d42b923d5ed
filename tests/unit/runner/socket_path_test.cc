// Goal: who holds the path of a socket reaches the very file that was there, and no other.

#include "runner/socket_path.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

using namespace mosaic;
using namespace mosaic::runner;

namespace {

class Scratch {
  public:
    Scratch() {
        REQUIRE(::mkdtemp(path_.data()) != nullptr);
        fd_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }

    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    ~Scratch() { std::filesystem::remove_all(path_); }

    [[nodiscard]] UniqueFd listen(const std::string& name) const {
        auto listening = listen_in(fd_.get(), name, 4);
        REQUIRE(listening.has_value());
        return std::move(*listening);
    }

    [[nodiscard]] std::string operator/(const std::string& name) const {
        return path_ + "/" + name;
    }

  private:
    std::string path_ = MOSAIC_BUILD_DIR "/socket-path-XXXXXX";
    UniqueFd fd_;
};

bool was_connected(const UniqueFd& listener) {
    return UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)).valid();
}

}  // namespace

TEST_CASE("a socket that took the place of another gets no connection") {
    const Scratch scratch;
    const UniqueFd first = scratch.listen("s");
    SocketPath path(scratch / "s");
    CHECK_FALSE(path.connect().has_value());
    REQUIRE(path.take().has_value());
    const UniqueFd second = scratch.listen("s");
    REQUIRE(path.take().has_value());
    CHECK(path.connect().has_value());
    CHECK(was_connected(first));
    CHECK_FALSE(was_connected(second));
}

TEST_CASE("a link in the socket's place is not followed") {
    const Scratch scratch;
    const UniqueFd other = scratch.listen("other");
    std::filesystem::create_symlink("other", scratch / "s");
    SocketPath path(scratch / "s");
    ignore(path.take(), "a link can be held, too; it leads nowhere");
    CHECK_FALSE(path.connect().has_value());
    CHECK_FALSE(was_connected(other));
}

TEST_CASE("a listening socket is its user's alone and replaces what was there") {
    const Scratch scratch;
    const mode_t before = ::umask(0);
    const UniqueFd first = scratch.listen("s");
    const UniqueFd second = scratch.listen("s");
    ::umask(before);

    struct stat facts {};

    REQUIRE(::stat((scratch / "s").c_str(), &facts) == 0);
    CHECK((facts.st_mode & 07777) == 0600);
    CHECK(connect_to(scratch / "s").has_value());
    CHECK(was_connected(second));
}
