#include "sandbox/status.h"

#include <algorithm>
#include <limits>

#include "base/utf8.h"
#include "wire/json.h"

namespace mosaic::sandbox {
namespace {

constexpr size_t kErrorLineBytesMax = 300;
constexpr int kSignalBase = 128;  // a shell's and bwrap's way to say "died of signal n" in a code
constexpr int kExitCodeMax = 255;

bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Nothing when the key isn't there; an error when its value isn't an integer in [min, max].
Result<std::optional<int>> number_of(const json::Value& object,
                                     std::string_view key,
                                     int min,
                                     int max) {
    const json::Value* value = object.find(key);
    if (value == nullptr) {
        return std::optional<int>();
    }
    const int64_t* number = value->integer();
    if (number == nullptr || *number < min || *number > max) {
        return fail(Code::invalid,
                    "bwrap status: " + std::string(key) + ": expected an integer from " +
                        std::to_string(min) + " to " + std::to_string(max));
    }
    return std::optional<int>(static_cast<int>(*number));
}

EndReason reason_of(int exit_code) {
    switch (exit_code) {
        case runner_exit::kStopped:
            return EndReason::stopped;
        case runner_exit::kFounderCredentials:
            return EndReason::founder_credentials;
        case runner_exit::kClaimRefused:
            return EndReason::claim_refused;
        case runner_exit::kSessionInvalid:
            return EndReason::session_invalid;
        case runner_exit::kBrokerUnreachable:
            return EndReason::broker_unreachable;
        default:
            return EndReason::failed;
    }
}

End killed_by(int signal) {
    return End{EndReason::killed, std::nullopt, process::signal_name(signal), ""};
}

}  // namespace

tl::unexpected<Error> StatusParser::fault(const std::string& text) {
    error_ = Error{Code::invalid, 0, "bwrap status: byte " + std::to_string(bytes_) + ": " + text};
    return tl::unexpected<Error>(*error_);
}

Result<void> StatusParser::take_object() {
    const auto value = json::parse(object_);
    object_.clear();
    if (!value) {
        return fault(value.error().text);
    }
    const auto pid = number_of(*value, "child-pid", 1, std::numeric_limits<pid_t>::max());
    const auto code = number_of(*value, "exit-code", 0, kExitCodeMax);
    for (const auto* number : {&pid, &code}) {
        if (!*number) {
            error_ = number->error();
            return tl::unexpected<Error>(*error_);
        }
    }
    if ((pid->has_value() && child_pid_) || (code->has_value() && exit_code_)) {
        return fault(pid->has_value() ? "child-pid stands twice" : "exit-code stands twice");
    }
    child_pid_ = child_pid_ ? child_pid_ : *pid;
    exit_code_ = exit_code_ ? exit_code_ : *code;
    return {};
}

Result<void> StatusParser::feed_byte(char c) {
    ++bytes_;
    if (bytes_ > kStreamBytesMax) {
        return fault("more than " + std::to_string(kStreamBytesMax) + " bytes");
    }
    if (depth_ == 0) {
        if (is_space(c)) {
            return {};
        }
        if (c != '{') {
            return fault("expected an object");
        }
    }
    if (object_.size() == kObjectBytesMax) {
        return fault("an object of more than " + std::to_string(kObjectBytesMax) + " bytes");
    }
    object_ += c;
    if (in_string_) {
        in_string_ = escaped_ || c != '"';
        escaped_ = !escaped_ && c == '\\';
        return {};
    }
    if (c == '"') {
        in_string_ = true;
    } else if (c == '{' || c == '[') {
        ++depth_;
    } else if (c == '}' || c == ']') {
        --depth_;
    }
    return depth_ == 0 ? take_object() : Result<void>{};
}

Result<void> StatusParser::feed(std::string_view bytes) {
    if (error_) {
        return tl::unexpected<Error>(*error_);
    }
    for (const char c : bytes) {
        MOSAIC_TRY(feed_byte(c));
    }
    return {};
}

namespace {

// Bounded, valid UTF-8 and without control characters.
std::string clean_line(std::string_view raw) {
    // Bytes that are no UTF-8 grow when they are replaced, so the cut comes after that; four bytes
    // more are looked at, so that it never falls into a character.
    std::string line = to_valid_utf8(raw.substr(0, kErrorLineBytesMax + 4));
    line.resize(valid_utf8_prefix(std::string_view(line).substr(0, kErrorLineBytesMax)));
    std::replace_if(
        line.begin(),
        line.end(),
        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; },
        ' ');
    const size_t last = line.find_last_not_of(' ');
    line.erase(last == std::string::npos ? 0 : last + 1);
    return line;
}

bool is_blank(std::string_view line) {
    return std::all_of(line.begin(), line.end(), is_space);
}

}  // namespace

std::string first_error_line(std::string_view text) {
    std::string_view first;
    size_t at = 0;
    while (at < text.size()) {
        const size_t end = std::min(text.find('\n', at), text.size());
        const std::string_view line = text.substr(at, end - at);
        at = end + 1;
        if (line.starts_with("bwrap: ")) {
            first = line;
            break;
        }
        if (first.empty() && !is_blank(line)) {
            first = line;
        }
    }
    return clean_line(first);
}

std::string last_line(std::string_view text) {
    while (!text.empty()) {
        const size_t before = text.rfind('\n');
        const std::string_view line =
            before == std::string_view::npos ? text : text.substr(before + 1);
        if (!is_blank(line)) {
            return clean_line(line);
        }
        text = before == std::string_view::npos ? std::string_view() : text.substr(0, before);
    }
    return {};
}

End map_exit(const process::Exit& outer,
             std::optional<int> exit_object,
             std::string_view error_line) {
    if (outer.signal != 0) {
        return killed_by(outer.signal);
    }
    if (outer.exit_code > kSignalBase && process::is_signal(outer.exit_code - kSignalBase)) {
        return killed_by(outer.exit_code - kSignalBase);
    }
    if (outer.exit_code != 0 && !exit_object) {
        const std::string why =
            error_line.empty() ? "bwrap exited without a message" : std::string(error_line);
        return End{EndReason::failed, outer.exit_code, "", "sandbox: " + why};
    }
    return End{reason_of(outer.exit_code), outer.exit_code, "", ""};
}

}  // namespace mosaic::sandbox
