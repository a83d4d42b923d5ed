#include "runner/turn_text.h"

#include <algorithm>

#include "base/ids.h"
#include "base/utf8.h"
#include "wire/limits.h"

namespace mosaic::runner {
namespace {

// Room for the line that says how much was cut.
constexpr size_t kNoticeBytesMax = 128;
// What a failure shows of standard error.
constexpr size_t kErrorTailBytesMax = 4096;
constexpr size_t kCauseBytesMax = 1024;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

std::string launches_line(const wire::StateFacts& state) {
    const std::string word = state.launches_allowed ? "allowed" : "revoked";
    if (state.launches_switched_at.empty()) {
        return "Launches: " + word + " (never switched).\n";
    }
    return "Launches: " + word + " since " + state.launches_switched_at + ".\n";
}

// Without a last character of which only the first bytes are there (RFC 3629).
std::string_view without_partial_character(std::string_view text) {
    const size_t back_max = std::min<size_t>(3, text.size());
    for (size_t back = 1; back <= back_max; ++back) {
        const auto c = static_cast<unsigned char>(text[text.size() - back]);
        if ((c & 0xC0U) != 0x80U) {
            const size_t needed = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
            return needed > back ? text.substr(0, text.size() - back) : text;
        }
    }
    return text;
}

// The last whole lines that fit, or the last bytes when a line is longer than that.
std::string_view last_lines(std::string_view text) {
    if (text.size() <= kErrorTailBytesMax) {
        return text;
    }
    text.remove_prefix(text.size() - kErrorTailBytesMax);
    const size_t newline = text.find('\n');
    if (newline != std::string_view::npos && newline + 1 < text.size()) {
        text.remove_prefix(newline + 1);
    }
    return text;
}

}  // namespace

std::string request_text(const wire::Message& message, const wire::StateFacts& state) {
    return "Current state, read at " + state.read_at + ":\n" + launches_line(state) +
           "Open tasks: " + std::to_string(state.open_tasks) + ".\n\nMessage " + message.id +
           " from " + describe(Seat{message.from, message.from_thread}) + ", sent " + message.at +
           ", class " + std::string(to_string(message.message_class)) + ":\n\n" + message.body;
}

std::string_view cut_at_character(std::string_view text, size_t bytes_max) {
    if (text.size() <= bytes_max) {
        return text;
    }
    size_t end = bytes_max;
    // A continuation byte is 10xxxxxx (RFC 3629); a character has at most three of them.
    while (end > 0 && bytes_max - end < 4 &&
           (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
        --end;
    }
    return text.substr(0, end);
}

std::string request_for_environment(std::string_view request) {
    std::string out;
    request = cut_at_character(request, limits::kRequestEnvBytesMax);
    out.reserve(request.size());
    for (const char c : request) {
        if (c == '\0') {
            out += kReplacement;
        } else {
            out += c;
        }
    }
    out.resize(cut_at_character(out, limits::kRequestEnvBytesMax).size());
    return out;
}

std::string reply_body(std::string_view kept, uint64_t total) {
    constexpr size_t kTextMax = limits::kMessageBodyBytesMax - kNoticeBytesMax;
    const bool cut_before = kept.size() != total;
    // Replacing bad bytes makes a text longer, so the limit is applied afterwards.
    std::string out = to_valid_utf8(cut_before ? without_partial_character(kept) : kept);
    const bool cut_now = out.size() > kTextMax;
    if (cut_now) {
        out.resize(cut_at_character(out, kTextMax).size());
    }
    if (cut_before || cut_now) {
        out += "\n[cut: the turn wrote " + std::to_string(total) + " bytes]\n";
    }
    return out;
}

std::string failure_body(std::string_view cause, std::string_view error_tail) {
    std::string out = "The turn failed: ";
    out += to_valid_utf8(cut_at_character(cause, kCauseBytesMax));
    out += ".\n";
    const std::string tail = to_valid_utf8(last_lines(error_tail));
    if (!tail.empty()) {
        out += "\nThe end of its standard error:\n" + tail;
    }
    return out;
}

}  // namespace mosaic::runner
