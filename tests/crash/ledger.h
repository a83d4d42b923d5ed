#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "e2e/harness.h"

// What a test was promised, over all lives of one data root, and whether it was kept.

namespace mosaic::crash {

class Ledger {
  public:
    explicit Ledger(e2e::World& world) : world_(world) {}

    // A number that was never given before: for a message to the coder, whose body is then
    // number_script(n), or for a name.
    [[nodiscard]] int next() { return next_++; }

    [[nodiscard]] static std::string number_script(int number);

    // The broker has acknowledged this one.
    void acknowledged(int number) { acknowledged_.insert(number); }

    // A launch was granted.
    void granted(const std::string& run) { granted_.insert(run); }

    // With a host that has just said that it is ready: no process of an old session, sessions.json
    // empty, each bound run with exactly one end at the broker and in the launch log,
    // each granted launch among them, no living capability, no directory of an unknown run and one
    // of each known one.
    void check_recovered();
    // With the coder launched: every acknowledged message is carried out, in order.
    void check_messages();

  private:
    struct Records {
        int bound = 0;
        int ended = 0;
        bool told = false;  // its lines were looked at
    };

    void read_events();
    void check_processes();
    void check_log();
    void check_directories();
    void check_capabilities();

    e2e::World& world_;
    int next_ = 0;
    std::set<int> acknowledged_;
    std::set<std::string> granted_;
    int64_t seen_ = 0;  // events
    std::map<std::string, Records> runs_;
};

}  // namespace mosaic::crash
