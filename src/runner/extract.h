#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "wire/json.h"

// What an agent program answered, taken out of its JSON lines, for adapters that are shell scripts
// and can read no JSON. Whether a turn went well is in these lines too: an exit code of 0 proves
// nothing with programs that report an API's refusal as their answer.
//
// A pointer is a JSON pointer (RFC 6901) in which the token "*" means every element of an array.

namespace mosaic::runner {

// The value at `pointer` is the string `text`, or true, false, null or a number written so.
struct ExtractCondition {
    std::string pointer;
    std::string text;

    bool operator==(const ExtractCondition&) const = default;
};

struct ExtractRules {
    std::vector<ExtractCondition> where;   // all hold: this line is an answer; the last one counts
    std::string text;                      // the answer: all strings there, one after the other
    std::vector<ExtractCondition> failed;  // one holds: it is a failure
    std::string reason;                    // what a failure says; empty: `text`
};

// The words after `mosaic-runner extract`:
//   --where POINTER=TEXT ... --text POINTER [--failed POINTER=TEXT ...] [--reason POINTER]
[[nodiscard]] Result<ExtractRules> parse_extract_rules(const std::vector<std::string_view>& words);

struct Extracted {
    bool failed = false;
    std::string text;

    bool operator==(const Extracted&) const = default;
};

// What this line says; nothing when it isn't an answer.
[[nodiscard]] std::optional<Extracted> extract(const ExtractRules& rules, std::string_view line);

// A longer line is passed over: some programs repeat all that they have so far.
constexpr size_t kExtractLineBytesMax = size_t{16} * 1024 * 1024;

// `mosaic-runner extract RULES...`: reads standard input to its end. Prints the last answer and
// returns 0; a failure's reason goes to standard error and returns 1; no answer at all, with the
// last line that wasn't JSON, 2; rules that are none 4.
[[nodiscard]] int run_extract(const std::vector<std::string_view>& words);

}  // namespace mosaic::runner
