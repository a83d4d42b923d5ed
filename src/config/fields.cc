#include "config/fields.h"

#include <algorithm>

#include "base/utf8.h"

namespace mosaic::config {
namespace {

bool has_control(std::string_view text) {
    return std::any_of(text.begin(), text.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    });
}

// What is wrong with a path that may hold any character, or empty.
std::string any_path_problem(std::string_view path) {
    if (path.empty()) {
        return "expected a path, found an empty string";
    }
    if (path.size() > kPathBytesMax) {
        return "expected a path of at most " + std::to_string(kPathBytesMax) + " bytes";
    }
    if (path.find('\0') != std::string_view::npos) {
        return "expected a path without NUL characters, found " + in_quotes(path);
    }
    if (path.front() == '~') {
        return "expected an absolute path or one relative to this file (~ is not expanded), "
               "found " +
               in_quotes(path);
    }
    return {};
}

std::string path_problem(std::string_view path) {
    if (has_control(path)) {
        return "expected a path without control characters, found " + in_quotes(path);
    }
    return any_path_problem(path);
}

std::string absolute(std::string_view path, const std::string& directory) {
    if (path.front() == '/') {
        return std::string(path);
    }
    while (path.starts_with("./")) {
        path.remove_prefix(2);
    }
    if (path.empty() || path == ".") {
        return directory;
    }
    return directory + (directory.ends_with('/') ? "" : "/") + std::string(path);
}

}  // namespace

std::string read_path(json::Reader& r, std::string_view key, const std::string& directory) {
    const std::string path = r.string(key);
    if (const std::string wrong = path_problem(path); !wrong.empty()) {
        r.problem(key, wrong);
        return {};
    }
    return absolute(path, directory);
}

std::string read_any_path(json::Reader& r, std::string_view key, const std::string& directory) {
    const std::string path = r.string(key);
    if (const std::string wrong = any_path_problem(path); !wrong.empty()) {
        r.problem(key, wrong);
        return {};
    }
    std::string whole = absolute(path, directory);
    if (valid_utf8_prefix(whole) != whole.size()) {
        r.problem(key,
                  "expected an absolute path, or a file in a directory whose path is UTF-8: "
                  "this one lies in " +
                      in_quotes(escape_path(directory)));
        return {};
    }
    return whole;
}

std::vector<std::string> read_paths(json::Reader& r,
                                    std::string_view key,
                                    const std::string& directory) {
    std::vector<std::string> out = r.strings_or_none(key);
    for (size_t i = 0; i < out.size(); ++i) {
        if (const std::string wrong = path_problem(out[i]); !wrong.empty()) {
            r.problem_in(key, i, wrong);
            return {};
        }
        out[i] = absolute(out[i], directory);
    }
    refuse_twice(r, key, out);
    return out;
}

bool is_name_text(std::string_view text) {
    return !text.empty() && text.size() <= kNameTextBytesMax && !has_control(text);
}

std::string read_name(json::Reader& r, std::string_view key) {
    std::string text = r.string(key);
    if (!is_name_text(text)) {
        r.problem(key,
                  "expected 1 to " + std::to_string(kNameTextBytesMax) +
                      " bytes without control characters, found " + in_quotes(text));
    }
    return text;
}

void refuse_twice(json::Reader& r, std::string_view key, const std::vector<std::string>& elements) {
    for (auto it = elements.begin(); it != elements.end(); ++it) {
        if (std::find(elements.begin(), it, *it) != it) {
            r.problem_in(
                key, static_cast<size_t>(it - elements.begin()), in_quotes(*it) + " stands twice");
            return;
        }
    }
}

std::string in_quotes(std::string_view text) {
    constexpr size_t kShown = 80;
    std::string out = "\"";
    for (const char c : escape_for_terminal(to_valid_utf8(text.substr(0, kShown)))) {
        // An error is one line.
        out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : std::string(1, c);
    }
    return out + (text.size() > kShown ? "...\"" : "\"");
}

std::string directory_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos || slash == 0) {
        return "/";
    }
    return path.substr(0, slash);
}

}  // namespace mosaic::config
