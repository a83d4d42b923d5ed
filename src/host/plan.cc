#include "host/plan.h"

#include <sys/random.h>

#include "base/assert.h"
#include "harness/bundle.h"
#include "host/fit.h"
#include "registry/layout.h"
#include "sandbox/binds.h"
#include "sandbox/environment.h"
#include "sandbox/hardening.h"
#include "sandbox/seccomp.h"
#include "wire/json.h"

namespace mosaic::host {
namespace {

using Step = FileJob::Step;

std::string new_run_id() {
    unsigned char random[6] = {};
    const ssize_t got = ::getrandom(static_cast<void*>(random), sizeof(random), 0);
    MOSAIC_ASSERT(got == static_cast<ssize_t>(sizeof(random)));
    return run_id_from(random);
}

harness::RunPaths paths_of(const PlanFacts& f,
                           const std::string& run,
                           const std::string& workspace) {
    const std::string& business = f.settings.business.id;
    harness::RunPaths out;
    out.run_dir = registry::run_dir(f.root.path, {business, run});
    out.bundle = registry::join(out.run_dir, registry::kBundle);
    out.home = registry::join(out.run_dir, registry::kRwHome);
    out.tool_socket = registry::join(out.run_dir, registry::kToolSocket);
    out.turn_marker = registry::join(out.run_dir, registry::kTurnMarker);
    out.session_dir = registry::join(out.run_dir, registry::kRwSession);
    const Seat& seat = f.seat;
    if (!seat.thread.empty()) {
        out.thread_store =
            registry::thread_dir(f.root.path, {business, seat.instance, seat.thread});
        out.session_dir = registry::join(out.thread_store, registry::kThreadSession);
    }
    out.workspace = workspace;
    out.broker_socket = registry::bus_socket_path(f.root.path);
    out.launch_socket =
        f.instance.may_launch() ? registry::launch_socket_path(f.root.path) : std::string();
    return out;
}

// What beyond the fixed binds this run sees: the module's programs and mounts, and CA files that a
// passed variable names.
Result<std::vector<sandbox::Bind>> extra_binds(const PlanFacts& f,
                                               const harness::RunFacts& run,
                                               const std::vector<sandbox::CaPath>& ca_paths) {
    std::vector<sandbox::Bind> out;
    const auto add =
        [&](const std::string& path, const std::string& reason, bool optional) -> Result<void> {
        auto mounts = sandbox::mounts_for(f.settings.layout, path, reason);
        if (!mounts && optional && mounts.error().code == Code::missing) {
            return {};
        }
        if (!mounts) {
            return tl::unexpected<Error>(std::move(mounts.error()));
        }
        out.insert(out.end(), mounts->begin(), mounts->end());
        return {};
    };
    MOSAIC_TRY_ASSIGN(const std::vector<harness::HostPath> paths, harness::host_paths(run));
    for (const harness::HostPath& path : paths) {
        MOSAIC_TRY(add(path.path, path.reason, path.optional));
    }
    for (const sandbox::CaPath& ca : ca_paths) {
        MOSAIC_TRY(add(ca.path, "the certificates that " + ca.variable + " names", false));
    }
    return out;
}

Step directory(std::string path) {
    Step step;
    step.path = std::move(path);
    step.mode = registry::kDirectoryMode;
    step.directory = true;
    return step;
}

Step file(std::string path, std::string content) {
    Step step;
    step.path = std::move(path);
    step.mode = registry::kFileMode;
    step.content = std::move(content);
    return step;
}

// The thread's store, below the data root; what is there from earlier runs stays.
void add_thread_steps(const PlanFacts& f, const harness::RunFacts& run, std::vector<Step>& steps) {
    if (f.seat.thread.empty()) {
        return;
    }
    std::string path;
    const auto add = [&](const std::string& relative) {
        Step step = directory(relative);
        step.may_exist = true;
        step.base = f.root.root.get();
        steps.push_back(std::move(step));
    };
    for (const std::string& name : {std::string(registry::kThreads),
                                    f.settings.business.id,
                                    f.seat.instance,
                                    f.seat.thread}) {
        path += (path.empty() ? "" : "/") + name;
        add(path);
    }
    add(path + "/" + std::string(registry::kThreadSession));
    for (const std::string& kept : harness::thread_directories(run)) {
        add(kept.substr(f.root.path.size() + 1));
    }
}

std::vector<harness::ManifestBind> manifest_binds(const std::vector<sandbox::Bind>& binds) {
    std::vector<harness::ManifestBind> out;
    out.reserve(binds.size());
    for (const sandbox::Bind& bind : binds) {
        out.push_back({std::string(to_string(bind.kind)), bind.source, bind.dest, bind.reason});
    }
    return out;
}

sandbox::GroupLimits group_limits(const config::Limits& limits) {
    return {limits.memory_bytes, limits.session.processes};
}

std::vector<harness::ManifestLevel> manifest_levels(const PlanFacts& f) {
    sandbox::HardeningFacts facts;
    facts.network_none = f.instance.network == config::Network::none;
    facts.nested = f.settings.system.sandbox.nested;
    facts.landlock_abi = f.settings.landlock_abi;
    facts.groups = f.settings.groups->level(group_limits(f.settings.system.limits));
    std::vector<harness::ManifestLevel> out;
    for (const sandbox::Level& level : sandbox::hardening(facts)) {
        out.push_back({level.name, level.on ? "on" : "off", level.reason});
    }
    return out;
}

// The directories and files of a run, parents first.
Result<std::vector<Step>> run_steps(const PlanFacts& f,
                                    const harness::RunFacts& run,
                                    const std::vector<sandbox::Bind>& binds) {
    const auto in_run = [&](std::string_view name) { return run.run + "/" + std::string(name); };
    // The log comes first, because bwrap can be started as soon as it is there.
    Step log = file(in_run(registry::kRunnerLog), "");
    log.keep_open = true;
    std::vector<Step> steps = {directory(run.run),
                               std::move(log),
                               directory(in_run(registry::kBundle)),
                               directory(in_run(registry::kRw)),
                               directory(in_run(registry::kRwHome)),
                               directory(in_run(registry::kRwTmp)),
                               directory(in_run(registry::kRwSession)),
                               directory(in_run(registry::kRwTurns)),
                               directory(in_run(registry::kRwIo))};
    add_thread_steps(f, run, steps);
    MOSAIC_TRY_ASSIGN(const std::vector<harness::BundleContent> bundle, harness::bundle_files(run));
    for (const harness::BundleContent& content : bundle) {
        steps.push_back(file(in_run(registry::kBundle) + "/" + content.name, content.content));
    }
    harness::ManifestFacts more;
    more.harness_version = f.harness_version;
    more.bwrap_version = f.bwrap_version;
    more.mosaic_version = MOSAIC_VERSION;
    more.binds = manifest_binds(binds);
    more.hardening = manifest_levels(f);
    steps.push_back(file(in_run(registry::kManifest), harness::manifest(run, more)));
    steps.push_back(file(in_run(registry::kSessionFile),
                         json::dump_pretty(harness::session_file(run).to_value())));
    return steps;
}

// What a launch and a warm seat must have in common, for the seat to become the launch's run.
std::string fit_of(const Plan& plan,
                   const harness::RunFacts& run,
                   const std::vector<sandbox::Bind>& binds,
                   uint64_t mounts) {
    Fit fit(run.run);
    fit.add(std::to_string(mounts));
    const std::string session = run.run + "/" + std::string(registry::kSessionFile);
    for (const Step& step : plan.files) {
        fit.add(step.path);
        fit.add(std::to_string(step.mode));
        if (step.path != session) {
            fit.add(step.content);
        }
    }
    // Of a launch's own it differs in that alone.
    wire::SessionFile file = harness::session_file(run);
    file.warm = true;
    fit.add(json::dump(file.to_value()));
    for (const auto* list : {&plan.argv, &plan.env}) {
        fit.add(std::to_string(list->size()));
        for (const std::string& text : *list) {
            fit.add(text);
        }
    }
    for (const sandbox::Bind& bind : binds) {
        const bool by_path =
            bind.kind == sandbox::BindKind::read_only || bind.kind == sandbox::BindKind::read_write;
        if (by_path && !sandbox::lies_in(bind.source, run.paths.run_dir)) {
            fit.add_path(bind.source);
        }
    }
    for (const int64_t limit : {plan.group_limits.memory_bytes, plan.group_limits.processes}) {
        fit.add(std::to_string(limit));
    }
    fit.add_descriptor(plan.workspace_fd.get());
    for (const UniqueFd& fd : plan.git_fds) {
        fit.add_descriptor(fd.get());
    }
    for (const std::string& text : {plan.route.harness,
                                    plan.route.provider,
                                    plan.route.model,
                                    plan.route.thinking,
                                    plan.account,
                                    plan.workspace,
                                    plan.transcript}) {
        fit.add(text);
    }
    return fit.result();
}

}  // namespace

Result<Plan> make_plan(const PlanFacts& f, sandbox::Workspace workspace, sandbox::GitFinding git) {
    const std::string run_id = new_run_id();
    const harness::RunPaths paths = paths_of(f, run_id, workspace.inside);
    const harness::RunFacts run{run_id,
                                f.seat,
                                f.warm,
                                f.settings.business,
                                f.instance,
                                f.route,
                                paths,
                                f.contract,
                                f.settings.system.limits.session};
    sandbox::EnvironmentSpec wanted;
    wanted.host = &f.settings.env;
    wanted.run = run_id;
    wanted.run_dir = paths.run_dir;
    wanted.path_dirs = harness::path_directories(f.route);
    wanted.provider = f.route.variables;
    wanted.pass_env = f.settings.system.sandbox.pass_env;
    MOSAIC_TRY_ASSIGN(sandbox::SessionEnvironment env, sandbox::session_environment(wanted));

    sandbox::SandboxSpec spec;
    spec.layout = f.settings.layout;
    spec.run_dir = paths.run_dir;
    spec.stage_dir = f.settings.stages.at(f.route.module->name);
    spec.workspace = workspace.path;
    spec.workspace_inside = workspace.inside;
    spec.bus_socket = paths.broker_socket;
    spec.launch_socket = paths.launch_socket;
    spec.thread_store = paths.thread_store;
    spec.shm_bytes = f.settings.system.limits.shm_bytes;
    MOSAIC_TRY_ASSIGN(spec.extra, extra_binds(f, run, env.ca_paths));
    spec.extra.insert(spec.extra.end(), git.binds.begin(), git.binds.end());
    const std::vector<sandbox::Bind> binds = sandbox::binds(spec);
    sandbox::BwrapOptions options;
    options.bwrap = f.settings.system.sandbox.bwrap;
    options.directory = paths.run_dir;
    options.network_none = f.instance.network == config::Network::none;
    options.nested = f.settings.system.sandbox.nested;
    options.seccomp_fd = sandbox::kSeccompFd;
    options.gate_fd = sandbox::kGateFd;

    Plan plan;
    plan.seat = f.seat;
    plan.route = f.route.route;
    plan.account = f.route.account;
    plan.launched_by = f.launched_by;
    plan.may_launch = f.instance.may_launch();
    plan.workspace = workspace.path;
    plan.workspace_fd = std::move(workspace.fd);
    MOSAIC_TRY_ASSIGN(plan.seccomp_fd, sandbox::open_program(f.settings.seccomp.get()));
    MOSAIC_TRY_ASSIGN(plan.files, run_steps(f, run, binds));
    plan.argv = sandbox::bwrap_argv(options, binds, sandbox::runner_command(paths.run_dir));
    plan.env = std::move(env.variables);
    plan.git_fds = std::move(git.fds);
    plan.warnings = std::move(env.warnings);
    if (!git.warning.empty()) {
        plan.warnings.push_back(std::move(git.warning));
    }
    plan.group_limits = group_limits(f.settings.system.limits);
    plan.run_dir = paths.run_dir;
    plan.stage_dir = spec.stage_dir;
    plan.transcript = harness::transcript_path(run);
    if (f.instance.warm > 0 && f.seat.thread.empty()) {
        plan.fit = fit_of(plan, run, binds, f.mounts);
    }
    return plan;
}

}  // namespace mosaic::host
