#pragma once

#include <string>

#include "cli/command.h"
#include "cli/would_be_run.h"
#include "config/config.h"
#include "harness/module.h"
#include "sandbox/layout.h"

// What `sandbox show` and `doctor` read of this machine before they judge.

namespace mosaic::cli {

// Everything a Setting points into.
struct Machine {
    config::SystemConfig system;
    config::Business business;
    harness::ModuleSet modules;
    sandbox::Layout layout;
    std::string data_root;

    [[nodiscard]] Setting setting(const config::Environment& env) const {
        return {system, business, env, modules, layout, data_root};
    }
};

// The business that the command is about: --business, else the only file of businesses/ beside the
// system file. The Failure has the exit code: 3 for a bad file, 4 when it isn't clear which.
[[nodiscard]] tl::expected<config::Business, Failure> choose_business(
    const Context& context, const config::SystemConfig& system);

// The modules that the system file switches on, shipped ones included.
[[nodiscard]] harness::ModuleSet load_modules(const config::SystemConfig& system);

[[nodiscard]] tl::expected<Machine, Failure> read_machine(const Context& context);

}  // namespace mosaic::cli
