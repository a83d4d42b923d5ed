#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sandbox/bind.h"
#include "sandbox/layout.h"

// What one session sees, and the command line of bubblewrap that builds it. Pure.

namespace mosaic::sandbox {

// Descriptor numbers in the outer bwrap: 0 the runner's stdin, 1 and 2 runner.log.
constexpr int kStatusFd = 3;
constexpr int kWorkspaceFd = 4;
constexpr int kSeccompFd = 5;
constexpr int kGateFd = 6;

// Where the staged runner tree lies inside, and the runner in it.
constexpr const char* kStagePath = "/run/mosaic";
constexpr const char* kRunnerPath = "/run/mosaic/mosaic-runner";

// All paths are absolute; run_dir, stage_dir, workspace, the sockets and thread_store are real
// paths (no link on their way), for a path inside must lead to the same place as outside.
struct SandboxSpec {
    Layout layout;
    std::string run_dir;    // holds session.json, bundle/, runner.log and rw/{home,tmp,...}
    std::string stage_dir;  // the content-addressed runner tree on the host
    std::string workspace;  // of the directory that workspace_fd names
    // Where the session has it; empty: at its real path. Another place only where that one isn't
    // UTF-8.
    std::string workspace_inside;
    int workspace_fd = kWorkspaceFd;
    std::string bus_socket;
    std::string launch_socket;  // empty: this role may not launch
    std::string thread_store;   // empty: no thread run
    // The module's mounts, CA files (mounts_for makes them), read-only spots inside the workspace.
    std::vector<Bind> extra;
    int64_t shm_bytes = int64_t{64} * 1024 * 1024;  // size of /dev/shm
};

// In mount order: /tmp first, then by depth, so that a parent is mounted before what lies in it
// wherever the paths lie; equal depth keeps the order of this file. The root and /dev become
// read-only at the end. A read-only bind or a link that another bind already brings is left out,
// and so is a second one of the same thing: bwrap reads the whole mount table for each bind, so
// each costs time.
[[nodiscard]] std::vector<Bind> binds(const SandboxSpec& spec);

// The ordering and thinning of binds() by itself.
[[nodiscard]] std::vector<Bind> in_mount_order(std::vector<Bind> list);

// The binds of the layout alone, and /proc and /dev: the part that all sessions share and the probe
// tries.
[[nodiscard]] std::vector<Bind> system_binds(const Layout& layout, int64_t shm_bytes);

struct BwrapOptions {
    std::string bwrap = "/usr/bin/bwrap";
    std::string directory;      // working directory inside: the run directory
    bool network_none = false;  // a network namespace of its own, with loopback only
    bool nested = false;        // leaves user namespaces allowed inside
    int seccomp_fd = -1;        // a seccomp program that bwrap loads last; -1: none
    int gate_fd = -1;           // bwrap does nothing before this one's end of file; -1: no gate
};

// The whole argv, argv[0] included. Paths may hold any byte but NUL: each stands as an argument of
// its own where bwrap expects a value. No environment and no credential ever stands here; the
// environment is bwrap's own.
[[nodiscard]] std::vector<std::string> bwrap_argv(const BwrapOptions& options,
                                                  const std::vector<Bind>& list,
                                                  const std::vector<std::string>& command);

// {kRunnerPath, run_dir}
[[nodiscard]] std::vector<std::string> runner_command(const std::string& run_dir);

}  // namespace mosaic::sandbox
