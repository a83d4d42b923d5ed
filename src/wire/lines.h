#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mosaic::wire {

// Cuts a byte stream into lines: bytes arrive in any pieces, several lines at once or one byte at a
// time. Holds at most `line_bytes_max` bytes of an unfinished line plus what one append brought.
class LineBuffer {
  public:
    explicit LineBuffer(size_t line_bytes_max) : line_bytes_max_(line_bytes_max) {}

    void append(std::string_view bytes) { bytes_.append(bytes); }

    // The next whole line without its newline, or nothing. Not once overlong() holds.
    [[nodiscard]] std::optional<std::string> next();

    // The line at the front is past the limit, finished or not. The stream can't be followed any
    // further: answer and close.
    [[nodiscard]] bool overlong() const;

    // Bytes of a last line that the end of the stream left without its newline.
    [[nodiscard]] std::string take_rest();

    [[nodiscard]] bool empty() const { return start_ == bytes_.size(); }

    // Overwrites and drops all that is held, for streams that carry secrets.
    void wipe_all();

  private:
    size_t line_bytes_max_;
    std::string bytes_;
    size_t start_ = 0;    // bytes before it were handed out
    size_t scanned_ = 0;  // no newline in [start_, scanned_)
};

}  // namespace mosaic::wire
