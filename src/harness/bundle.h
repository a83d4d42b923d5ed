#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "harness/route.h"
#include "wire/session_file.h"

// What the host writes for one run and the session can't change. Pure: the host lays the files out.

namespace mosaic::harness {

// Absolute paths of one run, the same inside and outside its sandbox.
struct RunPaths {
    std::string run_dir;
    std::string bundle;        // <run_dir>/bundle
    std::string home;          // <run_dir>/rw/home
    std::string tool_socket;   // <run_dir>/rw/io/tools.sock
    std::string turn_marker;   // <run_dir>/rw/io/turn.done
    std::string session_dir;   // <run_dir>/rw/session, or session/ of the thread's store
    std::string thread_store;  // empty: not a thread run
    std::string workspace;     // where the session has it
    std::string broker_socket;
    std::string launch_socket;  // empty: this role may not launch
};

// All must outlive the call only.
struct RunFacts {
    std::string run;
    Seat seat;
    bool warm = false;
    const config::Business& business;
    const config::Instance& instance;
    const ChosenRoute& route;
    const RunPaths& paths;
    const std::string& contract;  // the definition's text
    const wire::SessionLimits& limits;
};

// One file of bundle/, by its name there.
struct BundleContent {
    std::string name;
    std::string content;

    bool operator==(const BundleContent&) const = default;
};

// prompt.md, policy.json, tools.json, gate.json when the module has a gate, and the module's own.
// Not manifest.json, which needs what the sandbox found. An error names a file of the module whose
// text isn't JSON once it is filled in (a harness would ignore such a file, its gate included).
[[nodiscard]] Result<std::vector<BundleContent>> bundle_files(const RunFacts& facts);

// session.json. `thinking` is what the module's level means to the harness, because that is what
// the runner hands to the adapter.
[[nodiscard]] wire::SessionFile session_file(const RunFacts& facts);

// What the run's programs and the module's mounts need of the host, with reasons: absolute paths as
// they are named there, links on the way to be reproduced. The error names a mount whose path can't
// be told.
struct HostPath {
    std::string path;
    std::string reason;
    bool optional = false;  // left out when it doesn't exist

    bool operator==(const HostPath&) const = default;
};

[[nodiscard]] Result<std::vector<HostPath>> host_paths(const RunFacts& facts);

// The same for the programs alone, without a run: those mounts of the module that depend on nothing
// else, all of which may be left out.
[[nodiscard]] std::vector<HostPath> program_paths(const ChosenRoute& route);

// Directories that come first in the session's PATH: those of the programs as they were found.
[[nodiscard]] std::vector<std::string> path_directories(const ChosenRoute& route);

// Where the harness writes what was said, by the module; empty when it doesn't tell.
[[nodiscard]] std::string transcript_path(const RunFacts& facts);

// The directories of the module that a thread keeps: absolute, empty when not a thread run.
[[nodiscard]] std::vector<std::string> thread_directories(const RunFacts& facts);

// The typed tools that the role has and the harness can offer.
[[nodiscard]] std::vector<std::string> granted_typed(const RunFacts& facts);

// What manifest.json records beside the run's own facts.
struct ManifestBind {
    std::string kind;
    std::string source;
    std::string dest;
    std::string reason;
};

struct ManifestLevel {
    std::string name;
    std::string level;   // "on", "off", ...
    std::string reason;  // why not more; may be empty
};

struct ManifestFacts {
    std::string harness_version;  // empty: unknown (null in the file)
    std::string bwrap_version;
    std::string mosaic_version;
    std::vector<ManifestBind> binds;
    std::vector<ManifestLevel> hardening;
};

[[nodiscard]] std::string manifest(const RunFacts& facts, const ManifestFacts& more);

}  // namespace mosaic::harness
