#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "bench/node_launcher.h"
#include "bench/sample.h"
#include "bench/scratch.h"
#include "bench/waiter.h"
#include "process/spawn.h"
#include "wire/lines.h"

namespace mosaic::bench {

enum class Plain {
    bwrap,  // B: bwrap with the product's arguments
    bare,   // the runner alone, without a sandbox
    node,   // B's arguments, launched by launcher.mjs; after use_node()
};

// What protects a session and costs its launch something before the runner begins.
enum class Level {
    seccomp,         // the filter of system calls
    keyring,         // an empty session keyring
    read_only_dev,   // /dev is mounted read-only last
    shared_memory,   // a /dev/shm of its own, bounded
    read_only_proc,  // /proc is mounted read-only last
    userns_closed,   // no user namespaces inside
    capabilities,    // all dropped
    read_only_root,  // "/" is mounted read-only last
    namespaces,      // IPC, UTS and cgroup; the user, PID and mount namespaces are the sandbox
};
constexpr size_t kLevels = static_cast<size_t>(Level::namespaces) + 1;

// bwrap's arguments without those that switch `level` on. Pure.
[[nodiscard]] std::vector<std::string> argv_without(const std::vector<std::string>& argv,
                                                    Level level);

// How a launch of the product looks from outside, taken from one that runs.
struct Template {
    std::string run;
    std::string run_dir;
    std::vector<std::string> argv;  // of its outer bwrap
    std::vector<std::string> env;   // the same
};

// Reads it of the only session that runs on the scratch business.
[[nodiscard]] Result<Template> read_template(const Scratch& scratch);

// Launches the product's own runner without host, broker and durability. The runner finds a run
// directory as the host writes them (all made beforehand), its capability already in the pipe, and
// this class behind bus.sock: a launch is measured from before the spawn to the claim's line read.
//
// B's arguments are the template's with these changes: one bind for each file of the staged tree
// instead of one for the tree, `setpriv --pdeathsig KILL` before the runner, and no seccomp program
// when the product has one (its descriptor can't be had from outside).
class Baseline {
  public:
    // Makes `count_max` run directories below scratch.plain(), copies of the template's: it must
    // still be running.
    [[nodiscard]] static Result<Baseline> make(const Scratch& scratch,
                                               Waiter& waiter,
                                               const Template& model,
                                               const std::string& runner,
                                               int count_max);

    // Starts the Node.js launcher with the program `node`.
    [[nodiscard]] Result<void> use_node(const Scratch& scratch, const std::string& node);

    // `count` at most count_max. The sessions are dead and reaped when it returns.
    [[nodiscard]] Result<Group> launch(Plain kind, int count, int in_flight);

    // One launch with the product's own arguments, seccomp program included, but for the levels
    // that are left out.
    [[nodiscard]] Result<Group> launch_without(const std::vector<Level>& levels);

    [[nodiscard]] bool without_seccomp() const { return without_seccomp_; }

  private:
    struct Slot {
        std::string run;
        std::string run_dir;
        std::vector<std::string> argv;          // of B's bwrap
        std::vector<std::string> whole;         // of the product's
        std::optional<process::Spawned> child;  // not of the Node.js launcher's
        UniqueFd input;                         // our end of its stdin
        Instant begin;
        bool claimed = false;
    };

    struct Connection {
        UniqueFd socket;
        std::unique_ptr<wire::LineBuffer> lines;
    };

    Baseline(Waiter& waiter, const Template& model, std::string runner);
    [[nodiscard]] Result<void> listen(const std::string& path);
    [[nodiscard]] Result<void> add_slot(const Scratch& scratch, const Template& model, int index);
    [[nodiscard]] process::SpawnSpec spec_of(const Slot& slot, Plain kind) const;
    [[nodiscard]] Result<void> start(Slot& slot, process::SpawnSpec spec);
    [[nodiscard]] Result<void> ask_node(Slot& slot);
    // Waits for whatever comes next; takes at most one claim of each connection.
    [[nodiscard]] Result<void> take(int started, Group& out);
    [[nodiscard]] Result<void> accept_all();
    [[nodiscard]] Result<void> take_lines(Connection& connection, Instant now, Group& out);
    [[nodiscard]] Result<void> end_all(int started);

    Waiter& waiter_;
    std::string runner_;
    std::vector<std::string> env_;
    std::string workspace_;
    bool without_seccomp_ = false;
    UniqueFd seccomp_;  // the program's file
    UniqueFd workspace_fd_;
    UniqueFd log_;
    UniqueFd null_;
    UniqueFd listener_;
    std::vector<Slot> slots_;
    std::vector<Connection> connections_;
    std::unique_ptr<NodeLauncher> node_;
    bool node_has_some_ = false;  // sessions that it is to end
};

}  // namespace mosaic::bench
