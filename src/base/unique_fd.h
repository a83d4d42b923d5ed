#pragma once

#include <unistd.h>

#include <utility>

namespace mosaic {

// Owns one file descriptor and closes it. Every descriptor in this program is CLOEXEC (TRAP-08).
class UniqueFd {
  public:
    UniqueFd() = default;

    explicit UniqueFd(int fd) : fd_(fd) {}

    UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}

    UniqueFd& operator=(UniqueFd&& other) noexcept {
        if (this != &other) {
            reset(other.release());
        }
        return *this;
    }

    UniqueFd(const UniqueFd&) = delete;
    UniqueFd& operator=(const UniqueFd&) = delete;

    ~UniqueFd() { reset(); }

    [[nodiscard]] int get() const { return fd_; }

    [[nodiscard]] bool valid() const { return fd_ >= 0; }

    // Gives the descriptor away without closing it.
    [[nodiscard]] int release() { return std::exchange(fd_, -1); }

    // Closes what is held and takes `fd`. A failing close(2) is ignored: on Linux the descriptor is
    // gone either way (close(2), "Dealing with error returns from close()").
    void reset(int fd = -1) {
        const int old = std::exchange(fd_, fd);
        if (old >= 0) {
            ::close(old);
        }
    }

  private:
    int fd_ = -1;
};

}  // namespace mosaic
