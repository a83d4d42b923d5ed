#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "host/loop.h"

namespace mosaic::host {

// What the last part of a launch log says of ends: enough for what one host can have left behind.
struct LoggedEnds {
    std::set<std::string> runs;  // whose `end` line is there
    // As in a line: what was written from then on is there, if it was written to this file. The
    // file's birth, or the first line where the part doesn't begin with the file or the file system
    // keeps no births.
    std::string since = "~";  // later than any
};

// Blocking: for the start. A log that can't be read has none.
[[nodiscard]] LoggedEnds logged_ends(int launches_directory, const std::string& name);

// Appends lines to launches/<business>.jsonl through the ring, in order, one write at a time. A
// write that fails (a full disk) is tried again later and loses nothing but what no longer fits the
// buffer; both are said once, when it begins and when it is over. The lines are for people: what
// must survive a crash of the machine is the broker's.
class LaunchLog {
  public:
    static constexpr size_t kBufferBytesMax = size_t{8} * 1024 * 1024;

    explicit LaunchLog(Loop& loop);

    // Opens the file for appending (made 0600), or keeps the old one and returns why not. A line of
    // which only a part went into another file than this one is written here whole.
    [[nodiscard]] Result<void> open(int launches_directory, const std::string& name);

    void append(const std::string& line);

    void on_write_done();
    void on_retry();

    // Nothing waits to be written.
    [[nodiscard]] bool quiet() const { return waiting_.empty() && under_way_.empty(); }

  private:
    void write_more();
    void begin_line_again();
    void say_it_is_over();

    Loop& loop_;
    reactor::Op op_;
    UniqueFd file_;
    UniqueFd old_file_;      // of before a reopening, until its write is done
    bool moved_ = false;     // ... and the file opened since is another one
    std::string under_way_;  // what the kernel may be reading
    size_t written_ = 0;
    std::string waiting_;
    uint64_t dropped_ = 0;
    bool failing_ = false;     // waits for the retry
    bool complained_ = false;  // said so, and not yet that it is over
};

}  // namespace mosaic::host
