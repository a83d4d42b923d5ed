#pragma once

#include <cstdint>

// What goes through the kernel as user_data: not an address but a name that can be checked. A stale
// completion is detected, a cancel can't meet the wrong operation (TRAP-14), and logs hold no
// addresses.

namespace mosaic::reactor {

// Slots fit 24 bits; the last value is never given out.
constexpr uint32_t kSlotsMax = (1U << 24) - 1;

// The kind of a cancel's own completion; operation kinds (OpKind) stay below it.
constexpr uint8_t kCancelKind = 0x80;

struct Token {
    uint8_t kind = 0;         // OpKind, or kCancelKind
    uint32_t slot = 0;        // below kSlotsMax; of the target, for a cancel
    uint32_t activation = 0;  // of the slot, +1 at each arm; of the target, for a cancel

    bool operator==(const Token&) const = default;
};

constexpr uint64_t pack(const Token& token) {
    return static_cast<uint64_t>(token.kind) << 56 |
           static_cast<uint64_t>(token.slot & 0xFFFFFFU) << 32 |
           static_cast<uint64_t>(token.activation);
}

constexpr Token unpack(uint64_t user_data) {
    return Token{static_cast<uint8_t>(user_data >> 56),
                 static_cast<uint32_t>(user_data >> 32) & 0xFFFFFFU,
                 static_cast<uint32_t>(user_data)};
}

}  // namespace mosaic::reactor
