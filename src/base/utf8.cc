#include "base/utf8.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "base/error.h"

namespace mosaic {
namespace {

bool is_continuation(unsigned char c) {
    return (c & 0xC0U) == 0x80U;
}

struct Decoded {
    uint32_t code_point = 0;
    size_t bytes = 0;  // 0: not well-formed here
};

// One code point at the head of `text`, which isn't empty.
Decoded decode_one(std::string_view text) {
    const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = at(0);
    if (lead < 0x80) {
        return {lead, 1};
    }
    size_t length = 0;
    uint32_t point = 0;
    uint32_t smallest = 0;
    if ((lead & 0xE0U) == 0xC0U) {
        length = 2;
        point = lead & 0x1FU;
        smallest = 0x80;
    } else if ((lead & 0xF0U) == 0xE0U) {
        length = 3;
        point = lead & 0x0FU;
        smallest = 0x800;
    } else if ((lead & 0xF8U) == 0xF0U) {
        length = 4;
        point = lead & 0x07U;
        smallest = 0x10000;
    } else {
        return {};
    }
    if (text.size() < length) {
        return {};
    }
    for (size_t i = 1; i < length; ++i) {
        if (!is_continuation(at(i))) {
            return {};
        }
        point = (point << 6U) | (at(i) & 0x3FU);
    }
    const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
    if (point < smallest || point > 0x10FFFF || surrogate) {
        return {};
    }
    return {point, length};
}

bool is_unsafe_on_terminal(uint32_t point) {
    const bool control =
        (point < 0x20 && point != '\n' && point != '\t') || (point >= 0x7F && point <= 0x9F);
    const bool bidi = point == 0x061C || point == 0x200E || point == 0x200F ||
                      (point >= 0x202A && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
    return control || bidi;
}

bool is_invisible(uint32_t point) {
    struct Range {
        uint32_t first;
        uint32_t last;
    };

    static constexpr std::array kRanges = {
        Range{0x00AD, 0x00AD},
        Range{0x034F, 0x034F},
        Range{0x061C, 0x061C},
        Range{0x115F, 0x1160},
        Range{0x17B4, 0x17B5},
        Range{0x180B, 0x180F},
        Range{0x200B, 0x200F},
        Range{0x2028, 0x202E},
        Range{0x2060, 0x206F},
        Range{0x3164, 0x3164},
        Range{0xFE00, 0xFE0F},
        Range{0xFEFF, 0xFEFF},
        Range{0xFFA0, 0xFFA0},
        Range{0xFFF0, 0xFFFB},
        Range{0x1BCA0, 0x1BCA3},
        Range{0x1D173, 0x1D17A},
        Range{0xE0000, 0xE0FFF},
    };
    return std::any_of(kRanges.begin(), kRanges.end(), [&](const Range& range) {
        return range.first <= point && point <= range.last;
    });
}

// "\u001b", "\xff".
std::string hex_escape(char kind, int digits, uint32_t value) {
    std::array<char, 16> text{};
    ignore(std::snprintf(text.data(), text.size(), "\\%c%0*x", kind, digits, value),
           "there is room for eight digits");
    return text.data();
}

// UTF-16's two halves (RFC 8259, section 7) where four digits don't do.
std::string escape_point(uint32_t point) {
    if (point <= 0xFFFF) {
        return hex_escape('u', 4, point);
    }
    const uint32_t above = point - 0x10000;
    return hex_escape('u', 4, 0xD800 + (above >> 10U)) +
           hex_escape('u', 4, 0xDC00 + (above & 0x3FFU));
}

std::string escape(std::string_view text, bool (*is_escaped)(uint32_t)) {
    const std::string clean = to_valid_utf8(text);
    std::string out;
    out.reserve(clean.size());
    std::string_view rest = clean;
    while (!rest.empty()) {
        const Decoded one = decode_one(rest);
        if (is_escaped(one.code_point)) {
            out += escape_point(one.code_point);
        } else {
            out += rest.substr(0, one.bytes);
        }
        rest.remove_prefix(one.bytes);
    }
    return out;
}

}  // namespace

size_t valid_utf8_prefix(std::string_view text) {
    size_t at = 0;
    while (at < text.size()) {
        const Decoded one = decode_one(text.substr(at));
        if (one.bytes == 0) {
            break;
        }
        at += one.bytes;
    }
    return at;
}

std::string to_valid_utf8(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const size_t good = valid_utf8_prefix(text);
        out += text.substr(0, good);
        text.remove_prefix(good);
        if (!text.empty()) {
            out += "\xEF\xBF\xBD";
            text.remove_prefix(1);
        }
    }
    return out;
}

std::string escape_for_terminal(std::string_view text) {
    return escape(text, is_unsafe_on_terminal);
}

std::string escape_invisible(std::string_view text) {
    return escape(
        text, [](uint32_t point) { return is_unsafe_on_terminal(point) || is_invisible(point); });
}

std::string one_line(std::string_view text) {
    std::string out = escape_for_terminal(text);
    std::replace(out.begin(), out.end(), '\n', ' ');
    std::replace(out.begin(), out.end(), '\t', ' ');
    return out;
}

std::string escape_path(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const std::string_view good = text.substr(0, valid_utf8_prefix(text));
        for (const char c : escape_for_terminal(good)) {
            out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : std::string(1, c);
        }
        text.remove_prefix(good.size());
        if (!text.empty()) {
            out += hex_escape('x', 2, static_cast<unsigned char>(text.front()));
            text.remove_prefix(1);
        }
    }
    return out;
}

}  // namespace mosaic
