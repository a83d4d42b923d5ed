#include "host/settings.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "host/log.h"
#include "process/files.h"
#include "process/own_program.h"
#include "registry/layout.h"
#include "sandbox/hardening.h"
#include "sandbox/seccomp.h"
#include "wire/json.h"
#include "wire/limits.h"

namespace mosaic::host {

Result<Programs> find_programs() {
    MOSAIC_TRY_ASSIGN(const std::string broker, process::find_beside("mosaic-broker"));
    MOSAIC_TRY_ASSIGN(const std::string runner, process::find_beside("mosaic-runner"));
    Programs programs;
    MOSAIC_TRY_ASSIGN(programs.broker, process::real_path(broker));
    MOSAIC_TRY_ASSIGN(programs.runner, process::real_path(runner));
    return programs;
}

std::string system_file_of(const Settings& settings) {
    return settings.system.file.empty() ? settings.system.directory + "/system.json"
                                        : settings.system.file;
}

void load_modules(Settings& settings) {
    settings.modules = harness::load_modules(settings.system, settings.shipped);
    for (const auto& [name, problem] : settings.modules.problems) {
        log_line("harness module " + name + " can't be used: " + problem);
    }
}

Result<Settings> read_settings(const SettingsSource& source, const Settings* living) {
    Settings out;
    out.source = source;
    out.env = source.env;
    MOSAIC_TRY_ASSIGN(out.system, config::load_system(source.config, source.env, &out.system_text));
    MOSAIC_TRY_ASSIGN(out.business,
                      config::load_business(source.business, out.system, &out.business_text));
    if (living != nullptr) {
        out.programs = living->programs;
        out.shipped = living->shipped;
        out.groups = living->groups;
    } else {
        MOSAIC_TRY_ASSIGN(out.programs, find_programs());
        MOSAIC_TRY_ASSIGN(const std::string self, process::real_path("/proc/self/exe"));
        out.shipped = harness::shipped_directory(self);
    }
    load_modules(out);
    MOSAIC_TRY_ASSIGN(out.layout, sandbox::read_layout());
    for (const std::string& warning : out.layout.warnings) {
        log_line("warning: " + warning);
    }
    MOSAIC_TRY(check_broker_config(out));
    MOSAIC_TRY(prepare_hardening(out));
    if (living != nullptr) {
        MOSAIC_TRY(check_nested(out));
    }
    return out;
}

Result<Settings> copy_settings(const Settings& settings) {
    Settings out;
    out.source = settings.source;
    out.system = settings.system;
    out.business = settings.business;
    out.system_text = settings.system_text;
    out.business_text = settings.business_text;
    out.env = settings.env;
    out.shipped = settings.shipped;
    out.modules = settings.modules;
    out.layout = settings.layout;
    out.seccomp.reset(::fcntl(settings.seccomp.get(), F_DUPFD_CLOEXEC, 0));
    if (!out.seccomp.valid()) {
        return fail_sys(errno, "a descriptor for the system call filter");
    }
    out.landlock_abi = settings.landlock_abi;
    out.groups = settings.groups;
    out.programs = settings.programs;
    out.stages = settings.stages;
    out.places = settings.places;
    out.workspaces = settings.workspaces;
    return out;
}

void resolve_places(Settings& settings, const DataRoot& root) {
    sandbox::PlaceFacts facts;
    facts.layout = &settings.layout;
    const auto variable = [&](const char* name) {
        const auto found = settings.env.find(name);
        return found == settings.env.end() ? std::string() : found->second;
    };
    facts.home = variable("HOME");
    facts.config_home = variable("XDG_CONFIG_HOME");
    facts.data_roots = {root.path, settings.system.data_root};
    facts.config_dirs = {settings.system.directory};
    facts.config_files = {settings.system.file, settings.business.file};
    facts.roles_dir = settings.system.roles_dir;
    facts.contracts = config::contract_paths(settings.system, settings.business);
    facts.plugin_dirs = settings.system.plugin_dirs;
    for (const auto& [name, module] : settings.modules.modules) {
        facts.module_dirs.push_back(module.directory);
    }
    facts.programs = {settings.programs.broker, settings.programs.runner};
    settings.places = sandbox::resolve_places(sandbox::forbidden_places(facts));
    settings.workspaces.clear();
    for (const auto& [name, instance] : settings.business.roles) {
        std::vector<std::string>& paths = settings.workspaces[name];
        for (const sandbox::Place& place : sandbox::resolve_places(
                 {sandbox::Place{.path = instance.workspace, .what = sandbox::kWorkspaceOf}})) {
            paths.push_back(place.path);
        }
    }
}

std::vector<sandbox::Place> places_of(const Settings& settings, const config::Instance& instance) {
    std::vector<sandbox::Place> out = settings.places;
    for (const auto& [name, other] : settings.business.roles) {
        if (name == instance.name) {
            continue;
        }
        for (const std::string& path : settings.workspaces.at(name)) {
            out.push_back(sandbox::workspace_place({name, path, other.shared_workspace},
                                                   instance.shared_workspace));
        }
    }
    return out;
}

bool contract_is_known(const Settings& settings, const config::Instance& instance) {
    const auto way = sandbox::resolve_places(
        {sandbox::Place{.path = config::contract_path(settings.system, instance), .what = ""}});
    return std::all_of(way.begin(), way.end(), [&](const sandbox::Place& place) {
        return std::any_of(settings.places.begin(),
                           settings.places.end(),
                           [&](const sandbox::Place& known) { return known.path == place.path; });
    });
}

Result<std::vector<StagedTree>> plan_stages(Settings& settings, const DataRoot& root) {
    std::vector<StagedTree> missing;
    const auto plan = [&](const std::vector<harness::StagedFile>& files) -> Result<std::string> {
        MOSAIC_TRY_ASSIGN(StagedTree tree, plan_tree(settings.programs.runner, files));
        std::string path = registry::join(registry::stage_dir(root.path), tree.digest);
        const bool known = std::any_of(missing.begin(), missing.end(), [&](const auto& one) {
            return one.digest == tree.digest;
        });
        if (!known && !is_laid(root.stage.get(), tree)) {
            missing.push_back(std::move(tree));
        }
        return path;
    };
    settings.stages.clear();
    for (const auto& [name, module] : settings.modules.modules) {
        MOSAIC_TRY_ASSIGN(settings.stages[name], plan(harness::stage_plan(module)));
    }
    if (settings.stages.empty()) {
        MOSAIC_TRY_ASSIGN(settings.stages[""], plan({}));
    } else {
        settings.stages[""] = settings.stages.begin()->second;
    }
    return missing;
}

Result<void> stage_modules(Settings& settings, const DataRoot& root) {
    MOSAIC_TRY_ASSIGN(const auto missing, plan_stages(settings, root));
    for (const StagedTree& tree : missing) {
        MOSAIC_TRY(lay_tree(root.stage.get(), tree));
    }
    return {};
}

Result<void> prepare_hardening(Settings& settings) {
    MOSAIC_TRY_ASSIGN(
        const std::string program,
        sandbox::seccomp_program(sandbox::session_filter(settings.system.sandbox.nested)));
    MOSAIC_TRY_ASSIGN(settings.seccomp, sandbox::program_file(program));
    settings.landlock_abi = sandbox::landlock_abi();
    return {};
}

void take_groups(Settings& settings) {
    auto files = std::make_unique<sandbox::GroupFiles>();
    auto delegation = sandbox::find_delegation_of(*files, ::getpid());
    settings.groups =
        std::make_shared<sandbox::RunGroups>(std::move(files), std::move(delegation), ::getpid());
    const config::Limits& limits = settings.system.limits;
    log_line(settings.groups->level({limits.memory_bytes, limits.session.processes}).reason);
}

Result<void> check_nested(const Settings& settings) {
    if (!settings.system.sandbox.nested) {
        return {};
    }
    sandbox::GroupFiles files;
    const std::string danger = sandbox::nested_danger_of(files, ::getpid(), settings.groups->on());
    if (!danger.empty()) {
        return fail(Code::unsafe, "sandbox.nested: " + danger + "; " + sandbox::kNestedRemedy);
    }
    return {};
}

Result<void> check_broker_config(const Settings& settings) {
    constexpr size_t kBytesMax = limits::kFrameBytesMax - limits::kConfigNewsBytesMax - 4096;
    const size_t bytes = json::dump(broker_config(settings).to_value()).size();
    if (bytes > kBytesMax) {
        return fail(Code::invalid,
                    settings.business.file + ": /roles: what the broker has to know of " +
                        std::to_string(settings.business.roles.size()) + " roles takes " +
                        std::to_string(bytes) + " bytes; at most " + std::to_string(kBytesMax) +
                        " fit");
    }
    return {};
}

wire::BrokerConfig broker_config(const Settings& settings) {
    wire::BrokerConfig out;
    out.business = settings.business.id;
    out.human = settings.business.human;
    for (const auto& [name, instance] : settings.business.roles) {
        out.roles.push_back({name,
                             instance.authority.within_role,
                             instance.authority.cross_role,
                             instance.authority.gated});
    }
    if (settings.business.launch) {
        out.launch_by = settings.business.launch->by;
        out.launch_instances = settings.business.launch->instances;
    }
    for (const auto& [name, module] : settings.modules.modules) {
        out.modules.push_back(name);
    }
    return out;
}

}  // namespace mosaic::host
