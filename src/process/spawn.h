#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

// The one place that makes processes, for sessions, the broker, probes and turns.
//
// The child gets an empty signal mask and default dispositions (TRAP-05, TRAP-06), exactly the
// descriptors named here and no other (TRAP-08), and nothing of our environment. It is made by
// clone(2) with CLONE_VM | CLONE_PIDFD on a stack of its own: the parent goes on at once, whatever
// its size, and does not wait for the exec. In the child only raw system calls run. (clone3 only
// for control groups: a session's seccomp filter answers ENOSYS to it, and its runner spawns
// through this room too.)

namespace mosaic::process {

struct SpawnSpec {
    std::string path;  // absolute; no PATH look-up
    std::vector<std::string> argv;
    std::vector<std::string> env;  // "NAME=value"
    // {ours, the child's}: each of ours is duplicated to the child's number; all others are closed.
    // The child's numbers must be distinct. 0, 1 and 2 that are not named are /dev/null.
    std::vector<std::pair<int, int>> descriptors;
    std::string directory;    // chdir before the exec; empty: stay
    bool new_session = true;  // setsid(2): a process group that can be killed whole
    // Descriptor 0 becomes the controlling terminal of the new session, which `new_session` makes.
    bool controlling_terminal = false;
    bool new_keyring = false;  // an empty session keyring of its own (keyctl(2))
    // Written as is when not 0, by finish_exec or wait_exec, from outside: a child that shares our
    // memory can't write its own, the kernel gives it to all who share the memory, us included
    // (__set_oom_adj in fs/proc/base.c). Best effort: a failure is not reported.
    int oom_score_adj = 0;
    int landlock_scope_fd = -1;  // a Landlock ruleset to enter before the exec; -1: none
    // The directory of a control group (cgroup v2) that the child is in from its first instruction
    // on; -1: it stays in ours. It is made there (TRAP-26); where that fails it moves there before
    // anything else.
    int control_group_fd = -1;
    // A descriptor of ours, close-on-exec, that the child keeps open until its program runs; -1:
    // none. A flock(2) on it then tells whoever wants that lock that the child is still on its way.
    int until_exec_fd = -1;
    bool parent_death_kill = false;  // PR_SET_PDEATHSIG SIGKILL: dies with the calling thread
};

// A child on its way to its program. Owns the memory that the child still uses until it has exec'd:
// keep it until exec_result is readable (an end of file then means that the program runs, or that
// the child was killed before it could: the pidfd tells; four bytes are the errno of what failed).
// Destroying it earlier waits for that moment. However it ended, the child is the caller's to reap.
class Spawned {
  public:
    Spawned(Spawned&&) noexcept;
    Spawned& operator=(Spawned&&) noexcept;
    Spawned(const Spawned&) = delete;
    Spawned& operator=(const Spawned&) = delete;
    ~Spawned();

    [[nodiscard]] pid_t pid() const;
    // Readable at exit. Stays ours.
    [[nodiscard]] int pidfd() const;
    [[nodiscard]] UniqueFd take_pidfd();
    // The read end of a close-on-exec pipe, non-blocking. For polling; only this class reads it.
    [[nodiscard]] int exec_result() const;

    // Blocks until the program runs or failed to start; the error then names path and cause. For
    // callers without a loop.
    [[nodiscard]] Result<void> wait_exec();

    // For callers with a loop, once exec_result is readable: the same without blocking. Before that
    // moment Code::unavailable; after it the same answer however often it is asked. Code::missing
    // when execve(2) said ENOENT: the program, or the interpreter that it names, isn't there.
    [[nodiscard]] Result<void> finish_exec();

  private:
    friend Result<Spawned> spawn(const SpawnSpec& spec);
    struct State;
    explicit Spawned(State* state);
    State* state_;
};

// The error names what failed (Code::invalid for the spec itself; pipe, clone, memory).
[[nodiscard]] Result<Spawned> spawn(const SpawnSpec& spec);

// Gives the calling process an empty session keyring, once, at start-up. A keyring counts against
// the user's key quota (kernel.keys.maxkeys, 200 for an ordinary user); after this call a child
// with new_keyring that finds the quota full keeps our empty one instead of failing.
[[nodiscard]] Result<void> leave_session_keyring();

}  // namespace mosaic::process
