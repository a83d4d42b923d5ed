#include "cli/would_be_run.h"

#include <algorithm>

#include "harness/bundle.h"
#include "harness/route.h"
#include "process/own_program.h"
#include "registry/layout.h"
#include "sandbox/environment.h"
#include "sandbox/workspace.h"
#include "sandbox/worktree.h"
#include "wire/json.h"

namespace mosaic::cli {
namespace {

std::string variable(const config::Environment& env, const char* name) {
    const auto found = env.find(name);
    return found == env.end() ? std::string() : found->second;
}

class Builder {
  public:
    Builder(const Setting& setting, const config::Instance& instance, const RunPlace& place)
        : setting_(setting), instance_(instance), place_(place) {}

    Result<WouldBeRun> build() {
        read_contract();
        choose_route();
        open_workspace();
        set_paths();
        const harness::RunFacts facts{place_.run,
                                      Seat{instance_.name, ""},
                                      false,
                                      setting_.business,
                                      instance_,
                                      route_,
                                      paths_,
                                      contract_,
                                      setting_.system.limits.session};
        MOSAIC_TRY(add_environment());
        if (has_route_) {
            warn_of_tools();
            add_host_paths(facts);
            MOSAIC_TRY(add_files(facts));
        }
        add_binds();
        out_.namespaces = {"user", "pid", "ipc", "uts", "cgroup", "mount"};
        if (instance_.network == config::Network::none) {
            out_.namespaces.emplace_back("net");
        }
        out_.network = config::to_string(instance_.network);
        for (const std::string& warning : setting_.layout.warnings) {
            out_.warnings.push_back(warning);
        }
        if (!git_warning_.empty()) {
            out_.warnings.push_back(git_warning_);
        }
        return std::move(out_);
    }

  private:
    void refuse(Refusal code, std::string reason) {
        out_.refused.push_back({code, std::move(reason)});
    }

    void read_contract() {
        auto text = config::load_contract(setting_.system, instance_);
        if (!text) {
            refuse(Refusal::no_role_contract, text.error().text);
            return;
        }
        contract_ = std::move(*text);
    }

    void choose_route() {
        auto choice = harness::choose_route(instance_, setting_.modules, setting_.env);
        if (const auto* refusal = std::get_if<harness::RouteRefusal>(&choice)) {
            refuse(refusal->code, refusal->reason);
            return;
        }
        route_ = std::move(std::get<harness::ChosenRoute>(choice));
        has_route_ = true;
        out_.harness = route_.route.harness;
        out_.route = route_.route.harness + ", " + route_.route.provider + ", " +
                     route_.route.model + ", thinking " + route_.route.thinking + " (" +
                     route_.reason + ")";
    }

    [[nodiscard]] std::vector<sandbox::Place> places() const {
        sandbox::PlaceFacts facts;
        facts.layout = &setting_.layout;
        facts.home = variable(setting_.env, "HOME");
        facts.config_home = variable(setting_.env, "XDG_CONFIG_HOME");
        facts.data_roots = {setting_.data_root, setting_.system.data_root};
        facts.config_dirs = {setting_.system.directory};
        facts.config_files = {setting_.system.file, setting_.business.file};
        facts.roles_dir = setting_.system.roles_dir;
        facts.contracts = config::contract_paths(setting_.system, setting_.business);
        facts.plugin_dirs = setting_.system.plugin_dirs;
        for (const auto& [name, module] : setting_.modules.modules) {
            facts.module_dirs.push_back(module.directory);
        }
        for (const char* name : {"mosaic-broker", "mosaic-runner"}) {
            if (auto path = process::find_beside(name)) {
                facts.programs.push_back(std::move(*path));
            }
        }
        if (route_.program) {
            facts.programs.push_back(route_.program->real);
        }
        for (const auto& [name, helper] : route_.helpers) {
            facts.programs.push_back(helper.real);
        }
        for (const auto& [name, other] : setting_.business.roles) {
            if (name != instance_.name) {
                facts.others.push_back({name, other.workspace, other.shared_workspace});
            }
        }
        facts.shared = instance_.shared_workspace;
        return sandbox::resolve_places(sandbox::forbidden_places(facts));
    }

    void open_workspace() {
        auto opened = sandbox::open_workspace(instance_.workspace, places());
        if (!opened) {
            refuse(opened.error().code, opened.error().reason);
            workspace_ = instance_.workspace;
            inside_ = workspace_;
            return;
        }
        workspace_ = opened->path;
        inside_ = opened->inside;
        const config::SandboxOptions& options = setting_.system.sandbox;
        sandbox::GitFinding git = sandbox::look_at_git(
            *opened, {.common_dir = options.git_common_dir, .nested = options.nested}, places());
        extra_ = std::move(git.binds);
        out_.git_fds = std::move(git.fds);
        git_warning_ = std::move(git.warning);
        out_.workspace = std::move(*opened);
    }

    void set_paths() {
        paths_.run_dir =
            place_.run_dir.empty()
                ? registry::run_dir(setting_.data_root, {setting_.business.id, place_.run})
                : place_.run_dir;
        paths_.bundle = registry::join(paths_.run_dir, registry::kBundle);
        paths_.home = registry::join(paths_.run_dir, registry::kRwHome);
        paths_.tool_socket = registry::join(paths_.run_dir, registry::kToolSocket);
        paths_.turn_marker = registry::join(paths_.run_dir, registry::kTurnMarker);
        paths_.session_dir = registry::join(paths_.run_dir, registry::kRwSession);
        paths_.workspace = inside_;
        paths_.broker_socket = registry::bus_socket_path(setting_.data_root);
        paths_.launch_socket = instance_.may_launch()
                                   ? registry::launch_socket_path(setting_.data_root)
                                   : std::string();
    }

    Result<void> add_environment() {
        sandbox::EnvironmentSpec wanted;
        wanted.host = &setting_.env;
        wanted.run = place_.run;
        wanted.run_dir = paths_.run_dir;
        wanted.path_dirs = harness::path_directories(route_);
        wanted.provider = route_.variables;
        wanted.pass_env = setting_.system.sandbox.pass_env;
        MOSAIC_TRY_ASSIGN(const sandbox::SessionEnvironment env,
                          sandbox::session_environment(wanted));
        for (const std::string& entry : env.variables) {
            out_.variables.push_back(entry.substr(0, entry.find('=')));
        }
        out_.environment = env.variables;
        out_.warnings = env.warnings;
        for (const sandbox::CaPath& ca : env.ca_paths) {
            add_mounts(ca.path, "the certificates that " + ca.variable + " names", false);
        }
        return {};
    }

    // A name that the module doesn't know grants nothing, and nothing else would say so.
    void warn_of_tools() {
        const auto module = setting_.modules.modules.find(route_.route.harness);
        if (module == setting_.modules.modules.end()) {
            return;
        }
        for (const std::string& tool : instance_.tools) {
            if (!module->second.tools.contains(tool)) {
                out_.warnings.push_back("limits.tools of " + instance_.name + ": harness module " +
                                        route_.route.harness + " has no tool \"" + tool +
                                        "\"; it grants nothing");
            }
        }
    }

    void add_mounts(const std::string& path, const std::string& reason, bool optional) {
        auto mounts = sandbox::mounts_for(setting_.layout, path, reason);
        if (mounts) {
            extra_.insert(extra_.end(), mounts->begin(), mounts->end());
        } else if (!optional || mounts.error().code != Code::missing) {
            refuse(Refusal::sandbox_unavailable, mounts.error().text);
        }
    }

    void add_host_paths(const harness::RunFacts& facts) {
        const auto paths = harness::host_paths(facts);
        if (!paths) {
            refuse(Refusal::sandbox_unavailable, paths.error().text);
            return;
        }
        for (const harness::HostPath& path : *paths) {
            add_mounts(path.path, path.reason, path.optional);
        }
    }

    Result<void> add_files(const harness::RunFacts& facts) {
        MOSAIC_TRY_ASSIGN(const std::vector<harness::BundleContent> bundle,
                          harness::bundle_files(facts));
        for (const harness::BundleContent& file : bundle) {
            out_.files.push_back({registry::join(registry::kBundle, file.name), file.content});
        }
        out_.files.push_back({std::string(registry::kSessionFile),
                              json::dump_pretty(harness::session_file(facts).to_value())});
        return {};
    }

    void add_binds() {
        sandbox::SandboxSpec spec;
        spec.layout = setting_.layout;
        spec.run_dir = paths_.run_dir;
        spec.stage_dir = place_.stage_dir.empty()
                             ? registry::join(registry::stage_dir(setting_.data_root), "STAGE")
                             : place_.stage_dir;
        spec.workspace = workspace_;
        spec.workspace_inside = inside_;
        spec.bus_socket = paths_.broker_socket;
        spec.launch_socket = paths_.launch_socket;
        spec.extra = extra_;
        spec.shm_bytes = setting_.system.limits.shm_bytes;
        out_.binds = sandbox::binds(spec);
        if (!setting_.layout.missing.empty()) {
            refuse(Refusal::sandbox_unavailable, setting_.layout.missing);
        }
    }

    const Setting& setting_;
    const config::Instance& instance_;
    const RunPlace& place_;
    WouldBeRun out_;
    std::string contract_;
    harness::ChosenRoute route_;
    bool has_route_ = false;
    std::string workspace_;  // real path
    std::string inside_;     // where the session has it
    harness::RunPaths paths_;
    std::string git_warning_;
    std::vector<sandbox::Bind> extra_;
};

}  // namespace

Result<WouldBeRun> would_be_run(const Setting& setting,
                                const config::Instance& instance,
                                const RunPlace& place) {
    return Builder(setting, instance, place).build();
}

}  // namespace mosaic::cli
