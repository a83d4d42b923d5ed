#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/instant.h"

namespace mosaic::runner {

// The run's capability, in one page of its own: locked where the limits allow, left out of core
// dumps and of forked children, overwritten at the end. Nothing copies it out of there: sockets get
// it as a piece of a gathered write (outbox.h).
class CapabilityPage {
  public:
    // Aborts when there is no memory for one page.
    CapabilityPage();
    CapabilityPage(const CapabilityPage&) = delete;
    CapabilityPage& operator=(const CapabilityPage&) = delete;
    ~CapabilityPage();

    // At most kCapabilityLineBytesMax bytes, which fit a page.
    void set(std::string_view capability);

    [[nodiscard]] std::string_view view() const { return {page_, size_}; }

  private:
    char* page_ = nullptr;
    size_t size_ = 0;
};

enum class CapabilityRead {
    received,
    stopped,  // the signal descriptor became readable first
};

struct CapabilitySource {
    int input = 0;                     // the pipe from the host
    int signals = -1;                  // a descriptor that ends the wait when readable; -1: none
    std::optional<Duration> deadline;  // none: a warm seat waits for as long as it takes
};

// Waits for the one line on standard input and keeps its capability. An end of file before the line
// is an error whatever else happened, a signal included. Errors: an end of file, a line past its
// limit or of another form, the deadline, a failing read. The bytes read are overwritten.
[[nodiscard]] Result<CapabilityRead> read_capability(const CapabilitySource& source,
                                                     CapabilityPage& page);

}  // namespace mosaic::runner
