#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "wire/codes.h"

namespace mosaic::sim {

class World;

// What really happened to each run, as the disk, the broker's commits and the process table tell
// it, beside what the host believes. The checkers compare; nothing in the world reads it to decide.
struct RunTruth {
    uint32_t seat = 0;
    uint32_t model = 0;
    uint32_t ask = 0;
    uint32_t processes = 0;  // alive
    uint32_t acting = 0;     // ... and not sent SIGKILL: those run no code of their own any more
    bool warm = false;       // nobody has asked for it yet
    bool was_warm = false;   // a launch took it
    bool in_host = false;    // a slot or a leftover of the living host has it
    bool directory = false;
    bool in_file = false;  // the image that the next host would read has an entry
    // Durable at the broker.
    bool bound = false;
    bool claimed = false;
    bool released = false;
    bool ended = false;
    uint32_t ends = 0;
    uint32_t end_lines = 0;
    bool found = false;      // by a later broker, of a commit that was answered as failed
    bool delivered = false;  // its capability may have left the host
    EndReason reason = EndReason::failed;  // as recorded
    int64_t claimed_at = 0;
    int64_t found_at = 0;

    // Holds no seat and no room: warm, or taken by a launch that the broker hasn't heard of.
    [[nodiscard]] bool nobodys() const { return warm || (was_warm && !bound); }

    [[nodiscard]] bool forgettable() const {
        return !in_host && !directory && !in_file && processes == 0 && (!bound || ended);
    }
};

class Truth {
  public:
    explicit Truth(World& world) : world_(world) {}

    // Runs are numbered from 1.
    uint32_t begin_run();
    RunTruth& operator[](uint32_t run);

    [[nodiscard]] bool remembers(uint32_t run) const { return run >= first_; }

    [[nodiscard]] uint32_t next() const { return next_; }

    [[nodiscard]] uint32_t first() const { return first_; }

    void forget_old();
    // Every run that has processes is in the file that the next host reads.
    [[nodiscard]] bool all_in_file() const;
    void host_died();

    // Checkers, each where the world does the thing.
    void seat_starts(uint32_t run);
    void process_made(uint32_t run);
    // A launch that was begun as another run goes on as this one; the sandbox is of the kind that
    // the launch's checks found, or not.
    void warm_taken(uint32_t run, bool fits);
    void capability_leaves(uint32_t run);
    void reply_launched(uint32_t run);
    void entry_leaves(uint32_t run);
    void run_over(uint32_t run);
    // A leftover is about to be ended.
    void leftover_ends(uint32_t run);
    void directory_removed(uint32_t run);
    void end_committed(uint32_t run, EndReason reason);
    void claim_committed(uint32_t run);

  private:
    void check_capacity(uint32_t model, uint32_t more);

    World& world_;
    std::deque<RunTruth> runs_;
    uint32_t first_ = 1;
    uint32_t next_ = 1;
};

}  // namespace mosaic::sim
