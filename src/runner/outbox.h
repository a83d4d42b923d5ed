#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "base/error.h"

namespace mosaic::runner {

// Lines on their way to the broker or the host. Every such line carries the capability; it is kept
// out of here and goes into the socket straight from its page, as the middle of a gathered write.
class Outbox {
  public:
    // `line` is an encoded JSON object without a "cap" member, with its newline; what is sent has
    // the member in front.
    void push(std::string_view line);

    [[nodiscard]] bool empty() const { return lines_.empty(); }

    void clear();

    // Sends what the socket takes now. An error means that the peer is gone.
    [[nodiscard]] Result<void> flush(int fd, std::string_view capability);

  private:
    std::deque<std::string> lines_;  // each without its opening brace
    size_t sent_ = 0;                // bytes of the first line, the capability's among them
};

}  // namespace mosaic::runner
