#include "runner/extract.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/utf8.h"
#include "process/write_all.h"
#include "runner/json_pointer.h"
#include "wire/codes.h"

namespace mosaic::runner {
namespace {

using json::Value;

constexpr int kLineDepthMax = 64;
constexpr size_t kShownBytesMax = 500;

// All values at the pointer, in the order of the text.
std::vector<const Value*> at(const Value& document, std::string_view pointer) {
    std::vector<const Value*> here = {&document};
    for (const std::string& token : pointer_tokens(pointer)) {
        std::vector<const Value*> next;
        for (const Value* one : here) {
            if (token == "*" && one->array() != nullptr) {
                for (const Value& element : *one->array()) {
                    next.push_back(&element);
                }
            } else if (const Value* child = child_at(*one, token); child != nullptr) {
                next.push_back(child);
            }
        }
        here = std::move(next);
    }
    return here;
}

bool holds(const Value& document, const ExtractCondition& condition) {
    const std::vector<const Value*> found = at(document, condition.pointer);
    return std::any_of(found.begin(), found.end(), [&](const Value* one) {
        return one->string() != nullptr ? *one->string() == condition.text
                                        : json::dump(*one) == condition.text;
    });
}

// Most lines of a long turn aren't answers; parsing each would cost more than the turn. So a line
// is searched for the text first, where that can't be wrong: false is certain, true isn't.
bool may_hold(std::string_view line, std::string_view text) {
    // A number, an array and an object have many spellings; true, false and null have one.
    constexpr std::string_view kBeginsOther = "-0123456789[{";
    if (!text.empty() && kBeginsOther.find(text.front()) != std::string_view::npos) {
        return true;
    }
    // A string can't but escape these, and may escape a slash as \/ and all else as \u.
    const bool escaped = std::any_of(text.begin(), text.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\';
    });
    const auto has = [&](std::string_view part) {
        return line.find(part) != std::string_view::npos;
    };
    return escaped || has(text) || has("\\u") ||
           (text.find('/') != std::string_view::npos && has("\\/"));
}

std::string strings_at(const Value& document, std::string_view pointer) {
    std::string out;
    for (const Value* one : at(document, pointer)) {
        if (one->string() != nullptr) {
            out += *one->string();
        }
    }
    return out;
}

Result<ExtractCondition> parse_condition(std::string_view word) {
    const size_t equals = word.find('=');
    if (!word.starts_with('/') || equals == std::string_view::npos) {
        return fail(Code::invalid, "expected /POINTER=TEXT, found " + std::string(word));
    }
    return ExtractCondition{std::string(word.substr(0, equals)),
                            std::string(word.substr(equals + 1))};
}

Result<std::string> parse_pointer(std::string_view word) {
    if (!word.starts_with('/')) {
        return fail(Code::invalid, "expected a JSON pointer, found " + std::string(word));
    }
    return std::string(word);
}

int complain(int code, const std::string& text) {
    ignore(process::write_all(STDERR_FILENO, escape_for_terminal(text) + "\n", "standard error"),
           "the exit code says it");
    return code;
}

// What came in so far.
class Reading {
  public:
    explicit Reading(const ExtractRules& rules) : rules_(rules) {}

    void take(std::string_view bytes) {
        while (!bytes.empty()) {
            const size_t end = bytes.find('\n');
            const std::string_view piece = bytes.substr(0, end);
            over_ = over_ || line_.size() + piece.size() > kExtractLineBytesMax;
            if (!over_) {
                line_ += piece;
            }
            if (end == std::string_view::npos) {
                return;
            }
            finish_line();
            bytes.remove_prefix(end + 1);
        }
    }

    void finish_line() {
        // Blanks may stand before a JSON text (RFC 8259, section 2).
        const size_t begin = std::min(line_.find_first_not_of(" \t\r"), line_.size());
        line_.erase(0, begin);
        if (!over_ && line_.starts_with('{')) {
            if (auto found = extract(rules_, line_)) {
                last_ = std::move(found);
            }
        } else if (!over_ && !line_.empty()) {
            stray_ = to_valid_utf8(line_.substr(0, kShownBytesMax));
        }
        line_.clear();
        over_ = false;
    }

    [[nodiscard]] int report() const {
        if (!last_) {
            return complain(exit_code::kInvalidInput,
                            "it ended without an answer" +
                                (stray_.empty() ? "" : "; the last it said was: " + stray_));
        }
        if (last_->failed) {
            return complain(exit_code::kFailed,
                            last_->text.empty() ? "it failed without a reason" : last_->text);
        }
        return process::write_all(STDOUT_FILENO, last_->text, "standard output")
                   ? exit_code::kFine
                   : exit_code::kFailed;
    }

  private:
    const ExtractRules& rules_;
    std::string line_;
    bool over_ = false;  // the line is too long and is passed over
    std::string stray_;
    std::optional<Extracted> last_;
};

}  // namespace

Result<ExtractRules> parse_extract_rules(const std::vector<std::string_view>& words) {
    ExtractRules out;
    for (size_t i = 0; i < words.size(); i += 2) {
        if (i + 1 == words.size()) {
            return fail(Code::invalid, "nothing follows " + std::string(words[i]));
        }
        if (words[i] == "--where") {
            MOSAIC_TRY_ASSIGN(out.where.emplace_back(), parse_condition(words[i + 1]));
        } else if (words[i] == "--failed") {
            MOSAIC_TRY_ASSIGN(out.failed.emplace_back(), parse_condition(words[i + 1]));
        } else if (words[i] == "--text") {
            MOSAIC_TRY_ASSIGN(out.text, parse_pointer(words[i + 1]));
        } else if (words[i] == "--reason") {
            MOSAIC_TRY_ASSIGN(out.reason, parse_pointer(words[i + 1]));
        } else {
            return fail(Code::invalid, "unknown rule " + std::string(words[i]));
        }
    }
    if (out.where.empty() || out.text.empty()) {
        return fail(Code::invalid, "expected --where and --text");
    }
    return out;
}

std::optional<Extracted> extract(const ExtractRules& rules, std::string_view line) {
    if (!std::all_of(rules.where.begin(), rules.where.end(), [&](const auto& one) {
            return may_hold(line, one.text);
        })) {
        return std::nullopt;
    }
    const auto value = json::parse(line, {kLineDepthMax});
    if (!value || !std::all_of(rules.where.begin(), rules.where.end(), [&](const auto& one) {
            return holds(*value, one);
        })) {
        return std::nullopt;
    }
    Extracted out;
    out.failed = std::any_of(rules.failed.begin(), rules.failed.end(), [&](const auto& one) {
        return holds(*value, one);
    });
    out.text = strings_at(*value, out.failed && !rules.reason.empty() ? rules.reason : rules.text);
    return out;
}

int run_extract(const std::vector<std::string_view>& words) {
    const auto rules = parse_extract_rules(words);
    if (!rules) {
        return complain(exit_code::kUsage, rules.error().text);
    }
    Reading reading(*rules);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): read fills it
    std::array<char, 65536> bytes;
    for (;;) {
        const ssize_t n = ::read(STDIN_FILENO, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return complain(exit_code::kFailed, "standard input: " + errno_text(errno));
        }
        if (n == 0) {
            break;
        }
        reading.take({bytes.data(), static_cast<size_t>(n)});
    }
    reading.finish_line();
    return reading.report();
}

}  // namespace mosaic::runner
