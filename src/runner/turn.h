#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/instant.h"
#include "process/spawn.h"
#include "runner/poll_set.h"
#include "runner/run_directory.h"
#include "runner/turn_files.h"
#include "wire/messages.h"
#include "wire/session_file.h"

namespace mosaic::runner {

// What all turns of a session share. It outlives them.
struct TurnSetting {
    const RunDirectory& directory;
    const wire::SessionFile& session;
    const char* const* environment = nullptr;  // the runner's own
    int scope_ruleset = -1;                    // landlock.h; -1: none
    TurnMarker marker;                         // watched only when turns end by marker
    uint32_t next_number = 1;
};

// One turn: the adapter of the harness, run for one message.
//
//   running -> (ending ->) sweeping -> done
//
// ending: it was told to end and gets its grace. sweeping: the adapter is gone, what it left behind
// is being killed; as pid 1 that is every process there is, else the adapter's process group.
class Turn {
  public:
    enum class Phase {
        running,
        ending,
        sweeping,
        done
    };

    Turn(TurnSetting& setting, wire::Message message);
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() = default;

    // Starts the adapter. When that fails the turn is done, and its reply says so.
    void start(const wire::StateFacts& state, Instant now);

    [[nodiscard]] Phase phase() const { return phase_; }

    [[nodiscard]] const wire::Message& message() const { return message_; }

    // The adapter, 0 once it is gone.
    [[nodiscard]] pid_t adapter() const { return adapter_; }

    // To be called while the adapter is a zombie, which keeps its process group's number from being
    // used again.
    void adapter_exited(const siginfo_t& how, Instant now);

    // As pid 1: no process but the runner is left.
    void nothing_left() { nothing_left_ = true; }

    void add_to(PollSet& polls) const;

    // Reads output, and moves on when something happened or a deadline has passed.
    void work(const PollSet& polls, Instant now);

    [[nodiscard]] std::optional<Instant> deadline() const;

    // Ends the turn: TERM, and KILL after the grace. Its reply is nobody's.
    void stop(Instant now);

    // KILL, at once.
    void kill();

    // Of a done turn: the body of the reply.
    [[nodiscard]] std::string take_reply() { return std::move(reply_); }

  private:
    [[nodiscard]] Result<void> prepare(const wire::StateFacts& state);
    void settle_exec();
    void read_output();
    void read_error();
    void end(std::string cause, Instant now);
    void finish();
    void look_for_marker(bool changed, Instant now);

    TurnSetting& setting_;
    wire::Message message_;
    Phase phase_ = Phase::running;
    TurnFiles files_;
    std::optional<process::Spawned> spawned_;
    bool executed_ = false;  // the adapter's program runs
    pid_t adapter_ = 0;
    UniqueFd output_;
    UniqueFd error_;
    std::string kept_;  // the beginning of standard output
    uint64_t output_bytes_ = 0;
    std::string error_tail_;
    uint64_t error_bytes_ = 0;
    std::string cause_;  // why the turn failed; empty: it hasn't
    std::optional<Instant> turn_until_;
    std::optional<Instant> look_at_;  // for the marker, where nothing tells of it
    std::optional<Instant> kill_at_;
    std::optional<Instant> sweep_until_;
    bool marked_ = false;
    bool nothing_left_ = false;
    std::string reply_;
};

}  // namespace mosaic::runner
