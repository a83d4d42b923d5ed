#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "bench/scratch.h"
#include "bench/waiter.h"
#include "process/pidfd.h"
#include "process/spawn.h"

namespace mosaic::bench {

// A mosaic-host of the scratch business, from `prefix`/bin. It is stopped, and with it all its
// sessions, by stop() or at the latest by the destructor; `scratch` and `waiter` must outlive it.
class HostProcess {
  public:
    HostProcess(const Scratch& scratch, Waiter& waiter, std::string prefix);
    HostProcess(const HostProcess&) = delete;
    HostProcess& operator=(const HostProcess&) = delete;
    ~HostProcess();

    // Starts it and waits until it says that it is ready. The error brings the end of its log.
    [[nodiscard]] Result<void> start();

    // SIGTERM; it must end with 0.
    [[nodiscard]] Result<void> stop();

    // SIGKILL. Its sessions go on; start() again makes the next host, which ends them.
    [[nodiscard]] Result<void> kill();

    [[nodiscard]] pid_t pid() const { return child_ ? child_->pid() : 0; }

    // The pid of its broker, 0 when there is none.
    [[nodiscard]] pid_t broker() const;

  private:
    [[nodiscard]] Result<void> await_ready(int notify);
    [[nodiscard]] Result<process::Exit> await_exit();
    [[nodiscard]] std::string log_end() const;

    const Scratch& scratch_;
    Waiter& waiter_;
    std::string prefix_;
    std::optional<process::Spawned> child_;
};

}  // namespace mosaic::bench
