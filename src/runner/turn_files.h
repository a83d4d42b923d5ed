#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace mosaic::runner {

// The files of one turn: rw/turns/NNNN.request, .reply and .stderr. The session may write in that
// directory, so each is made new (O_EXCL, no link followed, no FIFO opened); a number of which the
// session has planted any is passed over.
struct TurnFiles {
    std::string number;  // "0001"
    UniqueFd request;
    UniqueFd reply;
    UniqueFd error;
};

// Takes the first free number from `next` on, and leaves `next` behind it.
[[nodiscard]] Result<TurnFiles> make_turn_files(int directory, uint32_t& next);

// The file turn.done of a directory that the session may write in.
class TurnMarker {
  public:
    // Watches the directory `io` (its descriptor stays the caller's) for changes.
    [[nodiscard]] Result<void> watch(int io, std::string name);

    // Readable after a change in the directory; -1 before watch().
    [[nodiscard]] int fd() const { return notify_.get(); }

    // Takes a marker of an earlier turn away, whatever it is.
    [[nodiscard]] Result<void> clear();

    // Drops what fd() has to tell. Bounded; fd() stays readable when there is more.
    void drain() const;

    [[nodiscard]] bool there() const;

  private:
    int io_ = -1;
    std::string name_;
    UniqueFd notify_;
    uint32_t cleared_ = 0;
};

}  // namespace mosaic::runner
