#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

// What all fuzz targets share. A target is one file with LLVMFuzzerTestOneInput; it takes any bytes
// and demands properties of what the product makes of them. Built with clang it is a libFuzzer
// program (tools/fuzz); built with the ordinary compiler it replays its corpus (replay.cc), so that
// every test run holds what fuzzing found.

// A property of the product that this input breaks.
#define FUZZ_CHECK(condition)                                                                  \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            std::fprintf(stderr, "%s:%d: doesn't hold: %s\n", __FILE__, __LINE__, #condition); \
            std::abort();                                                                      \
        }                                                                                      \
    } while (false)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace mosaic::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

// An input as a sequence of choices. When the bytes are used up every choice is 0.
class Choices {
  public:
    Choices(const uint8_t* data, size_t size) : data_(data), size_(size) {}

    [[nodiscard]] bool empty() const { return at_ >= size_; }

    uint8_t byte() { return empty() ? uint8_t{0} : data_[at_++]; }

    // Below `count`, which isn't 0.
    size_t below(size_t count) { return byte() % count; }

    bool coin() { return (byte() & 1U) != 0; }

  private:
    const uint8_t* data_;
    size_t size_;
    size_t at_ = 0;
};

// Cuts `text` into pieces whose lengths its own bytes decide, for readers of streams: what comes in
// pieces must mean the same as what comes at once.
inline std::vector<std::string_view> in_pieces(std::string_view text) {
    std::vector<std::string_view> pieces;
    size_t at = 0;
    while (at < text.size()) {
        const size_t length = 1 + static_cast<unsigned char>(text[at]) % 7;
        pieces.push_back(text.substr(at, length));
        at += length;
    }
    return pieces;
}

}  // namespace mosaic::fuzz
