#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "kernel/runner/scene.h"

// mosaic-runner as one of the programs that a turn starts: its input and output are one end of a
// socket pair, as Node.js makes them, its standard error a file.

namespace scene {

class Program {
  public:
    Program(std::vector<std::string> arguments,
            std::vector<std::string> env,
            std::string error_file,
            std::string directory = "/")
        : error_file_(std::move(error_file)) {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
        const UniqueFd theirs(ends[0]);
        ours_ = UniqueFd(ends[1]);
        const UniqueFd err(
            ::open(error_file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
        process::SpawnSpec spec;
        spec.argv = {MOSAIC_RUNNER};
        spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
        spec.path = MOSAIC_RUNNER;
        spec.env = std::move(env);
        spec.descriptors = {{theirs.get(), 0}, {theirs.get(), 1}, {err.get(), 2}};
        spec.directory = std::move(directory);
        auto spawned = process::spawn(spec);
        REQUIRE(spawned.has_value());
        REQUIRE(spawned->wait_exec().has_value());
        spawned_.emplace(std::move(*spawned));
    }

    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    ~Program() {
        if (spawned_) {
            ignore(process::signal_pidfd(spawned_->pidfd(), SIGKILL), "it may be gone");
            ignore(finish(), "nobody asks");
        }
    }

    // Takes the connection over; once.
    Peer peer() { return Peer(std::move(ours_)); }

    void signal(int number) {
        REQUIRE(process::signal_pidfd(spawned_->pidfd(), number).has_value());
    }

    int finish() {
        wait_readable(spawned_->pidfd());
        const auto how = process::reap(spawned_->pidfd());
        REQUIRE(how.has_value());
        spawned_.reset();
        return how->signal == 0 ? how->exit_code : 128 + how->signal;
    }

    [[nodiscard]] std::string err() const { return read_text(error_file_); }

  private:
    std::string error_file_;
    UniqueFd ours_;
    std::optional<process::Spawned> spawned_;
};

}  // namespace scene
