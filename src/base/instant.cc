#include "base/instant.h"

#include <array>
#include <cstdio>
#include <ctime>

namespace mosaic {
namespace {

int64_t read_clock_ns(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

Instant monotonic_now() {
    return Instant{read_clock_ns(CLOCK_MONOTONIC)};
}

int64_t wall_clock_ms() {
    return read_clock_ns(CLOCK_REALTIME) / 1'000'000;
}

std::string iso8601(int64_t wall_ms) {
    const time_t whole = wall_ms / 1000;
    tm parts{};
    gmtime_r(&whole, &parts);
    std::array<char, 64> text{};
    const int length = std::snprintf(text.data(),
                                     text.size(),
                                     "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                                     parts.tm_year + 1900,
                                     parts.tm_mon + 1,
                                     parts.tm_mday,
                                     parts.tm_hour,
                                     parts.tm_min,
                                     parts.tm_sec,
                                     static_cast<int>(wall_ms % 1000));
    return {text.data(), static_cast<size_t>(length)};
}

}  // namespace mosaic
