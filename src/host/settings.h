#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "config/config.h"
#include "harness/module.h"
#include "host/data_root.h"
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

// What was read at the start and launches are decided by.
struct Settings {
    config::SystemConfig system;
    config::Business business;
    config::Environment env;
    harness::ModuleSet modules;
    sandbox::Layout layout;
    UniqueFd seccomp;      // the file of sandbox::program_file
    int landlock_abi = 0;  // of this kernel
    Programs programs;
    // The staged tree of each module; "" is any of them, or one without a module, for the probe.
    std::map<std::string, std::string> stages;
    // Where each instance's workspace must not be, by real path. Found once: the search costs some
    // hundred system calls, and what it looks at is the operator's.
    std::map<std::string, std::vector<sandbox::Place>> places;
};

// Finds the places of every instance.
void resolve_places(Settings& settings, const DataRoot& root);

// Lays the staged trees of all modules that loaded.
[[nodiscard]] Result<void> stage_modules(Settings& settings, const DataRoot& root);

// Prepares what every session is hardened with: the system call filter, and what the kernel has.
[[nodiscard]] Result<void> prepare_hardening(Settings& settings);

// What the broker decides by.
[[nodiscard]] wire::BrokerConfig broker_config(const Settings& settings);

}  // namespace mosaic::host
