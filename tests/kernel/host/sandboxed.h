#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "process/spawn.h"
#include "rig.h"
#include "sandbox/status.h"

namespace mosaic::test {

// Real bwrap with the namespaces that a session has; `binds` come before the command.
[[nodiscard]] std::vector<std::string> bwrap_argv(const std::vector<std::string>& binds,
                                                  const std::vector<std::string>& command);

// Whether bwrap works here. When it doesn't: says why (or fails the test, see skip).
[[nodiscard]] bool bwrap_works();

// A program that we started, in a session and so a process group of its own. Kills that group at
// its end, and what it was told to kill besides.
class Started {
  public:
    // `descriptors` as in process::SpawnSpec; 3 is the status pipe.
    explicit Started(const std::vector<std::string>& argv,
                     const std::vector<std::pair<int, int>>& descriptors = {});
    Started(const Started&) = delete;
    Started& operator=(const Started&) = delete;
    ~Started();

    [[nodiscard]] pid_t pid() const { return child_->pid(); }

    [[nodiscard]] int pidfd() const { return child_->pidfd(); }

    // The read end of bwrap's status pipe.
    [[nodiscard]] int status_pipe() const { return status_pipe_.get(); }

    // Reads what the status pipe has now; false at its end.
    bool read_status();

    // bwrap's child, once told.
    [[nodiscard]] std::optional<pid_t> inner() const { return status_.child_pid(); }

    // Waits until the pid of bwrap's child came and that child runs the program with this name.
    void wait_for_inner(const std::string& comm);

    // Waits for its end and reaps it.
    void finish();

  private:
    std::optional<process::Spawned> child_;
    UniqueFd status_pipe_;
    sandbox::StatusParser status_;
    bool finished_ = false;
};

}  // namespace mosaic::test
