#pragma once

#include <sys/types.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "process/spawn.h"
#include "wire/limits.h"
#include "wire/lines.h"
#include "wire/messages.h"

// The real program over real sockets. The test stands where the host does: it makes and keeps the
// listening sockets, holds the other end of the control pair, and starts the program again.

namespace mosaic::broker::test {

// One end of a stream of frames. Waits at most 20 s for a frame; a REQUIRE fails then.
class Line {
  public:
    explicit Line(UniqueFd fd) : fd_(std::move(fd)) {}

    void send_bytes(const std::string& bytes);

    // Sends without waiting for the reply; returns the request's id.
    int64_t post(const std::string& verb, json::Value args, const std::string& cap = "");
    wire::Reply wait_reply(int64_t id);

    wire::Reply ask(const std::string& verb, json::Value args, const std::string& cap = "") {
        return wait_reply(post(verb, std::move(args), cap));
    }

    // The next request of the other side (on the control pair).
    wire::Request wait_request();

    void answer(const wire::Reply& reply) { send_bytes(wire::encode(reply)); }

    // Reads until the stream ends; true when it ended. Frames on the way are kept.
    bool closed();

    // A request after this one finds the stream as usable as it was: the reply to `id` never comes
    // before it. Whether a reply to `id` is here already.
    [[nodiscard]] bool has_reply(int64_t id) const { return replies_.contains(id); }

    [[nodiscard]] int fd() const { return fd_.get(); }

    void close() { fd_.reset(); }

  private:
    // False at the end of the stream.
    bool read_more();
    void take_frames();

    UniqueFd fd_;
    wire::LineBuffer in_{limits::kFrameBytesMax};
    std::map<int64_t, wire::Reply> replies_;
    std::deque<wire::Request> requests_;
    int64_t next_ = 1;
};

// A process of its own that connects for the test, so that the kernel names it as the peer. It
// lives until it is destroyed; the test uses the connection.
class Runner {
  public:
    Runner();
    Runner(const Runner&) = delete;
    Runner& operator=(const Runner&) = delete;
    ~Runner();

    UniqueFd connect(const std::string& path);

    [[nodiscard]] wire::ProcessIdentity identity() const;

    [[nodiscard]] pid_t pid() const { return pid_; }

    // Ends it; the connections that it made stay open in the test.
    void kill();

  private:
    pid_t pid_ = -1;
    std::string start_time_;
    UniqueFd channel_;
};

UniqueFd connect_to(const std::string& path);

struct Ended {
    int code = -1;
    int signal = 0;
    std::string log;  // what it wrote to standard error
};

class World {
  public:
    World();
    World(const World&) = delete;
    World& operator=(const World&) = delete;
    ~World();

    // Starts the program; `host` is the control line afterwards.
    void start();
    void start_configured();
    // Ends the control pair and waits.
    Ended stop();
    void send_signal(int signal) const;
    Ended wait_end();

    [[nodiscard]] pid_t broker() const { return process_->pid(); }

    // Binds the runner's process as this seat's run. Returns the capability.
    std::string bind(const Runner& runner, const Seat& seat, const std::string& run);

    struct Session {
        std::unique_ptr<Runner> runner;
        std::unique_ptr<Line> line;
        Seat seat;
        std::string run;
        std::string cap;

        wire::Reply ask(const std::string& verb, json::Value args) const {
            return line->ask(verb, std::move(args), cap);
        }
    };

    // Bound, connected and claimed; the host's `claimed` is answered.
    Session session(const Seat& seat, const std::string& run);
    void claim(const Session& session);

    std::unique_ptr<Line> admin() const { return std::make_unique<Line>(connect_to(admin_path)); }

    std::vector<json::Value> all_events() const;

    std::string directory;
    std::string store;
    std::string bus_path;
    std::string admin_path;
    std::unique_ptr<Line> host;

  private:
    UniqueFd bus_;
    UniqueFd admin_;
    UniqueFd log_;
    std::optional<process::Spawned> process_;
};

wire::BrokerConfig acme();

std::string text_of(const json::Value& object, const char* key);

wire::MessageSendArgs letter(const Seat& to, const std::string& body);

inline const json::Value kNothing = json::Object{};
constexpr const char* kPmRun = "r000000000001";
constexpr const char* kCoderRun = "r000000000002";
constexpr const char* kOtherRun = "r000000000003";

}  // namespace mosaic::broker::test
