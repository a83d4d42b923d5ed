#include "cli/output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/assert.h"
#include "process/write_all.h"

namespace mosaic::cli {
namespace {

// Code points: close enough to columns for names, and never wrong about alignment of plain text.
size_t width_of(std::string_view text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    }));
}

}  // namespace

void Table::add(std::vector<std::string> cells) {
    MOSAIC_ASSERT(cells.size() == rows_[0].size());
    for (std::string& cell : cells) {
        cell = one_line(cell);
    }
    rows_.push_back(std::move(cells));
}

std::string Table::text() const {
    std::vector<size_t> widths(rows_[0].size(), 0);
    for (const auto& row : rows_) {
        for (size_t i = 0; i < row.size(); ++i) {
            widths[i] = std::max(widths[i], width_of(row[i]));
        }
    }
    std::string out;
    for (const auto& row : rows_) {
        std::string line;
        for (size_t i = 0; i < row.size(); ++i) {
            line += row[i];
            line.append(widths[i] - width_of(row[i]) + 2, ' ');
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
    }
    return out;
}

Result<void> print(std::string_view text) {
    return process::write_all(STDOUT_FILENO, text, "standard output");
}

Result<void> wait_for_input(int fd) {
    // Of standard output nothing but its end is asked for.
    std::array<pollfd, 2> waits = {{{fd, POLLIN, 0}, {STDOUT_FILENO, 0, 0}}};
    while (waits[0].revents == 0) {
        if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) {
            return fail_sys(errno, "poll");
        }
        if (waits[0].revents == 0 && waits[1].revents != 0) {
            return fail_sys(EPIPE, "standard output");
        }
    }
    return {};
}

json::Value strings_value(const std::vector<std::string>& list) {
    json::Array out;
    for (const std::string& text : list) {
        out.emplace_back(text);
    }
    return json::Value(std::move(out));
}

Result<void> print_json(const json::Value& value) {
    return print(escape_for_terminal(json::dump(value)) + "\n");
}

void complain(std::string_view text) {
    ignore(process::write_all(
               STDERR_FILENO, "mosaic: " + escape_for_terminal(text) + "\n", "standard error"),
           "there is nowhere else to say it");
}

}  // namespace mosaic::cli
