#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "wire/messages.h"

// The texts of a turn: what the harness is asked and what its sender gets back. Pure.

namespace mosaic::runner {

// The state block, a blank line, the message's heading, a blank line, the body.
[[nodiscard]] std::string request_text(const wire::Message& message, const wire::StateFacts& state);

// What of it fits one environment variable: cut at a character's boundary after at most
// kRequestEnvBytesMax bytes; a NUL, which no variable can hold, becomes U+FFFD.
[[nodiscard]] std::string request_for_environment(std::string_view request);

// The leading bytes of `text`, at most `bytes_max`, that don't end inside a character.
[[nodiscard]] std::string_view cut_at_character(std::string_view text, size_t bytes_max);

// Output as a message body: valid UTF-8, within kMessageBodyBytesMax. `kept` is the beginning of
// the `total` bytes that were written; when they differ, a last line says so.
[[nodiscard]] std::string reply_body(std::string_view kept, uint64_t total);

// What a sender learns of a turn that failed: the cause, and the end of standard error.
[[nodiscard]] std::string failure_body(std::string_view cause, std::string_view error_tail);

}  // namespace mosaic::runner
