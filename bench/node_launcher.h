#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "bench/waiter.h"
#include "process/spawn.h"
#include "wire/json.h"
#include "wire/lines.h"

namespace mosaic::bench {

// The Node.js launcher of launcher.mjs, a process of its own for all its launches. `waiter` must
// outlive it; it ends the process, after end_all() of what was launched.
class NodeLauncher {
  public:
    struct Settings {
        std::string program;           // node
        std::vector<std::string> env;  // of the sessions, "NAME=value"
        std::string workspace;
        std::string log;     // of the sessions and the launcher
        std::string record;  // where it writes down what it has launched
    };

    [[nodiscard]] static Result<std::unique_ptr<NodeLauncher>> start(const Settings& settings,
                                                                     Waiter& waiter);
    NodeLauncher(const NodeLauncher&) = delete;
    NodeLauncher& operator=(const NodeLauncher&) = delete;
    ~NodeLauncher();

    // Asks for a launch and doesn't wait. `capability` is the line for the runner's stdin.
    [[nodiscard]] Result<void> launch(const std::string& run,
                                      const std::string& run_dir,
                                      const std::vector<std::string>& argv,
                                      const std::string& capability);

    // Readable while nothing is being ended: something went wrong, and problem() says what.
    [[nodiscard]] int output() const { return answers_.get(); }

    [[nodiscard]] Error problem();

    // Kills what it has launched and waits until it has reaped all of that.
    [[nodiscard]] Result<void> end_all();

  private:
    explicit NodeLauncher(Waiter& waiter) : waiter_(waiter) {}

    [[nodiscard]] Result<void> tell(const json::Value& command);
    [[nodiscard]] Result<json::Value> answer();

    Waiter& waiter_;
    std::optional<process::Spawned> child_;
    UniqueFd commands_;
    UniqueFd answers_;
    wire::LineBuffer lines_{size_t{64} * 1024};
};

}  // namespace mosaic::bench
