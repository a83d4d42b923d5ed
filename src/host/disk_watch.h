#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "host/children.h"
#include "host/loop.h"

namespace mosaic::host {

struct OverDisk {
    std::string run;
    uint64_t bytes = 0;
};

// Looks every limits.diskCheckSeconds at how much each live session has written to its rw/, in a
// child, for such trees may be of any size and shape. A check and no quota: between two looks a
// session may write as much as the disk takes. Without a live session nothing looks and no timer
// runs.
class DiskWatch {
  public:
    // `runs` is the directory that holds the runs', open; everything outlives this.
    DiskWatch(Loop& loop, Children& children, const config::Limits& limits, int runs);

    // A session has become live.
    void wake();

    // The time for a look has come; `live` are the runs of the live sessions.
    void on_timer(const std::vector<std::string>& live);

    // Takes the result when it is that of its own child.
    bool settle(const ChildResult& result);

    // Runs that were found over the limit.
    [[nodiscard]] std::optional<OverDisk> take_over();

    // The host stops: no further look, and one under way is ended.
    void stop();

  private:
    void arm();

    Loop& loop_;
    Children& children_;
    const config::Limits& limits_;
    int runs_;
    bool armed_ = false;  // or a look is under way, which arms again
    bool stopped_ = false;
    uint64_t job_ = 0;
    uint64_t looks_ = 0;
    std::deque<OverDisk> over_;
};

// The order of a look: each begins with another run. A look has a time limit, and one session's
// tree may be made to use it up; the others' turn comes first in the looks that follow. Pure.
[[nodiscard]] std::vector<std::string> in_turn(std::vector<std::string> live, uint64_t look);

// What the child says of one run, a line each: "<run> <bytes> <directories that it couldn't read>".
struct DiskLine {
    std::string run;
    uint64_t bytes = 0;
    uint64_t unread = 0;
};

// Pure. What isn't such a line, or not a whole one, is left out.
[[nodiscard]] std::vector<DiskLine> parse_disk_lines(const std::string& output);

// ---- the child's part ----

constexpr const char* kMeasureRun = "--measure-run";
constexpr const char* kEnough = "--enough";

// Measures rw/ of each run below `runs` and prints a line for those that reach `enough` bytes or
// that can't be read whole. Returns the exit code.
int measure_in_runs(int runs, const std::vector<std::string>& names, uint64_t enough);

}  // namespace mosaic::host
