#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/ids.h"

// The names of everything below a data root, in one place. Pure joins: the ids that go in were
// checked against their pattern by whoever brought them (base/ids.h), so no name can climb out of
// its parent.
//
//     <data root>/
//       bus-host/            lock, sessions.json, broker.sqlite, *.sock, stage/<sha256>/
//       launches/            <business>.jsonl, <business>/<run>/
//       threads/             <business>/<instance>/<thread>/
//       shells/              what `mosaic sandbox shell` uses while it runs
//
// Directories are 0700, files and sockets 0600.

namespace mosaic::registry {

constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kFileMode = 0600;

// One path segment each, below bus-host.
constexpr std::string_view kBusHost = "bus-host";
constexpr std::string_view kLock = "lock";
constexpr std::string_view kSessions = "sessions.json";
// What sessions.json is written as before it is renamed. A leftover of a crash is removed, never
// read.
constexpr std::string_view kSessionsTemporary = "sessions.json.tmp";
constexpr std::string_view kBrokerStore = "broker.sqlite";
constexpr std::string_view kLaunchSocket = "launch.sock";
constexpr std::string_view kBusSocket = "bus.sock";
constexpr std::string_view kAdminSocket = "admin.sock";
constexpr std::string_view kStage = "stage";
// Below the data root.
constexpr std::string_view kLaunches = "launches";
constexpr std::string_view kThreads = "threads";
constexpr std::string_view kShells = "shells";

// Below a run directory. What the session may write lies below kRw, and nothing else does.
constexpr std::string_view kSessionFile = "session.json";
constexpr std::string_view kRunnerLog = "runner.log";
constexpr std::string_view kBundle = "bundle";
constexpr std::string_view kManifest = "bundle/manifest.json";
constexpr std::string_view kPrompt = "bundle/prompt.md";
constexpr std::string_view kPolicy = "bundle/policy.json";
constexpr std::string_view kTools = "bundle/tools.json";
constexpr std::string_view kRw = "rw";
constexpr std::string_view kRwHome = "rw/home";
constexpr std::string_view kRwTmp = "rw/tmp";
constexpr std::string_view kRwSession = "rw/session";
constexpr std::string_view kRwTurns = "rw/turns";
constexpr std::string_view kRwIo = "rw/io";
constexpr std::string_view kToolSocket = "rw/io/tools.sock";
constexpr std::string_view kTurnMarker = "rw/io/turn.done";

// Below a thread's directory: its session directory.
constexpr std::string_view kThreadSession = "session";

// "<parent>/<name>"; `parent` may end in a slash.
[[nodiscard]] std::string join(std::string_view parent, std::string_view name);

[[nodiscard]] std::string bus_host_dir(std::string_view data_root);
[[nodiscard]] std::string lock_path(std::string_view data_root);
[[nodiscard]] std::string sessions_path(std::string_view data_root);
[[nodiscard]] std::string broker_store_path(std::string_view data_root);
[[nodiscard]] std::string launch_socket_path(std::string_view data_root);
[[nodiscard]] std::string bus_socket_path(std::string_view data_root);
[[nodiscard]] std::string admin_socket_path(std::string_view data_root);
// The staged runner trees; each is a directory named by the SHA-256 of its content.
[[nodiscard]] std::string stage_dir(std::string_view data_root);

[[nodiscard]] std::string launches_dir(std::string_view data_root);
// The launch log below it: <business>.jsonl.
[[nodiscard]] std::string launch_log_name(std::string_view business);
// launches/<business>: the parent of the business's run directories.
[[nodiscard]] std::string runs_dir(std::string_view data_root, std::string_view business);

struct RunName {
    std::string_view business;
    std::string_view run;
};

[[nodiscard]] std::string run_dir(std::string_view data_root, RunName name);

struct ThreadName {
    std::string_view business;
    std::string_view instance;
    std::string_view thread;
};

// threads/<business>/<instance>/<thread>
[[nodiscard]] std::string thread_dir(std::string_view data_root, ThreadName name);

}  // namespace mosaic::registry
