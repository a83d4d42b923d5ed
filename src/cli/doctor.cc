// mosaic doctor: looks at everything that a host and a launch need on this machine.

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <set>

#include "cli/checkup.h"
#include "cli/command.h"
#include "cli/machine.h"
#include "cli/output.h"
#include "cli/programs.h"
#include "cli/sessions_view.h"
#include "cli/would_be_run.h"
#include "process/files.h"
#include "process/own_program.h"
#include "process/pidfd.h"
#include "process/proc.h"
#include "registry/layout.h"
#include "sandbox/control_groups.h"
#include "sandbox/hardening.h"
#include "sandbox/probe.h"
#include "sandbox/seccomp.h"
#include "sandbox/status.h"
#include "sandbox/workspace.h"
#include "wire/codes.h"
#include "wire/limits.h"

namespace mosaic::cli {
namespace {

constexpr int kSoPeerPidfd = 77;  // SO_PEERPIDFD, Linux 6.5; Debian 12's headers lack it

using Findings = std::vector<Finding>;

// A sysctl's content; empty where there is none.
std::string sysctl(const char* path) {
    return process::read_file(path, 4096).value_or("");
}

Finding kernel() {
    utsname name{};
    ::uname(&name);
    return judge_kernel(name.release);
}

Finding io_uring() {
    io_uring_params params{};
    const UniqueFd ring(static_cast<int>(::syscall(SYS_io_uring_setup, 8, &params)));
    const int sys = ring.valid() ? 0 : errno;
    return judge_io_uring(sys, sysctl("/proc/sys/kernel/io_uring_disabled"));
}

Finding namespaces() {
    return judge_namespaces({sysctl("/proc/sys/user/max_user_namespaces"),
                             sysctl("/proc/sys/kernel/unprivileged_userns_clone"),
                             sysctl("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")});
}

Finding pidfds() {
    if (const auto own = process::open_pidfd(::getpid()); !own) {
        return {"pidfd",
                Health::refuses,
                own.error().text,
                "run Linux 6.1 or later; a container's seccomp profile must allow pidfd_open"};
    }
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
        return {"pidfd", Health::refuses, "socketpair: " + errno_text(errno), ""};
    }
    const UniqueFd one(pair[0]);
    const UniqueFd other(pair[1]);
    int peer = -1;
    socklen_t size = sizeof peer;
    if (::getsockopt(one.get(), SOL_SOCKET, kSoPeerPidfd, &peer, &size) != 0) {
        return {"pidfd",
                Health::weaker,
                "no SO_PEERPIDFD: peers are known by pid and start time",
                "run Linux 6.5 or later"};
    }
    const UniqueFd pinned(peer);
    return {"pidfd", Health::fine, "pidfd_open and SO_PEERPIDFD", ""};
}

Finding who_we_are(const std::string& user) {
    if (::geteuid() != 0) {
        return {"user", Health::fine, "user " + std::to_string(::geteuid()), ""};
    }
    if (!user.empty()) {
        return {"user", Health::fine, "root; a host becomes " + user, ""};
    }
    return {"user",
            Health::refuses,
            "root; a host started so refuses",
            "start it as an ordinary user, or with --user NAME"};
}

Finding home(const config::Environment& env) {
    const auto found = env.find("HOME");
    if (found == env.end() || !found->second.starts_with('/')) {
        return {"HOME", Health::refuses, "is no absolute path", "set HOME"};
    }
    return {"HOME", Health::fine, found->second, ""};
}

Finding program(const std::string& name) {
    const auto found = process::find_beside(name);
    if (!found) {
        return {name, Health::refuses, found.error().text, "install mosaic-host whole"};
    }
    return {name, Health::fine, *found, ""};
}

ChildSpec small_child(const std::string& path, std::vector<std::string> argv) {
    ChildSpec spec;
    spec.path = path;
    spec.argv = std::move(argv);
    spec.env = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8"};
    return spec;
}

Finding from(const std::string& name, const sandbox::Unavailable& why) {
    return {name, Health::refuses, why.reason, why.remedy};
}

Finding bwrap(const std::string& path) {
    if (auto identity = sandbox::identity_of(path); !identity) {
        return from(
            "bwrap",
            sandbox::explain_exec(path, identity.error().sys != 0 ? identity.error().sys : ENOENT));
    }
    const auto version = run_child(small_child(path, {path, "--version"}));
    const auto help = run_child(small_child(path, {path, "--help"}));
    if (!version || !help) {
        const Error& error = version ? help.error() : version.error();
        return from("bwrap", sandbox::explain_exec(path, error.sys));
    }
    return judge_bwrap(path, version->out, help->out + help->errors);
}

Result<UniqueFd> filter_of(bool nested) {
    MOSAIC_TRY_ASSIGN(const std::string program,
                      sandbox::seccomp_program(sandbox::session_filter(nested)));
    MOSAIC_TRY_ASSIGN(const UniqueFd file, sandbox::program_file(program));
    return sandbox::open_program(file.get());
}

// A launch's own flags around the runner's self-test.
Finding sandbox_probe(const config::SystemConfig& system, const sandbox::Layout& layout) {
    const auto runner = process::find_beside("mosaic-runner");
    if (!runner) {
        return {"sandbox", Health::refuses, "can't be tried without mosaic-runner", ""};
    }
    sandbox::ProbeSpec probe;
    probe.layout = layout;
    probe.stage_dir = runner->substr(0, runner->rfind('/'));
    probe.shm_bytes = system.limits.shm_bytes;
    probe.options.bwrap = system.sandbox.bwrap;
    probe.options.nested = system.sandbox.nested;
    probe.options.seccomp_fd = sandbox::kSeccompFd;
    const auto filter = filter_of(system.sandbox.nested);
    if (!filter) {
        return {"sandbox", Health::refuses, filter.error().text, ""};
    }
    const UniqueFd status(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    const UniqueFd stage(::open(probe.stage_dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    ChildSpec child = small_child(probe.options.bwrap, sandbox::probe_argv(probe));
    child.descriptors = {{status.get(), sandbox::kStatusFd},
                         {stage.get(), sandbox::kWorkspaceFd},
                         {filter->get(), sandbox::kSeccompFd}};
    const auto result = run_child(child);
    if (!result) {
        return from("sandbox",
                    result.error().sys != 0 ? sandbox::explain_exec(child.path, result.error().sys)
                                            : sandbox::Unavailable{result.error().text, ""});
    }
    if (result->exit.signal != 0 || result->exit.exit_code != 0) {
        return from(
            "sandbox",
            sandbox::explain(child.path, result->exit, sandbox::first_error_line(result->errors)));
    }
    return {"sandbox", Health::fine, "a launch's own flags work around the runner's self-test", ""};
}

// The data root that a host would use: its place, and what is there already.
Finding data_root(const std::string& path) {
    Finding out{"data root", Health::fine, path, ""};
    const std::string socket = registry::launch_socket_path(path);

    struct stat there {};

    if (sandbox::lies_in(sandbox::tidy_path(path), "/tmp")) {
        out.health = Health::refuses;
        out.detail += " lies under /tmp, where a session could rename what it is mounted on";
        out.remedy = "set dataRoot, or --data, to a directory elsewhere";
    } else if (socket.size() > limits::kSocketPathBytesMax) {
        out.health = Health::refuses;
        out.detail += " makes socket paths of " + std::to_string(socket.size()) + " bytes";
        out.remedy = "choose a path at least " +
                     std::to_string(socket.size() - limits::kSocketPathBytesMax) +
                     " bytes shorter: a socket's path may have 107";
    } else if (::lstat(path.c_str(), &there) != 0) {
        out.detail += errno == ENOENT ? " (will be made)" : ": " + errno_text(errno);
        out.health = errno == ENOENT ? Health::fine : Health::refuses;
    } else if (!S_ISDIR(there.st_mode) || (there.st_mode & 0777U) != 0700 ||
               (there.st_uid != ::geteuid() && ::geteuid() != 0)) {
        out.health = Health::refuses;
        out.detail += " is not a directory of our own with mode 0700";
        out.remedy = "chmod 700 it, or choose another one";
    }
    return out;
}

// Of a host that runs; what one that died has left is for the next one to end.
void check_sessions(const std::string& root, Findings& out) {
    const auto file = read_sessions(root);
    if (!file) {
        return;
    }
    size_t running = 0;
    size_t warm = 0;
    for (const SessionView& session : view_sessions(*file, process::boot_id())) {
        running += session.live && !session.entry.warm ? 1U : 0U;
        warm += session.live && session.entry.warm ? 1U : 0U;
    }
    if (running + warm > 0) {
        out.push_back({"sessions",
                       Health::fine,
                       std::to_string(running) + " running, " + std::to_string(warm) + " warm",
                       ""});
    }
}

void check_modules(const harness::ModuleSet& modules, Findings& out) {
    for (const auto& [name, problem] : modules.problems) {
        out.push_back({"module " + name,
                       Health::refuses,
                       problem,
                       "repair it, or take it off "
                       "plugins.harness"});
    }
    for (const auto& [name, module] : modules.modules) {
        out.push_back({"module " + name, Health::fine, module.directory, ""});
    }
}

Finding judge_instance(const std::string& name, const Result<WouldBeRun>& run) {
    Finding out{"instance " + name, Health::fine, "", ""};
    if (!run) {
        out.health = Health::refuses;
        out.detail = run.error().text;
    } else if (!run->refused.empty()) {
        const Refused& first = run->refused[0];
        out.health = Health::refuses;
        out.detail = std::string(to_string(first.code)) + ": " + first.reason;
    } else {
        out.detail = run->route;
    }
    return out;
}

void check_instances(const Machine& machine, const config::Environment& env, Findings& out) {
    std::set<std::string> warnings;  // most are the same for all instances
    for (const auto& [name, instance] : machine.business.roles) {
        const auto run = would_be_run(machine.setting(env), instance);
        out.push_back(judge_instance(name, run));
        if (run) {
            warnings.insert(run->warnings.begin(), run->warnings.end());
        }
    }
    for (const std::string& warning : warnings) {
        out.push_back({"environment", Health::weaker, warning, ""});
    }
}

void check_machine(Findings& out) {
    out.push_back(kernel());
    out.push_back(io_uring());
    out.push_back(pidfds());
    out.push_back(namespaces());
}

// Who holds the data root's lock; 0: no host runs there.
pid_t host_of(const std::string& data_root) {
    const UniqueFd lock(::open(registry::lock_path(data_root).c_str(),
                               O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));

    struct flock held {};

    held.l_type = F_WRLCK;
    held.l_whence = SEEK_SET;
    const bool asked = lock.valid() && ::fcntl(lock.get(), F_GETLK, &held) == 0;
    return asked && held.l_type != F_UNLCK ? held.l_pid : 0;
}

// `host` is the running host, or we where one would be started.
Finding nested_sandboxes(sandbox::GroupFiles& files, pid_t host, bool own_group) {
    const std::string name = "sandbox.nested";
    if (::geteuid() == 0) {
        return {name, Health::weaker, "root can't tell", "ask as the host's user"};
    }
    const std::string danger = sandbox::nested_danger_of(files, host, own_group);
    if (!danger.empty()) {
        return {name, Health::refuses, danger, sandbox::kNestedRemedy};
    }
    // An operator's shell stays in the operator's own groups.
    const std::string in_shell = sandbox::nested_danger_of(files, ::getpid(), false);
    return {name,
            Health::fine,
            "a session can write no control group but its own" +
                (in_shell.empty() ? "" : "; mosaic sandbox shell goes without it: " + in_shell),
            ""};
}

// The levels that don't depend on the instance. Control groups are the running host's; without one,
// those that a host would have that is started where we were.
void check_hardening(const config::SystemConfig& system, pid_t host, Findings& out) {
    sandbox::GroupFiles files;
    const auto delegation = sandbox::find_delegation_of(files, host != 0 ? host : ::getpid());
    sandbox::GroupLevel groups = sandbox::group_level(
        delegation, {system.limits.memory_bytes, system.limits.session.processes});
    if (host == 0) {
        groups.reason += " (of a host started from here; none runs)";
    }
    if (system.sandbox.nested) {
        out.push_back(
            nested_sandboxes(files, host != 0 ? host : ::getpid(), delegation.has_value()));
    }
    sandbox::HardeningFacts facts;
    facts.nested = system.sandbox.nested;
    facts.landlock_abi = sandbox::landlock_abi();
    facts.groups = groups;
    for (const sandbox::Level& level : sandbox::hardening(facts)) {
        out.push_back(judge_level(level));
    }
}

void check_config(const Context& context, Findings& out) {
    auto system = config::load_system(context.options.config, context.env);
    if (!system) {
        out.push_back({"configuration", Health::refuses, system.error().text, "correct the file"});
        out.push_back(who_we_are(""));
        return;
    }
    out.push_back({"configuration",
                   Health::fine,
                   system->file.empty() ? "no system file; all defaults" : system->file,
                   ""});
    out.push_back(who_we_are(system->user));
    const auto machine = read_machine(context);
    check_hardening(*system, machine ? host_of(machine->data_root) : 0, out);
    out.push_back(bwrap(system->sandbox.bwrap));
    const auto layout = sandbox::read_layout();
    if (layout && layout->missing.empty()) {
        out.push_back(sandbox_probe(*system, *layout));
    } else {
        out.push_back({"sandbox",
                       Health::refuses,
                       layout ? layout->missing : layout.error().text,
                       "install what is missing"});
    }
    check_modules(load_modules(*system), out);
    if (!machine) {
        const bool unnamed = machine.error().exit_code == exit_code::kUsage;
        out.push_back({"business",
                       Health::refuses,
                       machine.error().text,
                       unnamed ? "give --business, or run mosaic init" : "correct it"});
        return;
    }
    out.push_back({"business", Health::fine, machine->business.file, ""});
    out.push_back(data_root(machine->data_root));
    check_sessions(machine->data_root, out);
    check_instances(*machine, context.env, out);
}

const std::vector<std::string>& notes() {
    static const std::vector<std::string> kNotes = {
        "a session runs as the host's user; with network: host it reaches the network and "
        "localhost services with that user's rights",
        "a session's shell can read the credential variables of its own session",
        "a workspace is hostile input for your own git, shell and editor"};
    return kNotes;
}

}  // namespace

int run_doctor(const Context& context) {
    Findings findings;
    check_machine(findings);
    findings.push_back(home(context.env));
    for (const char* name : {"mosaic-host", "mosaic-broker", "mosaic-runner"}) {
        findings.push_back(program(name));
    }
    check_config(context, findings);
    const int printed = finish(context.options.json ? print_json(checkup_value(findings, notes()))
                                                    : print(checkup_text(findings, notes())));
    return printed == exit_code::kFine ? exit_code_for(findings) : printed;
}

}  // namespace mosaic::cli
