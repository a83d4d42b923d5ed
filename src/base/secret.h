#pragma once

#include <string>
#include <string_view>

namespace mosaic {

// Overwrites the bytes so that the compiler can't drop it, then empties the string.
void wipe(std::string& text);

// Bytes that act for somebody: a capability. No formatter, no copy, no ==; wiped at its end. Where
// bytes must leave (the line on a runner's stdin), the caller wipes its own buffer after the write.
class Secret {
  public:
    Secret() = default;

    // Takes the bytes and wipes the source.
    explicit Secret(std::string&& text) : text_(text) { wipe(text); }

    // Copied, then wiped: a move would leave the bytes of a short text behind in the source.
    // NOLINTNEXTLINE(performance-move-constructor-init)
    Secret(Secret&& other) noexcept : text_(other.text_) { wipe(other.text_); }

    Secret& operator=(Secret&& other) noexcept {
        if (this != &other) {
            wipe(text_);
            text_ = other.text_;
            wipe(other.text_);
        }
        return *this;
    }

    Secret(const Secret&) = delete;
    Secret& operator=(const Secret&) = delete;

    ~Secret() { wipe(text_); }

    [[nodiscard]] bool empty() const { return text_.empty(); }

    // The bytes, for hashing or for the one write that delivers them.
    [[nodiscard]] std::string_view reveal() const { return text_; }

  private:
    std::string text_;
};

}  // namespace mosaic
