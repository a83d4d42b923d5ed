#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "wire/json.h"

// Programs and sockets as the end-to-end tests use them. Nothing here shares code with what the
// product does for the same purpose: a fault there must not hide itself here. Every wait has a
// deadline and ends with the event it waits for.

namespace mosaic::e2e {

// The longest that any single thing may take, on a slow machine with sanitizers.
constexpr int kWaitMs = 40'000;

using Environment = std::map<std::string, std::string>;

struct Exit {
    int code = -1;   // -1: ended by a signal
    int signal = 0;  // 0: exited
};

// A program that ran to its end.
struct Finished {
    Exit exit;
    bool timed_out = false;
    std::string out;
    std::string err;

    // The standard output as one JSON document; fails the test when it isn't one.
    [[nodiscard]] json::Value json() const;
    // ... as one document a line.
    [[nodiscard]] std::vector<json::Value> json_lines() const;
};

// Runs a program to its end; kills it when the deadline passes.
[[nodiscard]] Finished run(const std::vector<std::string>& argv,
                           const Environment& env,
                           int timeout_ms = kWaitMs);

// A running program, killed and reaped by the destructor at the latest.
class Child {
  public:
    struct Streams {
        int out = -1;  // -1: /dev/null
        int err = -1;
        std::vector<int> extra;  // inherited under their own numbers, without close-on-exec
    };

    static Child start(const std::vector<std::string>& argv,
                       const Environment& env,
                       const Streams& streams);

    Child() = default;
    Child(Child&& other) noexcept;
    Child& operator=(Child&& other) noexcept;
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child();

    [[nodiscard]] pid_t pid() const { return pid_; }

    [[nodiscard]] bool running() const { return pid_ > 0; }

    [[nodiscard]] int pidfd() const { return pidfd_.get(); }

    void signal(int number) const;
    // Nothing when it still runs at the deadline.
    std::optional<Exit> wait(int timeout_ms = kWaitMs);

  private:
    void end();

    pid_t pid_ = 0;
    UniqueFd pidfd_;
};

// One end of a stream of lines: a socket or a pipe.
class LineStream {
  public:
    LineStream() = default;

    explicit LineStream(UniqueFd fd) : fd_(std::move(fd)) {}

    // Connects to a Unix socket; not valid when that fails.
    static LineStream connect(const std::string& path);

    [[nodiscard]] bool valid() const { return fd_.valid(); }

    // The other end is known to be gone.
    [[nodiscard]] bool ended() const { return ended_; }

    [[nodiscard]] int fd() const { return fd_.get(); }

    // False when the other end is gone.
    bool send(std::string_view bytes);
    // Says that nothing more will come, and goes on reading.
    void finish_sending();
    // The next line without its newline; nothing at the end of the stream or at the deadline.
    std::optional<std::string> line(int timeout_ms = kWaitMs);
    // Waits for the other end to close; false at the deadline. What was sent before it is dropped.
    bool closed(int timeout_ms = kWaitMs);
    // Whether a line or the end comes within this time. For "nothing happens" only.
    bool quiet(int timeout_ms);

    void close() { fd_.reset(); }

    // One broker request and its reply; the test fails when none comes. `cap` empty: none.
    json::Value request(std::string_view verb, json::Value args, std::string_view cap = "");
    // The two halves of it, for requests whose reply comes later.
    int64_t ask(std::string_view verb, json::Value args, std::string_view cap = "");
    json::Value reply(int64_t id);

  private:
    bool fill(int timeout_ms);

    UniqueFd fd_;
    std::string buffer_;
    bool ended_ = false;
    int64_t next_id_ = 1;
    std::vector<json::Value> early_;  // replies that came before they were asked for
};

// Calls `done` now and after each change below the directories until it is true, and returns
// whether it became so in time. The directories must exist.
class Watch {
  public:
    explicit Watch(const std::vector<std::string>& directories);
    // Waits for the next change; false at the deadline.
    bool next(int timeout_ms);

  private:
    UniqueFd inotify_;
};

template <class Done>
bool wait_for_change(const std::vector<std::string>& directories,
                     Done done,
                     int timeout_ms = kWaitMs);

// Milliseconds on the monotonic clock, for deadlines only.
[[nodiscard]] int64_t now_ms();

// The whole of a file, empty when it can't be read.
[[nodiscard]] std::string read_text(const std::string& path);
void write_text(const std::string& path, std::string_view text, mode_t mode = 0644);
// Octal permission bits of a path, 0 when it doesn't exist.
[[nodiscard]] mode_t mode_of(const std::string& path);
[[nodiscard]] bool exists(const std::string& path);
// Names in a directory, sorted, without . and .. .
[[nodiscard]] std::vector<std::string> names_in(const std::string& path);

// Waits until the process is gone or a zombie; false at the deadline.
[[nodiscard]] bool wait_gone(pid_t pid, int timeout_ms = kWaitMs);
// Field 22 of /proc/PID/stat, empty when there is no such process or it is a zombie.
[[nodiscard]] std::string start_time_of(pid_t pid);

template <class Done>
bool wait_for_change(const std::vector<std::string>& directories, Done done, int timeout_ms) {
    Watch watch(directories);
    const int64_t deadline = now_ms() + timeout_ms;
    while (!done()) {
        const int64_t left = deadline - now_ms();
        if (left <= 0 || !watch.next(static_cast<int>(left))) {
            return done();
        }
    }
    return true;
}

}  // namespace mosaic::e2e
