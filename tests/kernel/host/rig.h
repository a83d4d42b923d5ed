#pragma once

#include <doctest/doctest.h>

#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "host/broker_link.h"
#include "host/children.h"
#include "host/clients.h"
#include "host/launch_log.h"
#include "host/loop.h"
#include "host/metrics_port.h"
#include "host/recovery.h"
#include "host/session_store.h"

// What the tests of the host's parts share: the real ring, and a loop that does for one part or two
// what the host's own loop does for all of them.

namespace mosaic::test {

using host::SlotRef;

// Far beyond what anything here takes: only a part that hangs gets there.
constexpr int64_t kPatienceMs = 60'000;

// A loop and the parts that a test makes in it. Where the machine has no io_uring, ok() is false,
// the test says so and returns, unless MOSAIC_MUST_WORK=1.
class Rig {
  public:
    Rig();
    Rig(const Rig&) = delete;
    Rig& operator=(const Rig&) = delete;
    // The ring goes first and gives up what is in flight; the parts after it.
    virtual ~Rig();

    [[nodiscard]] bool ok() const { return loop.ring != nullptr; }

    // One tick: waits for completions or the next timer, gives them to their parts.
    void tick();
    // The same without waiting.
    void tick_now();

    // Ticks until the condition holds.
    template <class Condition>
    void run_until(Condition condition) {
        const Instant limit = monotonic_now() + milliseconds(kPatienceMs);
        collect();  // what a part has said at once needs no completion
        while (!condition()) {
            REQUIRE_MESSAGE(monotonic_now() < limit, "it never came");
            tick();
        }
    }

    // Ticks until the op's completion came, for parts that bring no owner of their own.
    int32_t finish(const reactor::Op& op);
    // Ticks until the descriptor is readable, or at its end.
    void wait_readable(int fd);

    // Makes that much time pass for timers at once.
    void pass(Duration time);

    // How many events of this kind came for the run.
    [[nodiscard]] size_t count(SlotRef run, launch::EventKind kind) const;

    // A tick's completions are dispatched from the last to the first: the ring promises no order.
    bool last_first = false;
    // Ticks that brought both the end of a send to the broker and something from it.
    size_t both_ways = 0;

    host::Loop loop;
    std::unique_ptr<host::Clients> clients;
    std::unique_ptr<host::SessionStore> store;
    std::unique_ptr<host::LaunchLog> log;
    std::unique_ptr<host::Children> children;
    std::unique_ptr<host::BrokerLink> broker;
    std::unique_ptr<host::Recovery> recovery;
    std::unique_ptr<host::MetricsPort> metrics;

    // What came out of the parts, in its order.
    std::vector<host::RunEvent> run_events;
    std::vector<host::LeftoverNews> leftover_events;
    std::deque<host::ClientRequest> requests;
    std::deque<host::ChildResult> results;
    std::deque<host::BrokerNews> news;

  protected:
    virtual void after_tick() {}

  private:
    void run_tick(Instant deadline);
    void dispatch(const reactor::Op& op);
    void dispatch_timers();
    void collect();

    Duration passed_;
    reactor::Op wait_op_;
};

// A directory of its own in /var/tmp (a data root may not lie in /tmp), removed at the end.
class Scratch {
  public:
    Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch();

    [[nodiscard]] const std::string& path() const { return path_; }

    [[nodiscard]] std::string operator/(const std::string& name) const {
        return path_ + "/" + name;
    }

    [[nodiscard]] int fd() const { return fd_.get(); }

  private:
    std::string path_;
    UniqueFd fd_;
};

// A disk of a few pages that can be filled: a tmpfs that is mounted nowhere. valid() is false
// where that isn't allowed; the test says so and returns.
class SmallDisk {
  public:
    static constexpr size_t kPage = 4096;

    explicit SmallDisk(size_t pages);

    [[nodiscard]] bool valid() const { return fd_.valid(); }

    [[nodiscard]] int fd() const { return fd_.get(); }

    // Leaves this many pages free (the rest goes to a file of ours).
    void leave_free(size_t pages) const;

  private:
    size_t pages_;
    UniqueFd fd_;
};

// What is written to standard error while it lives, whole.
class StderrCapture {
  public:
    StderrCapture();
    StderrCapture(const StderrCapture&) = delete;
    StderrCapture& operator=(const StderrCapture&) = delete;
    ~StderrCapture();

    [[nodiscard]] std::string text() const;

  private:
    UniqueFd saved_;
    UniqueFd file_;
};

// How often `part` stands in `text`.
[[nodiscard]] size_t times(const std::string& text, const std::string& part);

// The file's bytes; nothing when there is no such file.
[[nodiscard]] std::optional<std::string> content(int directory, const std::string& name);
// The permission bits, nothing when there is no such name.
[[nodiscard]] std::optional<unsigned> mode_of(int directory, const std::string& name);
void put(int directory, const std::string& name, const std::string& text);

// Waits until the process is gone; false when it still runs after `ms`.
[[nodiscard]] bool exits_within(int pidfd, int ms);

struct Ends {
    UniqueFd a;
    UniqueFd b;
};

[[nodiscard]] Ends make_pipe();        // a: read end
[[nodiscard]] Ends make_socketpair();  // a stream

// Skips with the reason, or fails when MOSAIC_MUST_WORK=1.
void skip(const std::string& why);

// The same for what only root can do here; tests/root runs this binary as root.
void skip_unless_root(const std::string& why);

}  // namespace mosaic::test
