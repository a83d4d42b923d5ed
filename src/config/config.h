#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "wire/json.h"
#include "wire/session_file.h"

// What the operator wrote: the system file and a business file, read whole and checked whole before
// anything starts. An error names the file, the JSON pointer and what was expected. Relative paths
// in a file are relative to that file's directory; here they are absolute. docs/configuration.md is
// the operator's page of the same.

namespace mosaic::config {

using Environment = std::map<std::string, std::string>;

// Our own environment as a map. The first of two equal names counts.
[[nodiscard]] Environment current_environment();

// `limits` of the system file. JSON names in brackets.
struct Limits {
    int64_t runner_pid_ms = 5'000;     // from the spawn to the runner's pid [runnerPidMs]
    int64_t claim_ms = 10'000;         // from the spawn to the claim [claimMs]
    int64_t stop_timeout_ms = 10'000;  // host stop, and stop's default [stopTimeoutMs]
    int64_t setup_in_flight = 0;       // launches set up at once, 0: two per core [setupInFlight]
    int64_t setup_wait_ms = 60'000;    // waiting for set-up before `busy` [setupWaitMs]
    int64_t shm_bytes = int64_t{64} * 1024 * 1024;  // /dev/shm of a session [shmBytes]
    // Of a run's control group, where there are such; 0: no limit [memoryBytes]
    int64_t memory_bytes = int64_t{4} * 1024 * 1024 * 1024;
    int64_t runs_kept = 200;                                    // ended run directories [runsKept]
    int64_t runs_kept_days = 30;                                // 0: any age [runsKeptDays]
    int64_t run_disk_bytes = int64_t{10} * 1024 * 1024 * 1024;  // of a run's rw/ [runDiskBytes]
    int64_t disk_check_seconds = 60;                            // [diskCheckSeconds]
    wire::SessionLimits
        session;  // [turnSeconds, turnGraceMs, replyBytes, brokerRetries, processes,
                  //  openFiles]

    bool operator==(const Limits&) const = default;
};

struct SandboxOptions {
    std::string bwrap = "/usr/bin/bwrap";
    std::vector<std::string> pass_env;  // names of host variables that sessions get [passEnv]
    bool git_common_dir = false;        // [gitCommonDir]
    bool nested = false;                // [nested]

    bool operator==(const SandboxOptions&) const = default;
};

struct SystemConfig {
    std::string file;       // where it was read from; empty: there was none, all defaults
    std::string directory;  // of the file, or where it would be; business files lie below it
    std::string data_root;  // parent of the businesses' data roots [dataRoot]
    std::string roles_dir;  // [rolesDir], default <directory>/roles
    std::vector<std::string> plugins_harness;  // modules switched on [plugins.harness]
    // Where modules are looked up, in order [pluginDirs]. The directory of the shipped modules
    // isn't in it: who looks modules up appends it.
    std::vector<std::string> plugin_dirs;
    std::string user;  // whom a host started as root becomes [user]
    Limits limits;
    SandboxOptions sandbox;
    std::vector<std::string>
        notify;                // a program and its arguments, run when the human is needed [notify]
    int64_t metrics_port = 0;  // of 127.0.0.1; 0: none [metrics.port]

    bool operator==(const SystemConfig&) const = default;
};

struct Route {
    std::string harness;
    std::string provider;
    std::string model;
    std::string thinking;

    bool operator==(const Route&) const = default;
};

enum class Network {
    host,
    none,
};

[[nodiscard]] std::string_view to_string(Network network);

struct Authority {
    std::vector<std::string> within_role;
    std::vector<std::string> cross_role;
    std::vector<std::string> gated;

    bool operator==(const Authority&) const = default;
};

// One named seat of the business file's `roles`.
struct Instance {
    std::string name;
    std::string definition;         // <roles_dir>/<definition>.md is its contract
    std::string workspace;          // absolute, as the operator wrote it (links not resolved)
    bool shared_workspace = false;  // [sharedWorkspace]
    int64_t warm = 0;               // [warm]
    std::optional<Route> route;     // nothing when one of its four vars is missing
    std::optional<Route> fallback;
    std::vector<std::string> tools;  // limits.tools
    std::vector<std::string> typed;  // limits.typed
    Network network = Network::host;
    // The modules' own, "script.command" and the like. Two of one module never have the same
    // variable_name.
    std::map<std::string, std::string> vars;
    Authority authority;

    bool operator==(const Instance&) const = default;

    // Its authority holds role.launch (free, across roles or gated) and its limits.typed holds
    // launch.
    [[nodiscard]] bool may_launch() const;
};

struct ModelLimit {
    std::string provider;
    std::string model;
    int64_t max = 0;

    bool operator==(const ModelLimit&) const = default;
};

struct LaunchConfig {
    std::string by;
    std::vector<std::string> instances;
    std::vector<ModelLimit> models;
    int64_t account_max = 0;  // 0: no such limit [accountMax]

    bool operator==(const LaunchConfig&) const = default;
};

struct Business {
    std::string file;
    std::string id;
    std::string human;
    std::map<std::string, std::string> arbiters;
    std::map<std::string, Instance> roles;
    std::optional<LaunchConfig> launch;

    bool operator==(const Business&) const = default;

    [[nodiscard]] const Instance* find(const std::string& instance) const;
    // In launch.instances, or launch.by.
    [[nodiscard]] bool is_launchable(const std::string& instance) const;
};

// How a module's own var reaches its adapter: "script.command" is MOSAIC_VAR_SCRIPT_COMMAND.
// Letters become capitals, everything else but digits becomes '_'.
[[nodiscard]] std::string variable_name(std::string_view var);

// Where the system file is looked for: `given` (from --config), else $MOSAIC_CONFIG, else
// $XDG_CONFIG_HOME/mosaic/system.json, else $HOME/.config/mosaic/system.json. An XDG variable that
// isn't an absolute path is ignored, as the XDG base directory specification says. Code::missing
// when HOME would be needed and isn't set to an absolute path.
[[nodiscard]] Result<std::string> system_file_path(const std::string& given,
                                                   const Environment& env);

// A path of the command line or the environment, absolute: a relative one is meant from the working
// directory. Links and dots stay as they are. Fails when there is no working directory any more.
[[nodiscard]] Result<std::string> absolute_path(const std::string& path);

// Pure: from a document's text. `path` is absolute, for errors and relative paths. The environment
// gives what dataRoot is when the document doesn't say: $XDG_STATE_HOME/mosaic, else
// $HOME/.local/state/mosaic.
[[nodiscard]] Result<SystemConfig> parse_system(std::string_view text,
                                                const std::string& path,
                                                const Environment& env);
[[nodiscard]] Result<Business> parse_business(std::string_view text, const std::string& path);

// Reads, checks who may write the file and the directories that hold it (process/files.h,
// check_trusted), parses, and checks rolesDir and pluginDirs the same way. A system file that does
// not exist is all defaults, unless it was named by --config or $MOSAIC_CONFIG; so is a default
// rolesDir. `text`, when it isn't null, gets what was read (empty: there is no file), for who wants
// to tell later whether the file is still the same.
[[nodiscard]] Result<SystemConfig> load_system(const std::string& given,
                                               const Environment& env,
                                               std::string* text = nullptr);

// Whether a business is named by its file's path, not by its id: it holds a '/' or ends in .json.
[[nodiscard]] bool is_business_path(std::string_view name);

// `name` is an id (businesses/<id>.json beside the system file, whose id must be that) or a path.
[[nodiscard]] Result<Business> load_business(const std::string& name,
                                             const SystemConfig& system,
                                             std::string* text = nullptr);

// Where the contract of an instance's definition lies.
[[nodiscard]] std::string contract_path(const SystemConfig& system, const Instance& instance);

// Those of all roles of the business, each once.
[[nodiscard]] std::vector<std::string> contract_paths(const SystemConfig& system,
                                                      const Business& business);

// Reads it, checked like a configuration file: who may write it tells the next session what to do.
// At most 1 MiB. Code::missing when there is none.
[[nodiscard]] Result<std::string> load_contract(const SystemConfig& system,
                                                const Instance& instance);

// `--data`, else <dataRoot>/<business>. Pure.
[[nodiscard]] std::string data_root_of(const SystemConfig& system,
                                       const std::string& given,
                                       const std::string& business);

}  // namespace mosaic::config
