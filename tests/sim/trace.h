#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace mosaic::sim {

// The name of something that happens, with its hash, both made when compiled: the trace keeps the
// pointer for people and hashes the text, never an address.
struct Label {
    const char* text = "";
    uint64_t hash = 0;

    template <size_t N>
    consteval Label(const char (&name)[N]) : text(name) {  // NOLINT(google-explicit-constructor)
        hash = 0xcbf29ce484222325U;
        for (const char c : name) {
            hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
        }
    }

    Label() = default;
};

// What happened last, for a failure's report, and the rolling hash of all that ever happened.
class Trace {
  public:
    // `detail` must live as long as the trace (a machine's name of a phase) and is hashed by its
    // text. `a` and `b` are numbers of the event's own.
    void note(int64_t now, const Label& what, uint32_t run, uint64_t a, std::string_view detail) {
        Entry& entry = ring_[count_ % kKept];
        entry = {now, what.text, run, a, detail};
        ++count_;
        mix(what.hash);
        mix(static_cast<uint64_t>(now));
        mix((uint64_t{run} << 32U) ^ a);
        if (!detail.empty()) {
            mix(detail.size() * 131 + static_cast<unsigned char>(detail[0]));
        }
    }

    void mix(uint64_t value) { hash_ = (hash_ ^ value) * 0x9e3779b97f4a7c15U + (hash_ >> 29U); }

    [[nodiscard]] uint64_t hash() const { return hash_; }

    [[nodiscard]] uint64_t count() const { return count_; }

    void print(FILE* out) const {
        const uint64_t first = count_ > kKept ? count_ - kKept : 0;
        for (uint64_t i = first; i < count_; ++i) {
            const Entry& e = ring_[i % kKept];
            std::fprintf(out, "  %12.6f s  %-26s", static_cast<double>(e.at) / 1e9, e.what);
            if (e.run != 0) {
                std::fprintf(out, " run %u", e.run);
            }
            std::fprintf(out, "  %llu", static_cast<unsigned long long>(e.a));
            std::fprintf(out, "  %.*s\n", static_cast<int>(e.detail.size()), e.detail.data());
        }
    }

  private:
    static constexpr uint64_t kKept = 80;

    struct Entry {
        int64_t at = 0;
        const char* what = "";
        uint32_t run = 0;
        uint64_t a = 0;
        std::string_view detail;
    };

    std::array<Entry, kKept> ring_{};
    uint64_t count_ = 0;
    uint64_t hash_ = 0x9e3779b97f4a7c15U;
};

}  // namespace mosaic::sim
