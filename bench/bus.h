#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "bench/scratch.h"
#include "bench/waiter.h"
#include "process/spawn.h"
#include "wire/limits.h"
#include "wire/lines.h"
#include "wire/messages.h"

namespace mosaic::bench {

// One end of a stream of the broker's frames. Sending blocks, which few bytes don't come to.
class BusLine {
  public:
    BusLine(UniqueFd socket, Waiter& waiter) : socket_(std::move(socket)), waiter_(waiter) {}

    // Sends a request and returns its id.
    [[nodiscard]] Result<int64_t> post(const std::string& verb,
                                       json::Value args,
                                       const std::string& cap = "");
    // Waits for the reply to it; one that refuses is an error. Requests of the other side are
    // answered ok on the way.
    [[nodiscard]] Result<wire::Reply> reply(int64_t id);
    // Both.
    [[nodiscard]] Result<wire::Reply> ask(const std::string& verb,
                                          json::Value args,
                                          const std::string& cap = "");

  private:
    [[nodiscard]] Result<void> send(const std::string& bytes);
    [[nodiscard]] Result<void> read_more();

    UniqueFd socket_;
    Waiter& waiter_;
    wire::LineBuffer lines_{limits::kFrameBytesMax};
    std::map<int64_t, wire::Reply> replies_;
    int64_t next_id_ = 1;
};

// The broker alone, with this program where the host stands: its sockets and its store lie in
// scratch.plain(), its business has the roles `flooder` and `other`. `scratch` and `waiter` must
// outlive it; it ends the broker.
class Bus {
  public:
    [[nodiscard]] static Result<std::unique_ptr<Bus>> start(const Scratch& scratch,
                                                            Waiter& waiter,
                                                            const std::string& program);
    Bus(const Bus&) = delete;
    Bus& operator=(const Bus&) = delete;
    ~Bus();

    [[nodiscard]] const std::string& path() const { return path_; }

    // A process as the recorded runner of a run of this role; the run's capability.
    [[nodiscard]] Result<std::string> bind(const std::string& role,
                                           const std::string& run,
                                           pid_t runner);
    [[nodiscard]] Result<void> end(const std::string& role, const std::string& run, pid_t runner);

  private:
    Bus(Waiter& waiter, std::string path) : waiter_(waiter), path_(std::move(path)) {}

    Waiter& waiter_;
    std::string path_;
    UniqueFd bus_;
    UniqueFd admin_;
    std::optional<process::Spawned> broker_;
    std::unique_ptr<BusLine> control_;
};

[[nodiscard]] Result<UniqueFd> connect_to(const std::string& path);

}  // namespace mosaic::bench
