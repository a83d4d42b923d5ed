#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "wire/codes.h"
#include "wire/json.h"

// launches/<business>.jsonl: one line for each launch, refusal and end. Each encoder returns one
// line with its newline; `at` is ISO 8601 in UTC with milliseconds (base/instant.h).

namespace mosaic::registry {

// Microseconds from the request's last byte to each stage's end, in the order of the stages.
struct LaunchStages {
    int64_t checked = 0;
    int64_t authorized = 0;
    int64_t prepared = 0;
    int64_t spawned = 0;
    int64_t bound = 0;
    int64_t persisted = 0;
    int64_t delivered = 0;
    int64_t claimed = 0;

    bool operator==(const LaunchStages&) const = default;
};

struct LaunchLine {
    std::string at;
    Seat seat;
    std::string run;
    std::string launched_by;
    std::string harness;
    std::string provider;
    std::string model;
    LaunchStages stages;
};

struct RefusedLine {
    std::string at;
    Refusal code = Refusal::bad_request;
    Seat seat;
    std::string reason;  // for people
    std::string by;      // the caller's instance, or the human
};

struct EndLine {
    std::string at;
    Seat seat;
    std::string run;
    EndReason reason = EndReason::failed;
    std::optional<int64_t> exit_code;  // null when it died of a signal or nobody knows
    std::string signal;                // "SIGKILL"; empty: null
    std::string detail;                // empty: left out
};

[[nodiscard]] std::string encode(const LaunchLine& line);
[[nodiscard]] std::string encode(const RefusedLine& line);
[[nodiscard]] std::string encode(const EndLine& line);

// One line as a reader for people needs it. Fields that the line doesn't have, or has with another
// kind of value, are empty: a log that a newer host wrote stays readable.
struct LogRecord {
    std::string event;
    std::string at;
    Seat seat;
    std::string run;
    json::Value value;  // the whole line
};

// Nothing when the line isn't one JSON object (a line that a crash cut short, say).
[[nodiscard]] std::optional<LogRecord> parse_log_line(std::string_view line);

}  // namespace mosaic::registry
