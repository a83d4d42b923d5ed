#pragma once

#include <cstdint>

namespace mosaic::sim {

// The only source of chance: everything a simulation decides is drawn from it in one order, so a
// seed replays. splitmix64.
class Prng {
  public:
    explicit Prng(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15U + 1) {}

    uint64_t next() {
        state_ += 0x9e3779b97f4a7c15U;
        uint64_t z = state_;
        z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31U);
    }

    // Less than n, which is not 0.
    uint32_t below(uint32_t n) { return static_cast<uint32_t>(((next() >> 32U) * n) >> 32U); }

    // Both ends included.
    int64_t between(int64_t low, int64_t high) {
        return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
    }

    // True `per_million` times in a million.
    bool chance(uint32_t per_million) { return per_million != 0 && below(1'000'000) < per_million; }

    // Any of the magnitudes from low to high is as likely as another.
    int64_t magnitude(int64_t low, int64_t high) {
        int64_t top = low;
        uint32_t doublings = 0;
        while (top < high) {
            top *= 2;
            ++doublings;
        }
        const int64_t base = low << below(doublings + 1);
        const int64_t out = between(base, 2 * base);
        return out < high ? out : high;
    }

  private:
    uint64_t state_;
};

}  // namespace mosaic::sim
