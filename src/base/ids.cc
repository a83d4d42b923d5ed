#include "base/ids.h"

#include <algorithm>

namespace mosaic {
namespace {

bool is_lower_or_digit(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool is_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

}  // namespace

bool is_id(std::string_view text) {
    if (text.empty() || text.size() > kIdBytesMax || !is_lower_or_digit(text[0])) {
        return false;
    }
    return std::all_of(
        text.begin(), text.end(), [](char c) { return is_lower_or_digit(c) || c == '-'; });
}

bool is_run_id(std::string_view text) {
    return text.size() == 13 && text[0] == 'r' && std::all_of(text.begin() + 1, text.end(), is_hex);
}

std::string run_id_from(const unsigned char (&random)[6]) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string run = "r";
    for (const unsigned char byte : random) {
        run += kDigits[byte >> 4U];
        run += kDigits[byte & 15U];
    }
    return run;
}

std::string describe(const Seat& seat) {
    return seat.thread.empty() ? seat.instance : seat.instance + "/" + seat.thread;
}

}  // namespace mosaic
