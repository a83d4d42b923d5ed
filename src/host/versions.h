#pragma once

#include <deque>
#include <optional>
#include <string>

#include "harness/route.h"
#include "host/children.h"
#include "host/settings.h"
#include "sandbox/probe.h"

namespace mosaic::host {

// Which version a harness's program says it is: asked once for each file (device, inode, size,
// modification time), by a child in a sandbox that has the program and nothing else: no network, no
// credential, no workspace. Never blocks.
class Versions {
  public:
    Versions(Loop& loop, Children& children, const Settings& settings);

    // The version of the very file that this route binds; empty when it can't be told (the log says
    // why), or when the module doesn't ask for one. Nothing while it is being asked: call again
    // when settle() was true. One that couldn't be told is asked for again after a minute, and
    // nobody waits for that.
    [[nodiscard]] std::optional<std::string> of(const harness::ChosenRoute& route);

    // Asks the programs of all modules that are on, so that no launch needs to wait. Once bwrap is
    // known to work.
    void warm_up();

    // The host stops: what is under way is ended, and nothing is asked any more.
    void give_up();

    // Takes the result when it is one of its own: a version is known that wasn't.
    bool settle(const ChildResult& result);

  private:
    struct Entry {
        sandbox::FileIdentity file;
        std::string path;
        uint64_t job = 0;     // 0: none is under way
        bool known = false;   // one answer came
        std::string version;  // empty: it couldn't be told
        Instant at;           // when it was asked
    };

    Entry* find(const sandbox::FileIdentity& file);
    void ask(Entry& entry, const harness::ChosenRoute& route);

    Loop& loop_;
    Children& children_;
    const Settings& settings_;
    std::deque<Entry> entries_;  // the oldest first
    bool stopping_ = false;
};

}  // namespace mosaic::host
