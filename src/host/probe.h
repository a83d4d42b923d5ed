#pragma once

#include <optional>
#include <string>

#include "host/children.h"
#include "host/settings.h"
#include "sandbox/probe.h"

namespace mosaic::host {

// Whether bwrap works here: tried once with a launch's own flags, and again when bwrap became
// another file, when a launch failed as if it didn't, or when it didn't work the last time. Never
// blocks.
class Probe {
  public:
    Probe(Children& children, const Settings& settings);

    enum class Answer {
        works,
        broken,   // unavailable() says why
        unknown,  // being tried; ask again when settled() was true
    };

    // For a new request. `again`: it has waited for a try already, so the last result counts.
    [[nodiscard]] Answer ask(bool again);

    [[nodiscard]] const sandbox::Unavailable& unavailable() const { return unavailable_; }

    [[nodiscard]] const std::string& bwrap_version() const { return version_; }

    // A launch failed in a way that puts the last result in doubt.
    void doubt() { known_good_.reset(); }

    // The settings are new ones: whatever was found out, and what is being tried, counts no more.
    void forget();

    // The last try went well.
    [[nodiscard]] bool works() const { return known_good_.has_value(); }

    // The host stops: a try under way is ended.
    void give_up();

    // Takes the result when it is one of its own; true when a try has just been settled.
    bool settle(const ChildResult& result);

  private:
    // False when it can't even be tried; unavailable() says why.
    [[nodiscard]] bool start(const sandbox::FileIdentity& identity);

    Children& children_;
    const Settings& settings_;
    std::optional<sandbox::FileIdentity> known_good_;
    sandbox::FileIdentity trying_;
    uint64_t try_job_ = 0;
    uint64_t version_job_ = 0;
    std::string version_;
    sandbox::Unavailable unavailable_;
};

}  // namespace mosaic::host
