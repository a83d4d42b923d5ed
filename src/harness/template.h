#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// Text with ${name} placeholders, for the bundle files, variables and paths that a module's
// harness.json describes. "$$" is one dollar sign. Parsed once when the module is loaded, so that
// an unknown placeholder is an error of the module and not of a launch.

namespace mosaic::harness {

// What a placeholder's value goes through on its way into the text.
enum class Escape {
    none,
    json,  // as the inside of a JSON string, for .json, .js, .mjs and .ts files
};

using Values = std::map<std::string, std::string>;

class Template {
  public:
    // `where` starts an error, which names the byte.
    [[nodiscard]] static Result<Template> parse(std::string_view text, const std::string& where);

    // Every placeholder must be in `values`: the loader checked names() against what a run
    // provides. Names that end in Json are JSON already and are never escaped.
    [[nodiscard]] std::string render(const Values& values, Escape escape) const;

    [[nodiscard]] std::vector<std::string> names() const;

    [[nodiscard]] bool empty() const { return parts_.empty(); }

    bool operator==(const Template&) const = default;

  private:
    struct Part {
        bool placeholder = false;
        std::string text;

        bool operator==(const Part&) const = default;
    };

    std::vector<Part> parts_;
};

// By the file's name.
[[nodiscard]] Escape escape_for(std::string_view file);

}  // namespace mosaic::harness
