#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "bench/bus.h"
#include "bench/waiter.h"
#include "process/spawn.h"

namespace mosaic::bench {

constexpr const char* kFlood = "flood";  // this program's own subcommand

// A session that floods the broker: a process of its own, since the broker knows a runner by its
// process, with as many requests under way as a connection may have. It sends itself messages and
// takes and acks them, so that each of its turns writes; what its quota refuses is asked again.
class Flooder {
  public:
    [[nodiscard]] static Result<std::unique_ptr<Flooder>> start(Bus& bus, Waiter& waiter);
    Flooder(const Flooder&) = delete;
    Flooder& operator=(const Flooder&) = delete;
    ~Flooder();

    // From when it returns on, requests are under way.
    [[nodiscard]] Result<void> begin();
    // When it returns, none is. How many were answered since begin().
    [[nodiscard]] Result<int64_t> stop();

  private:
    explicit Flooder(Waiter& waiter) : waiter_(waiter) {}

    [[nodiscard]] Result<std::string> command(const std::string& line);

    Waiter& waiter_;
    UniqueFd commands_;
    UniqueFd answers_;
    wire::LineBuffer lines_{1024};
    std::optional<process::Spawned> child_;
};

// The child's part: commands come on standard input, answers go to standard output. It ends with
// its input, or when the broker closes. Returns the exit code.
int flood(const std::string& bus);

}  // namespace mosaic::bench
