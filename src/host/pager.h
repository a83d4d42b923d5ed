#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "host/children.h"
#include "host/settings.h"
#include "wire/messages.h"

namespace mosaic::host {

// Runs the program that `notify` of the system file names when the human is needed: a session asks
// for a decision, or sends the human a message. One program at a time, each need once; when more
// than kWaitingMax wait the oldest of them are left out, for the broker has them all.
class Pager {
  public:
    static constexpr size_t kWaitingMax = 32;
    static constexpr size_t kToldMax = 1024;

    // Both outlive it. The settings may change; what begins then goes by the new ones.
    Pager(Children& children, const Settings& settings);

    // Nothing when no program is named, or when it was told of this one before.
    void page(const wire::NeedArgs& need);

    // Takes the result when it is that of its own child.
    bool settle(const ChildResult& result);

    // The host stops: nobody is told any more.
    void stop();

  private:
    void start();

    Children& children_;
    const Settings& settings_;
    std::deque<wire::NeedArgs> waiting_;
    std::deque<std::string> told_;  // ids, the oldest first
    uint64_t job_ = 0;
    std::string program_;  // that it runs; the settings may name another by its end
    bool stopping_ = false;
};

// The one argument that the program gets beside its own. Pure.
[[nodiscard]] std::string page_text(const std::string& business, const wire::NeedArgs& need);

}  // namespace mosaic::host
