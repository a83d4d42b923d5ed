// mosaic sandbox shell: a person looks around where a session of an instance would be.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string_view>

#include "cli/command.h"
#include "cli/machine.h"
#include "cli/output.h"
#include "cli/pty.h"
#include "cli/scratch_run.h"
#include "cli/would_be_run.h"
#include "harness/stage.h"
#include "process/files.h"
#include "process/own_program.h"
#include "process/pidfd.h"
#include "process/spawn.h"
#include "sandbox/binds.h"
#include "sandbox/control_groups.h"
#include "sandbox/hardening.h"
#include "sandbox/seccomp.h"
#include "sandbox/worktree.h"
#include "wire/codes.h"

namespace mosaic::cli {
namespace {

// As a session's: it goes before the host when memory runs out.
constexpr std::string_view kOomScore = "500";

void raise_own_oom_score() {
    const UniqueFd file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
    if (file.valid()) {
        ignore(::write(file.get(), kOomScore.data(), kOomScore.size()),
               "refused where a higher score was inherited, which will do");
    }
}

// Sessions never run as root, and neither does this.
Result<void> become_ordinary(const std::string& data_root) {
    MOSAIC_TRY(become_owner(data_root));
    if (::geteuid() == 0) {
        return fail(
            Code::unsafe,
            data_root + " is root's: no sandbox is made as root; run this as the user of the host");
    }
    return {};
}

Result<std::string> data_root_of(const Machine& machine) {
    auto real = process::real_path(machine.data_root);
    if (!real) {
        return fail(real.error().code,
                    "there is no data root " + machine.data_root + " (" + real.error().text +
                        "): start mosaic-host once, or give --data");
    }
    if (*real == "/tmp" || real->starts_with("/tmp/")) {
        return fail(Code::unsafe, "the data root " + *real + " lies under /tmp");
    }
    return real;
}

// The shell stays in the operator's own control groups, where what runs in it could do harm.
bool may_nest(bool wanted) {
    sandbox::GroupFiles files;
    const std::string danger =
        wanted ? sandbox::nested_danger_of(files, ::getpid(), false) : std::string();
    if (!danger.empty()) {
        complain("without sandbox.nested, which a session has: " + danger);
    }
    return wanted && danger.empty();
}

// What an instance's module has at /run/mosaic.
Result<std::vector<harness::StagedFile>> staged_files(const Machine& machine,
                                                      const std::string& harness) {
    std::vector<harness::StagedFile> out;
    const auto module = machine.modules.modules.find(harness);
    if (module != machine.modules.modules.end()) {
        out = harness::stage_plan(module->second);
    }
    MOSAIC_TRY_ASSIGN(const std::string runner, process::find_beside("mosaic-runner"));
    MOSAIC_TRY_ASSIGN(harness::StagedFile file, harness::staged_runner(runner));
    out.push_back(std::move(file));
    return out;
}

// A host that never ran made no sockets; a bind of nothing would fail.
void drop_missing_sockets(std::vector<sandbox::Bind>& binds) {
    const auto is_missing = [](const sandbox::Bind& bind) {
        struct stat facts {};

        const bool missing = bind.source.ends_with(".sock") && bind.source == bind.dest &&
                             ::lstat(bind.source.c_str(), &facts) != 0;
        if (missing) {
            complain("without " + bind.source + ": no host has made it yet");
        }
        return missing;
    };
    binds.erase(std::remove_if(binds.begin(), binds.end(), is_missing), binds.end());
}

class Shell {
  public:
    Shell(const Machine& machine, const config::Instance& instance, ScratchRun scratch)
        : machine_(machine), instance_(instance), scratch_(std::move(scratch)) {}

    // Its exit code, or the one of a refusal.
    Result<int> run(const config::Environment& env) {
        MOSAIC_TRY_ASSIGN(WouldBeRun would_be,
                          would_be_run(machine_.setting(env),
                                       instance_,
                                       {scratch_.run(), scratch_.run_dir(), scratch_.stage_dir()}));
        for (const Refused& one : would_be.refused) {
            complain("a launch now is refused: " + std::string(to_string(one.code)) + " (" +
                     one.reason + ")");
        }
        if (!would_be.refused.empty()) {
            return exit_code::kRefused;
        }
        MOSAIC_TRY_ASSIGN(const std::vector<harness::StagedFile> staged,
                          staged_files(machine_, would_be.harness));
        MOSAIC_TRY(scratch_.lay(would_be.files, staged));
        drop_missing_sockets(would_be.binds);
        MOSAIC_TRY_ASSIGN(Pty pty, open_pty());
        MOSAIC_TRY_ASSIGN(process::Spawned sandbox, start(would_be, pty));
        pty.terminal.reset();
        return attend(pty, sandbox);
    }

  private:
    const Machine& machine_;
    const config::Instance& instance_;
    ScratchRun scratch_;
    UniqueFd status_;  // bwrap says on it what nobody asks for here

    Result<process::Spawned> start(const WouldBeRun& would_be, const Pty& pty) {
        const config::SandboxOptions& wanted = machine_.system.sandbox;
        const bool nested = may_nest(wanted.nested);
        MOSAIC_TRY_ASSIGN(const std::string program,
                          sandbox::seccomp_program(sandbox::session_filter(nested)));
        MOSAIC_TRY_ASSIGN(const UniqueFd filter, sandbox::program_file(program));
        MOSAIC_TRY_ASSIGN(const UniqueFd seccomp, sandbox::open_program(filter.get()));
        int ends[2] = {-1, -1};
        if (::pipe2(ends, O_CLOEXEC) != 0) {
            return fail_sys(errno, "pipe");
        }
        status_.reset(ends[0]);
        const UniqueFd status(ends[1]);
        sandbox::BwrapOptions options;
        options.bwrap = wanted.bwrap;
        options.directory = scratch_.run_dir();
        options.network_none = instance_.network == config::Network::none;
        options.nested = nested;
        options.seccomp_fd = sandbox::kSeccompFd;
        process::SpawnSpec spec;
        spec.path = wanted.bwrap;
        spec.argv = sandbox::bwrap_argv(
            options, would_be.binds, {sandbox::kRunnerPath, "shell", scratch_.run_dir()});
        spec.env = would_be.environment;
        spec.descriptors = {{pty.terminal.get(), 0},
                            {pty.terminal.get(), 1},
                            {pty.terminal.get(), 2},
                            {status.get(), sandbox::kStatusFd},
                            {would_be.workspace.fd.get(), sandbox::kWorkspaceFd},
                            {seccomp.get(), sandbox::kSeccompFd}};
        for (size_t i = 0; i < would_be.git_fds.size(); ++i) {
            spec.descriptors.emplace_back(would_be.git_fds[i].get(),
                                          sandbox::kGitFdFirst + static_cast<int>(i));
        }
        spec.new_keyring = true;
        spec.parent_death_kill = true;
        // Inside nobody can write it, and from outside that could come too late for what bwrap has
        // forked by then: it goes first itself.
        raise_own_oom_score();
        MOSAIC_TRY_ASSIGN(process::Spawned child, process::spawn(spec));
        MOSAIC_TRY(child.wait_exec());
        return child;
    }

    static Result<int> attend(const Pty& pty, process::Spawned& sandbox) {
        complain(
            "a shell where a session would be: it has no capability, and its /tmp and HOME go "
            "with it; leave it with exit");
        auto over = [&] {
            const RawInput raw;
            return copy_terminal(pty, sandbox.pidfd());
        }();
        if (!over || !*over) {
            ignore(process::signal_pidfd(sandbox.pidfd(), SIGKILL), "gone is what is wanted");
            ::kill(-sandbox.pid(), SIGKILL);
        }
        MOSAIC_TRY_ASSIGN(const process::Exit exit, process::wait_and_reap(sandbox.pidfd()));
        MOSAIC_TRY(over);
        return exit.signal != 0 ? 128 + exit.signal : exit.exit_code;
    }
};

Result<int> shell_for(const Machine& machine, const Context& context) {
    const std::string& name = context.options.target;
    const config::Instance* instance = machine.business.find(name);
    if (instance == nullptr) {
        return fail(Code::invalid, machine.business.file + ": /roles has no " + name);
    }
    MOSAIC_TRY_ASSIGN(ScratchRun scratch, ScratchRun::make(machine.data_root));
    return Shell(machine, *instance, std::move(scratch)).run(context.env);
}

}  // namespace

int run_sandbox_shell(const Context& context) {
    auto machine = read_machine(context);
    if (!machine) {
        return report(context, machine.error());
    }
    auto root = data_root_of(*machine);
    if (root) {
        machine->data_root = *root;
        if (const auto ordinary = become_ordinary(*root); !ordinary) {
            root = tl::unexpected<Error>(ordinary.error());
        }
    }
    if (!root) {
        complain(root.error().text);
        return exit_code::kRefused;
    }
    const auto code = shell_for(*machine, context);
    if (!code) {
        complain(code.error().text);
        return code.error().code == Code::invalid ? exit_code::kInvalidInput : exit_code::kRefused;
    }
    return *code;
}

}  // namespace mosaic::cli
