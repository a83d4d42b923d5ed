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

// "\u001b", "\xff".
std::string hex_escape(char kind, int digits, uint32_t value) {
    std::array<char, 16> text{};
    ignore(std::snprintf(text.data(), text.size(), "\\%c%0*x", kind, digits, value),
           "there is room for eight digits");
    return text.data();
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
    const std::string clean = to_valid_utf8(text);
    std::string out;
    out.reserve(clean.size());
    std::string_view rest = clean;
    while (!rest.empty()) {
        const Decoded one = decode_one(rest);
        if (is_unsafe_on_terminal(one.code_point)) {
            out += hex_escape('u', 4, one.code_point);
        } else {
            out += rest.substr(0, one.bytes);
        }
        rest.remove_prefix(one.bytes);
    }
    return out;
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
