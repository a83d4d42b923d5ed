#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wire/json.h"

// Forms of single values that both files use. Each records what is wrong with the Reader, so that
// the error carries file and pointer; the value returned then means nothing.

namespace mosaic::config {

constexpr size_t kFileBytesMax = size_t{1024} * 1024;
constexpr size_t kPathBytesMax = 4095;  // PATH_MAX without its NUL
constexpr size_t kNameTextBytesMax = 256;

// A path of the file: not empty, no control characters, no leading ~ (nobody expands it). A
// relative one is joined to `directory`, which is absolute.
[[nodiscard]] std::string read_path(json::Reader& r,
                                    std::string_view key,
                                    const std::string& directory);

// The same, but any character may stand in it except NUL: what lies there already has the name that
// it has. Together with `directory` it is UTF-8, else that is what is wrong.
[[nodiscard]] std::string read_any_path(json::Reader& r,
                                        std::string_view key,
                                        const std::string& directory);

// Each element of an optional array as read_path reads one.
[[nodiscard]] std::vector<std::string> read_paths(json::Reader& r,
                                                  std::string_view key,
                                                  const std::string& directory);

// A name that goes into argv, logs and tables: 1 to 256 bytes, no control characters.
[[nodiscard]] bool is_name_text(std::string_view text);

// Such a name; required.
[[nodiscard]] std::string read_name(json::Reader& r, std::string_view key);

// Records the first element that stands twice.
void refuse_twice(json::Reader& r, std::string_view key, const std::vector<std::string>& elements);

// `text` in quotes, made fit for a terminal and cut.
[[nodiscard]] std::string in_quotes(std::string_view text);

// "one of a, b, c".
template <class Range>
[[nodiscard]] std::string one_of(const Range& words) {
    std::string out = "one of ";
    bool first = true;
    for (const auto& word : words) {
        out += first ? "" : ", ";
        out += word;
        first = false;
    }
    return out;
}

// The directory part of an absolute path.
[[nodiscard]] std::string directory_of(const std::string& path);

}  // namespace mosaic::config
