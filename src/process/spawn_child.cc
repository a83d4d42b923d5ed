#include "process/spawn_child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#include <cstddef>
#include <cstdint>

#include "process/raw_syscall.h"

// Nothing here may allocate, touch errno, call libc or return to the parent's frames: the parent
// runs on in the same memory at the same time.

namespace mosaic::process {
namespace {

MOSAIC_SHARED_MEMORY_CHILD long address(const void* pointer) {
    return static_cast<long>(reinterpret_cast<intptr_t>(pointer));
}

[[noreturn]] MOSAIC_SHARED_MEMORY_CHILD void give_up(SpawnPlan& plan, SpawnStep step, long result) {
    const int error = static_cast<int>(-result);
    plan.failed = step;
    raw_syscall(SYS_write, plan.result_fd, address(&error), sizeof(error));
    for (;;) {
        raw_syscall(SYS_exit_group, 127);
    }
}

MOSAIC_SHARED_MEMORY_CHILD void must(SpawnPlan& plan, SpawnStep step, long result) {
    if (result < 0) {
        give_up(plan, step, result);
    }
}

MOSAIC_SHARED_MEMORY_CHILD void join_keyring(SpawnPlan& plan) {
    const long result = raw_syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0);
    // A kernel without keys has none to keep apart.
    if (result >= 0 || result == -ENOSYS || (result == -EDQUOT && plan.keyring_optional)) {
        return;
    }
    give_up(plan, SpawnStep::keyring, result);
}

MOSAIC_SHARED_MEMORY_CHILD void enter_control_group(SpawnPlan& plan) {
    const char name[] = "cgroup.procs";
    const char self = '0';
    const long procs =
        raw_syscall(SYS_openat, plan.control_group_fd, address(name), O_WRONLY | O_CLOEXEC);
    must(plan, SpawnStep::control_group, procs);
    must(plan, SpawnStep::control_group, raw_syscall(SYS_write, procs, address(&self), 1));
}

// Moves every descriptor first above the highest number that the program gets, so that no target
// can overwrite a source, and then down to its place.
MOSAIC_SHARED_MEMORY_CHILD void place_descriptors(SpawnPlan& plan) {
    const SpawnStep step = SpawnStep::descriptors;
    const int above = plan.highest + 2;
    int null_fd = -1;
    if (plan.null_wanted[0] || plan.null_wanted[1] || plan.null_wanted[2]) {
        const long opened =
            raw_syscall(SYS_openat, AT_FDCWD, address("/dev/null"), O_RDWR | O_CLOEXEC);
        must(plan, SpawnStep::null_device, opened);
        const long moved = raw_syscall(SYS_fcntl, opened, F_DUPFD_CLOEXEC, above);
        must(plan, step, moved);
        null_fd = static_cast<int>(moved);
    }
    for (int i = 0; i < plan.count; ++i) {
        const long moved = raw_syscall(SYS_fcntl, plan.sources[i], F_DUPFD_CLOEXEC, above);
        must(plan, step, moved);
        plan.duplicates[i] = static_cast<int>(moved);
    }
    if (plan.until_exec_fd >= 0) {
        must(plan, step, raw_syscall(SYS_fcntl, plan.until_exec_fd, F_DUPFD_CLOEXEC, above));
    }
    const long result_above = raw_syscall(SYS_fcntl, plan.result_fd, F_DUPFD_CLOEXEC, above);
    must(plan, step, result_above);
    plan.result_fd = static_cast<int>(result_above);

    for (int i = 0; i < plan.count; ++i) {
        must(plan, step, raw_syscall(SYS_dup3, plan.duplicates[i], plan.targets[i], 0));
    }
    for (int i = 0; i < 3; ++i) {
        if (plan.null_wanted[i]) {
            must(plan, step, raw_syscall(SYS_dup3, null_fd, i, 0));
        }
    }
    const int result_place = plan.highest + 1;
    must(plan, step, raw_syscall(SYS_dup3, plan.result_fd, result_place, O_CLOEXEC));
    plan.result_fd = result_place;
    for (ptrdiff_t i = 0; i < plan.gap_count; ++i) {
        must(plan, step, raw_syscall(SYS_close_range, plan.gaps[2 * i], plan.gaps[2 * i + 1], 0));
    }
    // What the program must not have is closed by the exec itself: what is to be kept until then,
    // is kept.
    must(plan, step, raw_syscall(SYS_close_range, result_place + 1, ~0U, CLOSE_RANGE_CLOEXEC));
}

// The parent blocked all signals around the clone: no handler of its can run in this copy.
MOSAIC_SHARED_MEMORY_CHILD void reset_signals() {
    // Large enough for the kernel's struct sigaction on each architecture; zero is SIG_DFL.
    const uint64_t default_action[4] = {0, 0, 0, 0};
    for (long signal = 1; signal <= kKernelSignals; ++signal) {
        // SIGKILL and SIGSTOP answer EINVAL; their action is the default one anyhow.
        raw_syscall(SYS_rt_sigaction, signal, address(&default_action), 0, kKernelSigsetBytes);
    }
    const uint64_t none = 0;
    raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, address(&none), 0, kKernelSigsetBytes);
}

}  // namespace

MOSAIC_SHARED_MEMORY_CHILD int run_spawn_child(void* argument) {
    SpawnPlan& plan = *static_cast<SpawnPlan*>(argument);
    if (plan.parent_death_kill) {
        must(plan, SpawnStep::parent_death, raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL));
        // A parent that died before the call above sends nothing.
        if (raw_syscall(SYS_getppid) != plan.parent) {
            give_up(plan, SpawnStep::parent_gone, -ESRCH);
        }
    }
    if (plan.control_group_fd >= 0) {
        enter_control_group(plan);
    }
    if (plan.new_session) {
        must(plan, SpawnStep::session, raw_syscall(SYS_setsid));
    }
    if (plan.new_keyring) {
        join_keyring(plan);
    }
    if (plan.directory != nullptr) {
        must(plan, SpawnStep::directory, raw_syscall(SYS_chdir, address(plan.directory)));
    }
    if (plan.landlock_fd >= 0) {
        must(plan,
             SpawnStep::no_new_privileges,
             raw_syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        must(plan,
             SpawnStep::landlock,
             raw_syscall(SYS_landlock_restrict_self, plan.landlock_fd, 0));
    }
    place_descriptors(plan);
    if (plan.controlling_terminal) {
        must(plan, SpawnStep::terminal, raw_syscall(SYS_ioctl, 0, TIOCSCTTY, 0));
    }
    reset_signals();
    const long result =
        raw_syscall(SYS_execve, address(plan.path), address(plan.argv), address(plan.envp));
    give_up(plan, SpawnStep::exec, result);
}

}  // namespace mosaic::process
