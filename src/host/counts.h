#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/instant.h"
#include "metrics/histogram.h"
#include "wire/codes.h"

namespace mosaic::host {

// What a launch has reached, in the order of the launch log.
enum class Stage : uint8_t {
    checked,
    authorized,
    prepared,
    spawned,
    bound,
    persisted,
    delivered,
    claimed,
};
constexpr size_t kStages = static_cast<size_t>(Stage::claimed) + 1;

[[nodiscard]] std::string_view to_string(Stage stage);

// What the host counts while it runs, from 0 at its start. Adding allocates nothing and reads no
// clock, so any part may do it anywhere; docs/metrics.md says what each means.
struct Counts {
    std::array<metrics::Counter, kRefusals> refused;
    metrics::Histogram cold;  // launch-to-claim, a sandbox started for it
    metrics::Histogram warm;  // ... and by a warm seat
    std::array<metrics::Histogram, kStages> stages;
    std::array<metrics::Counter, kEndReasons> ended;
    metrics::Histogram spawn;  // one call, which the loop waits for

    metrics::Histogram sessions_file;  // one replacement of sessions.json, made durable
    metrics::Counter sessions_file_failures;

    metrics::Counter ticks;
    Duration busy;  // of the loop, all in all

    metrics::Counter broker_restarts;
    metrics::Counter launch_strangers;  // connections to launch.sock that were closed unread

    void refuse(Refusal code) { refused[static_cast<size_t>(code)].add(); }

    void end(EndReason reason) { ended[static_cast<size_t>(reason)].add(); }

    // A launch that was asked for at `asked` and reached each stage at `reached`. What a stage took
    // is counted from the latest stage before it: one that was over sooner than that took none.
    void launch(Instant asked, const std::array<Instant, kStages>& reached, bool was_warm);
};

// The sessions by what they are doing. A launch that a check refuses was never one.
struct Census {
    uint64_t live = 0;
    uint64_t launching = 0;  // being set up, until the claim
    uint64_t waiting = 0;    // before that: for the broker's word, or for their turn to set up
    uint64_t ending = 0;
    uint64_t warm = 0;  // wait for a launch

    bool operator==(const Census&) const = default;
};

}  // namespace mosaic::host
