#pragma once

#include <compare>
#include <string>
#include <string_view>

// Names that users choose and that become parts of paths. They are checked against the pattern
// before any path is joined, so "..", "a/b", an embedded NUL or an empty name can never reach one.

namespace mosaic {

constexpr size_t kIdBytesMax = 64;

// ^[a-z0-9][a-z0-9-]{0,63}$ : a business, an instance, a thread, a human, a harness module.
[[nodiscard]] bool is_id(std::string_view text);

// ^r[0-9a-f]{12}$ : a run.
[[nodiscard]] bool is_run_id(std::string_view text);

// "r" and twelve hex digits from six random bytes; the caller brings the randomness.
[[nodiscard]] std::string run_id_from(const unsigned char (&random)[6]);

// What can run once at a time: an instance, or one thread of it. An empty thread is the plain run.
struct Seat {
    std::string instance;
    std::string thread;

    auto operator<=>(const Seat&) const = default;
};

// "coder" or "coder/thread-1", for messages to people.
[[nodiscard]] std::string describe(const Seat& seat);

}  // namespace mosaic
