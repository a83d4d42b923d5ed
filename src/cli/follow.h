#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "wire/lines.h"

// Reads a file of lines that others append to, and waits for more by inotify(7): no polling. It
// survives rotation (the file renamed away or removed and made anew: the old one is read to its end
// first), truncation, and a file that doesn't exist yet.

namespace mosaic::cli {

class LineFollower {
  public:
    // `directory` must exist; `name` is a file in it. Without `follow` nothing is watched.
    [[nodiscard]] static Result<LineFollower> open(const std::string& directory,
                                                   const std::string& name,
                                                   bool follow);

    // The next whole line without its newline, or nothing when all that is there now was handed
    // out.
    [[nodiscard]] Result<std::optional<std::string>> next();

    // Blocks until something happened in the directory. An error when the reader of our standard
    // output goes first.
    [[nodiscard]] Result<void> wait();

  private:
    LineFollower(UniqueFd directory, std::string name, UniqueFd watch);

    // Appends what the open file has next; false at its end.
    [[nodiscard]] Result<bool> read_some();
    // At the end of the open file: whether there is another place to read from, which it goes to.
    [[nodiscard]] Result<bool> move_on();
    [[nodiscard]] Result<bool> open_named();
    [[nodiscard]] bool rewind_if_truncated();
    // Whether the name leads to another file than the open one by now.
    [[nodiscard]] bool replaced() const;

    UniqueFd directory_;
    std::string name_;
    UniqueFd watch_;
    UniqueFd file_;
    wire::LineBuffer lines_;
};

}  // namespace mosaic::cli
