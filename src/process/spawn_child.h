#pragma once

#include <sys/types.h>

// The child's half of a spawn: what happens between clone(2) and execve(2), in memory that it
// shares with its parent. Internal to this room.

namespace mosaic::process {

// What the child was doing when it failed; the parent reads it from the shared plan.
enum class SpawnStep : int {
    parent_gone,
    control_group,
    session,
    keyring,
    directory,
    null_device,
    descriptors,
    terminal,
    no_new_privileges,
    landlock,
    parent_death,
    exec,
};

// All that the child reads, made before the clone. Plain pointers into memory that the parent keeps
// unchanged until the child has exec'd or died. The child writes the members that say so.
struct SpawnPlan {
    const char* path = nullptr;
    char* const* argv = nullptr;
    char* const* envp = nullptr;
    const char* directory = nullptr;  // null: stay

    // Descriptors: sources[i] becomes targets[i]. `duplicates` is the child's own room for as many
    // numbers. The gaps are the ranges [first, last] of numbers up to `highest` that must be
    // closed, as pairs. `highest` is at least 2.
    const int* sources = nullptr;
    const int* targets = nullptr;
    int* duplicates = nullptr;
    int count = 0;
    const int* gaps = nullptr;
    int gap_count = 0;
    int highest = 2;
    bool null_wanted[3] = {false, false, false};

    int result_fd = -1;  // write end of the close-on-exec pipe; the child renumbers it
    pid_t parent = 0;
    int landlock_fd = -1;
    int control_group_fd = -1;  // to be entered by the child itself
    int until_exec_fd = -1;     // close-on-exec, to be kept until then
    bool new_session = false;
    bool controlling_terminal = false;
    bool new_keyring = false;
    bool keyring_optional = false;  // ours is empty already: a full key quota is no failure
    bool parent_death_kill = false;

    SpawnStep failed = SpawnStep::exec;  // written by the child before it reports its errno
};

// The function that clone(2) starts; `plan` is a SpawnPlan. It execs or exits and never returns.
int run_spawn_child(void* plan);

}  // namespace mosaic::process
