#pragma once

#include <string>
#include <string_view>

#include "e2e/harness.h"

// The test's side of puppet_runner.cc: a runner in a real sandbox that does only what it is told.

namespace mosaic::e2e {

class Puppet;

// Waits for the runners of one instance. Make it before the launch.
class PuppetMaster {
  public:
    PuppetMaster(const World& world, std::string_view instance);
    // What the next runners do before anything else; see puppet_runner.cc.
    void set_mode(std::string_view mode) const;
    // Asks for a launch of the instance and waits for its runner; `id` is the request, for
    // admin.reply(). An older run of the seat may still be about to leave it: its last record is
    // written before the seat is free.
    [[nodiscard]] Puppet launch(LineStream& admin, int64_t& id) const;
    // The next runner that starts.
    [[nodiscard]] Puppet accept() const;
    // Whether none starts within this time.
    [[nodiscard]] bool none_starts(int timeout_ms) const;

  private:
    const World& world_;
    std::string instance_;
    std::string workspace_;
    UniqueFd listener_;
};

class Puppet {
  public:
    Puppet(const World& world, LineStream control, std::string run);

    [[nodiscard]] const std::string& run() const { return run_; }

    // Reads the capability line and returns the capability; the test fails at an end of file.
    std::string capability();
    // The same, but the end of file is "eof".
    std::string capability_line();
    // A connection of the runner's, held by us. Not valid when it was refused.
    LineStream connect(const std::string& path);
    // connect, then claims the seat's role with the capability; the test fails when it is refused.
    LineStream claim(const std::string& capability);
    void exit(int code);
    void make_deaf();
    // It doesn't die with its outer process by itself: whoever ends it then is the host.
    void let_outlive();
    std::string environment();

  private:
    std::string command(std::string_view line);

    const World& world_;
    LineStream control_;
    std::string run_;
};

}  // namespace mosaic::e2e
