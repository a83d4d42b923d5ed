#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "config/config.h"
#include "harness/module.h"
#include "host/data_root.h"
#include "host/stage.h"
#include "sandbox/control_groups.h"
#include "sandbox/layout.h"
#include "sandbox/workspace.h"
#include "wire/messages.h"

namespace mosaic::host {

struct Programs {
    std::string broker;
    std::string runner;
};

// Where mosaic-broker and mosaic-runner are: beside this program, or in ../libexec/mosaic.
[[nodiscard]] Result<Programs> find_programs();

// Where the configuration comes from, as the command line says it.
struct SettingsSource {
    std::string business;  // an id, or a file's path
    std::string config;    // the system file; empty: the usual places
    std::string data;      // the data root; empty: below dataRoot
    config::Environment env;
};

// What was read at the start or at the last change, and launches are decided by. Replaced whole or
// not at all; whoever needs some of it for longer than one event keeps a copy.
struct Settings {
    SettingsSource source;
    config::SystemConfig system;
    config::Business business;
    std::string system_text;  // the files as they were read or written; empty: there is no file
    std::string business_text;
    config::Environment env;
    std::string shipped;  // the directory of the shipped modules
    harness::ModuleSet modules;
    sandbox::Layout layout;
    UniqueFd seccomp;      // the file of sandbox::program_file
    int landlock_abi = 0;  // of this kernel
    // The control groups of this host's runs: the same for all settings of one host.
    std::shared_ptr<sandbox::RunGroups> groups = std::make_shared<sandbox::RunGroups>();
    Programs programs;
    // The staged tree of each module; "" is any of them, or one without a module, for the probe.
    std::map<std::string, std::string> stages;
    // Where no workspace may be, and where each instance's own is, by real path (and by its own,
    // where that is a link). Found once: the search costs some hundred system calls and ten more
    // for each instance, and what it looks at is the operator's.
    std::vector<sandbox::Place> places;
    std::map<std::string, std::vector<std::string>> workspaces;
};

// Reads the files, the modules and what this machine has. Says on the log what doesn't keep a host
// from running. Everything but `stages`, `places` and `workspaces`. `living` are those of the host
// that runs, if any: its programs are where they were, also when an update has replaced the host's
// own file.
[[nodiscard]] Result<Settings> read_settings(const SettingsSource& source,
                                             const Settings* living = nullptr);

// The same settings once more, to make changed ones of them.
[[nodiscard]] Result<Settings> copy_settings(const Settings& settings);

// The system file, or where it would be.
[[nodiscard]] std::string system_file_of(const Settings& settings);

// Loads the modules that are switched on, anew.
void load_modules(Settings& settings);

// Finds `places` and `workspaces`.
void resolve_places(Settings& settings, const DataRoot& root);

// Where the workspace of this instance must not be: `places`, and the workspaces of all others.
[[nodiscard]] std::vector<sandbox::Place> places_of(const Settings& settings,
                                                    const config::Instance& instance);

// Whether the way to this instance's contract leads over places that are all known: a link that was
// laid since may lead into a workspace, where a session would write what the next one is told.
[[nodiscard]] bool contract_is_known(const Settings& settings, const config::Instance& instance);

// Says which staged tree each module that loaded has, and returns those that aren't laid yet.
[[nodiscard]] Result<std::vector<StagedTree>> plan_stages(Settings& settings, const DataRoot& root);

// The same, and lays them. Blocking: before the loop runs.
[[nodiscard]] Result<void> stage_modules(Settings& settings, const DataRoot& root);

// Prepares what every session is hardened with: the system call filter, and what the kernel has.
[[nodiscard]] Result<void> prepare_hardening(Settings& settings);

// Once, at the start, by the one host of its data root, before it has any child: takes up what of
// control groups was delegated, and says on the log what there is. From then on this process may be
// in another group than it was started in.
void take_groups(Settings& settings);

// sandbox.nested may be on here. Asked after take_groups.
[[nodiscard]] Result<void> check_nested(const Settings& settings);

// What the broker decides by must fit one frame of the control pair, with the news of a change.
// Code::invalid, naming the business file.
[[nodiscard]] Result<void> check_broker_config(const Settings& settings);

// What the broker decides by.
[[nodiscard]] wire::BrokerConfig broker_config(const Settings& settings);

}  // namespace mosaic::host
