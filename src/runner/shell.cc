#include "runner/shell.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "process/spawn.h"
#include "runner/landlock.h"
#include "runner/log.h"
#include "runner/process_limits.h"
#include "runner/run_directory.h"
#include "wire/codes.h"

namespace mosaic::runner {
namespace {

// The first that is there.
const char* shell_program() {
    constexpr std::array<const char*, 2> kShells = {"/bin/bash", "/bin/sh"};
    return ::access(kShells[0], X_OK) == 0 ? kShells[0] : kShells[1];
}

Result<process::Spawned> start(const Loaded& loaded) {
    const UniqueFd scope = make_scope_ruleset();
    process::SpawnSpec spec;
    spec.path = shell_program();
    spec.argv = {spec.path, "-i"};
    for (const char* const* variable = environ; *variable != nullptr; ++variable) {
        spec.env.emplace_back(*variable);
    }
    spec.descriptors = {{0, 0}, {1, 1}, {2, 2}};
    spec.directory = loaded.session.workspace;
    spec.controlling_terminal = true;
    spec.landlock_scope_fd = scope.get();
    spec.parent_death_kill = true;
    MOSAIC_TRY_ASSIGN(process::Spawned shell, process::spawn(spec));
    MOSAIC_TRY(shell.wait_exec());
    return shell;
}

int wait_for(pid_t shell) {
    for (;;) {
        int status = 0;
        const pid_t ended = ::waitpid(-1, &status, 0);
        if (ended < 0 && errno != EINTR) {
            return runner_exit::kFailed;
        }
        if (ended == shell) {
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        }
    }
}

}  // namespace

int run_shell(const std::string& run_directory) {
    // The sandbox around us may be killed, and with it everything in here goes.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    go_first_when_memory_runs_out();
    const auto loaded = load_run(run_directory);
    if (!loaded) {
        log_line(loaded.error().text);
        return runner_exit::kSessionInvalid;
    }
    set_process_limits(loaded->session.limits);
    const auto shell = start(*loaded);
    if (!shell) {
        log_line("the shell can't be started: " + shell.error().text);
        return runner_exit::kFailed;
    }
    return wait_for(shell->pid());
}

}  // namespace mosaic::runner
