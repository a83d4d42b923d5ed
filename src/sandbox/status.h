#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "process/pidfd.h"
#include "wire/codes.h"

// What bubblewrap tells: its status stream while it runs, and the meaning of its end.

namespace mosaic::sandbox {

// Reads the stream of --json-status-fd: JSON objects one after the other, in pieces of any size,
// several at once or one byte at a time. Keys that nobody needs are skipped; an object whose end
// never comes counts as none. Pure.
class StatusParser {
  public:
    // One object may have this many bytes, the whole stream kStreamBytesMax; bwrap writes some 200.
    static constexpr size_t kObjectBytesMax = size_t{4} * 1024;
    static constexpr size_t kStreamBytesMax = size_t{64} * 1024;

    // Takes the next bytes. After an error the stream can't be followed any further: each later
    // call returns the same error. What was read before it stays.
    Result<void> feed(std::string_view bytes);

    // The runner's pid in our PID namespace, once told. It arrives before the mounts are made.
    [[nodiscard]] std::optional<pid_t> child_pid() const { return child_pid_; }

    // The command's exit code (128+n for signal n). It never comes when the command didn't run.
    [[nodiscard]] std::optional<int> exit_code() const { return exit_code_; }

  private:
    Result<void> feed_byte(char c);
    Result<void> take_object();
    [[nodiscard]] tl::unexpected<Error> fault(const std::string& text);

    std::string object_;  // of the object under way
    int depth_ = 0;
    bool in_string_ = false;
    bool escaped_ = false;
    size_t bytes_ = 0;
    std::optional<pid_t> child_pid_;
    std::optional<int> exit_code_;
    std::optional<Error> error_;
};

// The line that says why bwrap failed, from what it and its command wrote to stderr: the first that
// starts with "bwrap: ", else the first that isn't blank. At most 300 bytes, valid UTF-8, no
// control characters; empty when there is none.
[[nodiscard]] std::string first_error_line(std::string_view text);

// The last line that isn't blank, bounded and cleaned in the same way: what a runner said as it
// ended.
[[nodiscard]] std::string last_line(std::string_view text);

// How a run ended.
struct End {
    EndReason reason = EndReason::failed;
    std::optional<int> exit_code;  // nothing (null) for a death by signal
    std::string signal;            // "SIGKILL"; empty otherwise
    std::string detail;

    bool operator==(const End&) const = default;
};

// The end of the outer bwrap as the end of its run, by the contract's table; `exit_object` is
// StatusParser::exit_code() at the end of the stream, `error_line` first_error_line() of
// runner.log, needed only when they say that the runner never ran. Pure.
[[nodiscard]] End map_exit(const process::Exit& outer,
                           std::optional<int> exit_object,
                           std::string_view error_line);

}  // namespace mosaic::sandbox
