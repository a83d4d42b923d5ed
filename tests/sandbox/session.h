#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "probe_table.h"
#include "process/pidfd.h"
#include "process/spawn.h"
#include "sandbox/binds.h"
#include "sandbox/status.h"
#include "sandbox/workspace.h"

// A stand-in host around real bubblewrap: lays out a data root, a home with secrets and everything
// else that the probe table looks for, and starts a command where a launch would start the runner.

namespace mosaic::test {

// Where a world lies and how its parts are called.
struct WorldNames {
    std::string parent = "plain";   // below the scratch directory; everything but /tmp's lies in it
    std::string workspace = "ws";   // below the parent
    bool workspace_in_tmp = false;  // below a directory of its own in the host's /tmp instead
    bool workspace_by_link = false;  // configured through a link
};

class World {
  public:
    explicit World(const WorldNames& names = {});
    World(const World&) = delete;
    World& operator=(const World&) = delete;
    ~World();

    [[nodiscard]] const ProbePlaces& places() const { return places_; }

    // The workspace as the configuration would name it.
    [[nodiscard]] const std::string& configured_workspace() const { return configured_; }

    [[nodiscard]] const std::string& stage_dir() const { return stage_; }

    [[nodiscard]] const std::string& parent() const { return parent_; }

    // As a launch would have it; the workspace's path is filled in.
    [[nodiscard]] sandbox::SandboxSpec spec() const;

    [[nodiscard]] std::vector<std::string> environment() const;

  private:
    void lay_files();
    void lay_workspace(const WorldNames& names);
    void lay_kernel_objects();

    ProbePlaces places_;
    std::string scratch_;
    std::string tmp_;
    std::string parent_;
    std::string stage_;
    std::string configured_;
    int segment_ = -1;
    long key_ = -1;
    long kept_key_ = -1;
    std::vector<UniqueFd> sockets_;
};

struct Start {
    std::vector<std::string> argv;  // bwrap's
    std::vector<std::string> environment{};
    int workspace_fd = -1;                    // kWorkspaceFd inside; -1: none
    std::vector<std::pair<int, int>> more{};  // further descriptors, by mistake
    std::vector<std::string> before{};        // words in front of argv
    bool new_keyring = true;
};

// A started bwrap with its pipes. Kills it at the end when it still runs.
class Session {
  public:
    explicit Session(const Start& start);
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session();

    // Closes standard input, waits for the end, reads everything.
    void finish();

    // Waits until the command's output holds the text.
    void wait_for(const std::string& text);

    [[nodiscard]] int outer_pidfd() const { return pidfd_.get(); }

    // After wait_for or finish.
    [[nodiscard]] const std::string& output() const { return output_; }

    // After finish.
    [[nodiscard]] const process::Exit& exit() const { return exit_; }

    [[nodiscard]] const std::string& errors() const { return errors_; }

    [[nodiscard]] const sandbox::StatusParser& status() const { return status_; }

    // Reads what the status pipe has by now.
    void read_status();

    // As the host would record it.
    [[nodiscard]] sandbox::End end() const;

  private:
    std::optional<process::Spawned> spawned_;
    UniqueFd pidfd_;
    UniqueFd stdin_;
    UniqueFd stdout_;
    UniqueFd status_pipe_;
    UniqueFd stderr_file_;
    bool finished_ = false;
    process::Exit exit_;
    std::string output_;
    std::string errors_;
    sandbox::StatusParser status_;
};

// Whether bubblewrap works here. When it doesn't: prints why and returns false, or fails the test
// when MOSAIC_MUST_WORK is 1.
[[nodiscard]] bool sandbox_works();

// Words that make root an ordinary user; none for one who is.
[[nodiscard]] std::vector<std::string> become_ordinary();

[[nodiscard]] uid_t ordinary_uid();

}  // namespace mosaic::test
