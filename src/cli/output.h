#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "wire/json.h"

// What the commands print. Everything that a session could have written passes through
// escape_for_terminal or one_line (base/utf8.h) on its way out, JSON too: its encoding escapes
// neither DEL nor C1, and people read it on terminals.

namespace mosaic::cli {

// Rows of cells, printed in aligned columns. Cells pass through one_line.
class Table {
  public:
    explicit Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }

    // As many cells as the header has.
    void add(std::vector<std::string> cells);

    // Each column as wide as its widest cell, two spaces between columns, nothing after the last.
    [[nodiscard]] std::string text() const;

  private:
    std::vector<std::vector<std::string>> rows_;
};

// Writes all of it to standard output now. A reader that has gone is an error (SIGPIPE is ignored
// in main), so that what nobody read isn't acknowledged.
[[nodiscard]] Result<void> print(std::string_view text);

// Blocks until `fd` can be read. When the reader of standard output goes first, that is an error as
// of a write to it: who follows something would else stay until there is more to print.
[[nodiscard]] Result<void> wait_for_input(int fd);

[[nodiscard]] json::Value strings_value(const std::vector<std::string>& list);

// The value on one line, as JSON that a terminal can take.
[[nodiscard]] Result<void> print_json(const json::Value& value);

// "mosaic: <text>" on standard error, escaped.
void complain(std::string_view text);

}  // namespace mosaic::cli
