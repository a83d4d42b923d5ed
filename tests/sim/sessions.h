#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/leftovers.h"
#include "wire/messages.h"

namespace mosaic::sim {

class World;
struct Wakeup;
struct ToSession;

// A process for ever, as a pidfd names it: numbers are used again, this isn't.
struct Handle {
    uint32_t index = UINT32_MAX;
    uint32_t life = 0;

    bool operator==(const Handle&) const = default;

    [[nodiscard]] bool valid() const { return index != UINT32_MAX; }
};

struct Process {
    enum class Kind : uint8_t {
        outer,
        runner,
        stranger
    };
    uint32_t life = 0;
    bool in_use = false;  // has its number: alive or a zombie
    bool alive = false;
    bool dying = false;  // SIGKILL was sent
    Kind kind = Kind::stranger;
    uint32_t pid = 0;
    uint64_t start = 0;  // in hundredths of a second since the boot
    uint32_t group = 0;
    uint32_t session = UINT32_MAX;
    uint32_t run = 0;  // stranger: the run directory that its command line names, 0: none
    uint32_t watcher = UINT32_MAX;  // of the host's leftover processes: who is told of its end
    uint32_t watching_host = 0;
};

// How the outer process ended, and what its status pipe said.
struct OuterExit {
    int code = 0;
    int signal = 0;
    bool told_code = false;  // an exit-code object came before the end of the pipe
};

// What a session will do, drawn when it is spawned.
struct Fate {
    bool bwrap_dies = false;
    bool bwrap_hangs = false;
    bool never_claims = false;
    bool stuck_at_end = false;
    bool deaf = false;
    bool leaves_group = false;
    bool outer_dies = false;  // killed alone, at the same moment
    bool dies = false;        // by itself, at a moment that has nothing to do with its work
    int exit_code = 0;
    int signal = 0;  // of the death, 0: exits
    int64_t life_us = 0;
    int64_t dies_after_us = 0;
};

// One sandbox: the outer bwrap, and the runner as pid 1 inside. What it does depends on its pipe,
// the broker and chance; it knows nothing of the host's state.
struct Session {
    enum class Input : uint8_t {
        open,
        line,
        over
    };
    uint32_t life = 0;
    bool in_use = false;
    uint32_t run = 0;
    uint32_t seat = 0;
    uint32_t host_epoch = 0;
    uint32_t host_slot = UINT32_MAX;  // what its host remembers it by
    uint32_t host_generation = 0;
    Handle outer;
    Handle runner;
    Fate fate;
    bool armed = false;     // the runner dies with its outer
    int64_t status_at = 0;  // nothing that it writes later comes out of its status pipe before
    Input input = Input::open;
    uint64_t cap = 0;
    bool read_cap = false;
    bool asked_claim = false;
    bool claimed = false;
    bool stopping = false;
    bool may_launch = false;
    bool warm = false;          // waits for its capability as long as it takes
    uint32_t broker_epoch = 0;  // of its connection, 0: none
    uint32_t retries = 0;
    int runner_code = -1;  // how the runner ended: a code, or 128 + its signal
    OuterExit exit;

    [[nodiscard]] int64_t host_reference() const {
        return static_cast<int64_t>((uint64_t{host_slot} << 32U) | host_generation);
    }
};

enum class Step : uint8_t {
    fork,
    tell_pid,
    arm,
    read,
    claim,
    reply,
    retry,
    work,  // sends, receives, launches
    life_over,
    dies,
    exits,        // x: the code
    outer_exits,  // after its runner
    outer_killed,
    input_late,  // the time for the capability is up
};

// The process table and everything that runs in it but host and broker.
class Sessions {
  public:
    explicit Sessions(World& world) : world_(world) {}

    // ---- what the host's kernel does for it ----
    // The session of a run, or nothing when no process could be made. `seat_may_launch`: its pipe
    // for launches is bound in.
    [[nodiscard]] int64_t spawn(uint32_t run, bool seat_may_launch);
    void kill(Handle process);
    void kill_group(uint32_t group);
    void term(Handle process);
    // The write end: 0 written or EPIPE as a negated errno.
    [[nodiscard]] int64_t write_capability(uint32_t session, uint64_t cap);
    void close_input(uint32_t session);
    void reap(Handle process);
    void watch(Handle process, uint32_t watcher);
    [[nodiscard]] Handle open_pidfd(uint32_t pid) const;
    [[nodiscard]] bool exited(Handle process) const;

    [[nodiscard]] const Process& at(Handle process) const { return processes_[process.index]; }

    // What can be seen of a process, and of all.
    [[nodiscard]] launch::SeenProcess look(uint32_t pid) const;
    [[nodiscard]] std::vector<uint32_t> pids() const;
    [[nodiscard]] wire::ProcessIdentity identity(uint32_t session) const;

    void on_step(const Wakeup& wakeup);
    void on_death(const Wakeup& wakeup);
    void on_reply(const ToSession& reply);

    void host_died();
    void broker_died();
    void reboot();
    // Processes of somebody else's take numbers that sessions.json names and nobody has.
    void plant_strangers(bool rebooted);
    void end_strangers();
    // The run ended at the broker: its connection is closed.
    void close_connection(uint32_t run);

    [[nodiscard]] Session& session(uint32_t index) { return sessions_[index]; }

    [[nodiscard]] uint32_t alive_of_seat(uint32_t seat) const;
    [[nodiscard]] uint32_t alive_of_model(uint32_t model) const;
    [[nodiscard]] uint32_t alive_sessions() const;
    // A live session that may launch, or UINT32_MAX.
    [[nodiscard]] uint32_t some_launcher() const;

  private:
    [[nodiscard]] Handle make(Process::Kind kind, uint32_t session, uint32_t pid);
    [[nodiscard]] uint32_t free_pid();
    [[nodiscard]] uint64_t ticks() const;
    [[nodiscard]] Fate draw_fate() const;
    void later(uint32_t session, Step step, int64_t us, int64_t x = 0);
    void fork_runner(uint32_t index);
    void read_input(uint32_t index);
    void connect(uint32_t index);
    void work(uint32_t index);
    void runner_exits(uint32_t index, int code);
    void exit_outer(uint32_t index, const OuterExit& exit);
    void end_process(Handle process);
    void release_number(uint32_t index);
    void leave_broker(Session& s);
    void recycle(uint32_t index);
    [[nodiscard]] bool runner_alive(const Session& s) const;
    [[nodiscard]] bool outer_alive(const Session& s) const;
    [[nodiscard]] bool counts(const Session& s) const;

    World& world_;
    std::vector<Process> processes_;
    std::vector<uint32_t> free_processes_;
    std::vector<uint32_t> by_pid_;  // index of the process that has the number
    std::vector<Session> sessions_;
    uint32_t next_pid_ = 0;
};

}  // namespace mosaic::sim
