#include "reactor/token.h"

#include <doctest/doctest.h>

#include <set>

#include "reactor/ring.h"

using namespace mosaic::reactor;

TEST_CASE("a token comes back from the kernel as it went in") {
    for (const uint8_t kind : {uint8_t{0}, uint8_t{1}, uint8_t{12}, kCancelKind, uint8_t{255}}) {
        for (const uint32_t slot : {0U, 1U, 0xFFFFU, kSlotsMax - 1}) {
            for (const uint32_t activation : {0U, 1U, 0x80000000U, 0xFFFFFFFFU}) {
                const Token token{kind, slot, activation};
                CHECK(unpack(pack(token)) == token);
            }
        }
    }
}

TEST_CASE("tokens that differ in one part differ as user_data") {
    std::set<uint64_t> seen;
    for (const Token& token : {Token{1, 2, 3},
                               Token{2, 2, 3},
                               Token{1, 3, 3},
                               Token{1, 2, 4},
                               Token{3, 2, 1},
                               Token{kCancelKind, 2, 3}}) {
        CHECK(seen.insert(pack(token)).second);
    }
}

TEST_CASE("the parts lie where the layout says: kind 8 bits, slot 24, activation 32") {
    CHECK(pack(Token{0xAB, 0x123456, 0x89ABCDEF}) == 0xAB12'3456'89AB'CDEF);
}

TEST_CASE("no operation kind is taken for a cancel") {
    CHECK(static_cast<uint8_t>(OpKind::unlinkat) < kCancelKind);
}
