#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/secret.h"
#include "base/unique_fd.h"
#include "config/config.h"
#include "host/file_job.h"
#include "host/loop.h"
#include "launch/run_machine.h"
#include "process/spawn.h"
#include "sandbox/control_groups.h"
#include "sandbox/status.h"
#include "wire/messages.h"

namespace mosaic::host {

// Who asked for a launch and where the answer goes.
struct Caller {
    enum class Kind {
        session,  // over launch.sock
        human,    // over admin.sock, through the broker
        start,    // --pm
    };
    Kind kind = Kind::start;
    std::string name;        // the caller's instance, or the human
    Seat seat;               // of a session
    std::string run;         // of a session
    SlotRef client;          // of a session: its connection
    uint64_t number = 0;     // ... and the request there
    int64_t request_id = 0;  // of the human's request on the control pair
};

// One launch that was asked for and has not become a run yet.
struct Ask {
    Caller caller;
    Seat target;
    Instant at;  // when its last byte was read
};

// All that a launch needs to know, decided by the checks and fixed from then on: a configuration
// that changes later changes nothing of it.
struct Plan {
    Seat seat;
    config::Route route;
    std::string launched_by;
    std::string account;  // the credential set that is counted; empty: none
    bool may_launch = false;
    std::string workspace;             // real path
    UniqueFd workspace_fd;             // O_PATH: what is bound
    std::vector<UniqueFd> git_fds;     // of a worktree's repository, from kGitFdFirst on
    UniqueFd seccomp_fd;               // the filter's program, for bwrap alone
    std::vector<FileJob::Step> files;  // below the business's runs directory
    std::vector<std::string> argv;     // of bwrap
    std::vector<std::string> env;
    std::vector<std::string> warnings;  // host variables that sessions don't get; names only
    sandbox::GroupLimits group_limits;  // where runs have control groups
    std::string run_dir;
    std::string stage_dir;  // the staged tree that it binds
    std::string transcript;
    std::string fit;  // see fit.h; empty: no warm seat could be one of this kind
};

// A run from its passed checks to its end: the machine's state and everything the machine must not
// see. Slots live in a pool and are used again when their machine is over and their ops are idle.
struct RunSlot {
    uint32_t generation = 0;
    bool in_use = false;
    launch::RunState state;
    Caller caller;
    Plan plan;
    std::string run;
    std::string decision;  // of an authorization that waits for one

    // Processes and pipes.
    std::optional<process::Spawned> child;
    UniqueFd outer_pidfd;
    UniqueFd runner_pidfd;
    UniqueFd runner_log;
    UniqueFd gate;         // bwrap waits for the end of it; ours until the run may be spawned
    UniqueFd stdin_pipe;   // our write end
    UniqueFd status_pipe;  // our read end
    wire::ProcessIdentity process;
    sandbox::StatusParser status;
    std::array<char, 512> status_buffer{};
    bool status_over = true;
    bool reaped = false;
    bool gate_wanted = false;  // it may open as soon as bwrap is what runs behind it
    bool spawned = false;      // the gate is open; before that an exit isn't told
    bool found = false;        // the runner was found and checked
    process::Exit exit;
    bool has_group = false;  // a control group of its own, not yet given to removal

    // The capability on its way out, and what stays of it.
    std::string capability_line;
    size_t capability_written = 0;
    std::string capability_hash;  // SHA-256; empty until it is bound

    // What is reported at the end.
    EndReason end_reason = EndReason::failed;  // as the broker recorded it
    std::string failure;                       // the cause of a failed stage
    std::optional<int64_t> end_exit_code;
    std::string end_signal;
    std::string end_detail;

    bool discarded = false;   // its directory goes: nobody ever knew the run
    bool has_turn = false;    // counts among the launches that are being set up
    bool was_warm = false;    // a launch has taken it when it was set up already
    bool stop_asked = false;  // its machine is told, or about to be

    // Stopping.
    std::vector<int64_t> stop_requests;  // control requests to answer when it is over
    int64_t stop_timeout_ms = 0;
    std::string stop_detail;  // for the end's detail, when the host itself wants it to end

    uint32_t deadline_generation = 0;
    Instant deadline_at;      // of the timer that is armed, by Loop::awake
    bool term_timer = false;  // SIGTERM is sent again by a timer
    Instant asked_at;
    Instant spawned_at;  // or taken, by Loop::awake: from then on the time to the claim counts
    std::array<Instant, kStages> stage_at{};

    FileJob files;
    reactor::Op files_op;
    reactor::Op exec_op;
    reactor::Op exit_op;
    reactor::Op status_op;
    reactor::Op stdin_op;

    [[nodiscard]] bool quiescent() const {
        return files_op.idle() && exec_op.idle() && exit_op.idle() && status_op.idle() &&
               stdin_op.idle();
    }
};

}  // namespace mosaic::host
