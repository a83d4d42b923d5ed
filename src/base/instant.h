#pragma once

#include <compare>
#include <cstdint>
#include <string>

// Time as data. Machines get Instants in their events and never read a clock; only the shell's
// clock source calls clock_gettime.

namespace mosaic {

// Nanoseconds on CLOCK_MONOTONIC. Deadlines use only this: a stepped wall clock moves none of them.
struct Instant {
    int64_t ns = 0;

    auto operator<=>(const Instant&) const = default;
};

struct Duration {
    int64_t ns = 0;

    auto operator<=>(const Duration&) const = default;
};

constexpr Duration milliseconds(int64_t n) {
    return Duration{n * 1'000'000};
}

constexpr Duration seconds(int64_t n) {
    return Duration{n * 1'000'000'000};
}

constexpr Instant operator+(Instant at, Duration by) {
    return Instant{at.ns + by.ns};
}

constexpr Duration operator-(Instant later, Instant earlier) {
    return Duration{later.ns - earlier.ns};
}

// Whole microseconds, rounded down.
constexpr int64_t to_us(Duration d) {
    return d.ns / 1000;
}

// The clock source: the only place that reads clocks.
[[nodiscard]] Instant monotonic_now();

// Milliseconds since the epoch on CLOCK_REALTIME, for what people read; never for deadlines.
[[nodiscard]] int64_t wall_clock_ms();

// ISO 8601 in UTC with milliseconds, "2026-01-31T12:34:56.789Z".
[[nodiscard]] std::string iso8601(int64_t wall_ms);

}  // namespace mosaic
