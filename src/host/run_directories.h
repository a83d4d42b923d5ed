#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/instant.h"
#include "config/config.h"
#include "host/children.h"
#include "host/loop.h"

namespace mosaic::host {

// What becomes of the directories of runs that are over, all of it off the loop, in one child at a
// time: tmp/ and home/ of a run go some seconds after its end, together with those of the runs that
// end meanwhile (a child for each would take processor time from the launches that follow); the
// rest of it stays until there are more than limits.runsKept or it has lain for
// limits.runsKeptDays. No link is ever followed.
class RunDirectories {
  public:
    // `runs` is the directory that holds them all, open; everything outlives this.
    RunDirectories(Loop& loop, Children& children, const config::Limits& limits, int runs);

    // The names of all run directories that lie there, the one that was written last at the end.
    [[nodiscard]] std::vector<std::string> list() const;

    // A run that an earlier host ended. In the order of list().
    void adopt(const std::string& run);
    // A run that has ended now.
    void ended(const std::string& run);
    // A run that nobody ever knew: its directory goes whole, now.
    void discard(const std::string& run);

    // Removes what is too many or too old by now.
    void prune();

    // The time for what has gathered has come.
    void on_timer();

    // The host stops: what ended from now on is tidied up by the next start.
    void stop() { stopping_ = true; }

    // Takes the result when it is that of its own child.
    bool settle(const ChildResult& result);

  private:
    // Its age is the monotonic clock's from here on: a step of the wall clock makes nothing old.
    struct Kept {
        std::string run;
        Instant ended;
    };

    struct Work {
        const char* option;
        std::string run;
    };

    void trim(const std::string& run);
    void later(Work work);
    void arm();
    void start();

    Loop& loop_;
    Children& children_;
    const config::Limits& limits_;
    int runs_;
    std::deque<Kept> kept_;  // the oldest first
    std::deque<Work> work_;
    std::deque<Work> under_way_;  // what the child was given
    uint64_t job_ = 0;            // 0: no child is at it
    bool due_ = false;            // what waits is to be done now
    bool armed_ = false;          // a timer runs that makes it due
    bool complained_ = false;     // that no child could be started
    bool stopping_ = false;
};

// ---- the child's part ----

// Names of its options, as the host gives them to its own program.
constexpr const char* kRemoveRun = "--remove-run";
constexpr const char* kTrimRun = "--trim-run";

// Removes whole directories (`remove`), and tmp/ and home/ of others (`trim`), below `runs`. Says
// what doesn't work and goes on; returns the exit code.
int remove_in_runs(int runs,
                   const std::vector<std::string>& remove,
                   const std::vector<std::string>& trim);

}  // namespace mosaic::host
