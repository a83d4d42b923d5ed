#pragma once

#include <string>
#include <vector>

#include "crash/ledger.h"
#include "crash/play.h"
#include "e2e/harness.h"

// One data root that sees one host after another: hosts and brokers that are to die (built with
// crash points), and between them the product, which has to find everything in order.

namespace mosaic::crash {

// Where the programs with crash points are installed.
[[nodiscard]] std::string crash_prefix();

// What is started and killed; see crash_point.cc.
struct Armed {
    std::string point;  // empty: none
    int hit = 1;
};

class Stage {
  public:
    Stage();

    // Starts a host with the point armed, plays the scene against it, and waits for its end.
    // Returns whether the point was hit.
    bool play(const Armed& armed);
    // The points that the last play passed, in order.
    [[nodiscard]] std::vector<std::string> passed() const;

    // The next start, by the product: every promise is checked and every seat launched. Then it is
    // killed, in a way that leaves one of each kind of leftover for the next play: entries of
    // living sessions, a session without an entry, an entry of an ended run.
    void check_and_leave_leftovers();

    [[nodiscard]] e2e::World& world() { return world_; }

    [[nodiscard]] Ledger& ledger() { return ledger_; }

    // Where the product is installed.
    [[nodiscard]] const std::string& product() const { return product_; }

    void start_product();

  private:
    void doctor_sessions(const std::string& unnamed, const json::Value& ended);

    e2e::World world_;
    Ledger ledger_;
    std::string product_;
    std::string directory_;
};

}  // namespace mosaic::crash
