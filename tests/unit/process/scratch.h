#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/unique_fd.h"
#include "process/files.h"

namespace mosaic::test {

// Whose ids a test takes that must not be root's.
constexpr uid_t kOrdinaryUser = 65534;

// A directory of its own for one test, gone afterwards. Not under /tmp, and reachable by any user.
class Scratch {
  public:
    explicit Scratch(const std::string& above = "/var/tmp") : above_(above) {
        std::string pattern = above + "/mosaic-process-XXXXXX";
        REQUIRE(::mkdtemp(pattern.data()) != nullptr);
        path_ = pattern;
        REQUIRE(::chmod(path_.c_str(), 0755) == 0);
        fd_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        REQUIRE(fd_.valid());
    }

    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    ~Scratch() {
        const UniqueFd above(::open(above_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        ignore(process::remove_tree(above.get(), path_.substr(path_.rfind('/') + 1)),
               "the test has ended");
    }

    [[nodiscard]] const std::string& path() const { return path_; }

    [[nodiscard]] std::string at(const std::string& name) const { return path_ + "/" + name; }

    [[nodiscard]] int fd() const { return fd_.get(); }

    void directory(const std::string& name, mode_t mode = 0755) const {
        REQUIRE(::mkdir(at(name).c_str(), 0700) == 0);
        REQUIRE(::chmod(at(name).c_str(), mode) == 0);
    }

    void file(const std::string& name, const std::string& content = "", mode_t mode = 0644) const {
        const UniqueFd file(
            ::open(at(name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        REQUIRE(file.valid());
        REQUIRE(::write(file.get(), content.data(), content.size()) ==
                static_cast<ssize_t>(content.size()));
        REQUIRE(::fchmod(file.get(), mode) == 0);
    }

    void link(const std::string& target, const std::string& name) const {
        REQUIRE(::symlink(target.c_str(), at(name).c_str()) == 0);
    }

    [[nodiscard]] bool exists(const std::string& name) const {
        struct stat info {};

        return ::lstat(at(name).c_str(), &info) == 0;
    }

  private:
    std::string above_;
    std::string path_;
    UniqueFd fd_;
};

// Effective ids of an ordinary user for the test's time, where the test runs as root. Modes mean
// nothing to root.
class AsOrdinaryUser {
  public:
    AsOrdinaryUser() : was_root_(::geteuid() == 0) {
        if (was_root_) {
            REQUIRE(::setegid(kOrdinaryUser) == 0);
            REQUIRE(::seteuid(kOrdinaryUser) == 0);
        }
    }

    AsOrdinaryUser(const AsOrdinaryUser&) = delete;
    AsOrdinaryUser& operator=(const AsOrdinaryUser&) = delete;

    ~AsOrdinaryUser() {
        if (was_root_) {
            CHECK(::seteuid(0) == 0);
            CHECK(::setegid(0) == 0);
        }
    }

  private:
    bool was_root_;
};

// Thousands of directories are made in memory where that is possible: a disk's journal would make
// the test slow and prove nothing more.
inline std::string fast_place() {
    return ::access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/var/tmp";
}

// d/d/d/...: too deep for any path, so by descriptors.
inline void make_chain(int parent, int levels, mode_t mode = 0755) {
    UniqueFd at(::openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    UniqueFd above;
    for (int i = 0; i < levels; ++i) {
        REQUIRE(::mkdirat(at.get(), "d", 0755) == 0);
        UniqueFd next(::openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        REQUIRE(next.valid());
        REQUIRE(::fchmod(at.get(), i == 0 ? 0755 : mode) == 0);
        at = std::move(next);
    }
    REQUIRE(::fchmod(at.get(), mode) == 0);
}

// Few descriptors for the test's time: opens past `limit` fail.
class DescriptorLimit {
  public:
    explicit DescriptorLimit(rlim_t limit) {
        REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
        rlimit now = before_;
        now.rlim_cur = limit;
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &now) == 0);
    }

    DescriptorLimit(const DescriptorLimit&) = delete;
    DescriptorLimit& operator=(const DescriptorLimit&) = delete;

    ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

  private:
    rlimit before_{};
};

}  // namespace mosaic::test
