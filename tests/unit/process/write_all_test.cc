// Goal: what is written arrives whole, and what can't be written is an error with its name. Method:
// a pipe of one page whose reader interrupts the writer; a full device; a pipe without a reader.

#include "process/write_all.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <thread>

#include "base/unique_fd.h"

using namespace mosaic;

namespace {

struct Pipe {
    UniqueFd read;
    UniqueFd write;

    Pipe() {
        std::array<int, 2> ends{};
        REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
        read.reset(ends[0]);
        write.reset(ends[1]);
    }
};

// Gives a signal this handler while it lives.
class Handler {
  public:
    Handler(int signal, void (*handler)(int)) : signal_(signal) {
        struct sigaction action {};

        action.sa_handler = handler;  // no SA_RESTART: what it interrupts ends
        REQUIRE(::sigaction(signal, &action, &before_) == 0);
    }

    ~Handler() { ::sigaction(signal_, &before_, nullptr); }

    Handler(const Handler&) = delete;
    Handler& operator=(const Handler&) = delete;

  private:
    int signal_;

    struct sigaction before_ {};
};

}  // namespace

TEST_CASE("all of it arrives, whatever interrupts the write") {
    const Handler handler(SIGUSR1, [](int) {});
    Pipe pipe;
    REQUIRE(::fcntl(pipe.write.get(), F_SETPIPE_SZ, 4096) == 4096);
    std::string sent;
    for (int i = 0; sent.size() < size_t{512} * 1024; ++i) {
        sent += std::to_string(i) + " ";
    }
    std::string came;
    const pthread_t writer = ::pthread_self();
    std::thread reader([&] {
        std::array<char, 4096> piece{};
        for (;;) {
            ::pthread_kill(writer, SIGUSR1);
            const ssize_t got = ::read(pipe.read.get(), piece.data(), piece.size());
            if (got <= 0) {
                return;
            }
            came.append(piece.data(), static_cast<size_t>(got));
        }
    });
    const auto written = process::write_all(pipe.write.get(), sent, "pipe");
    pipe.write.reset();
    reader.join();
    CHECK(written.has_value());
    CHECK((came == sent));
}

TEST_CASE("nothing to write is no error, whatever it is written to") {
    CHECK(process::write_all(-1, "", "nothing").has_value());
}

TEST_CASE("what can't be written is an error that names the file") {
    const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    REQUIRE(full.valid());
    const auto no_room = process::write_all(full.get(), "x", "write file");
    REQUIRE_FALSE(no_room.has_value());
    CHECK(no_room.error().sys == ENOSPC);
    CHECK(no_room.error().text == "write file: No space left on device");

    const Handler ignored(SIGPIPE, SIG_IGN);
    Pipe pipe;
    pipe.read.reset();
    const auto nobody = process::write_all(pipe.write.get(), "x", "standard output");
    REQUIRE_FALSE(nobody.has_value());
    CHECK(nobody.error().sys == EPIPE);
}
