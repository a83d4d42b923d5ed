#include "harness/template.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "wire/json.h"

namespace mosaic::harness {
namespace {

std::string json_inside(const std::string& text) {
    const std::string quoted = json::dump(json::Value(text));
    return quoted.substr(1, quoted.size() - 2);
}

}  // namespace

Result<Template> Template::parse(std::string_view text, const std::string& where) {
    Template out;
    std::string literal;
    const auto flush = [&] {
        if (!literal.empty()) {
            out.parts_.push_back(Part{false, std::move(literal)});
            literal.clear();
        }
    };
    size_t at = 0;
    while (at < text.size()) {
        const std::string_view rest = text.substr(at);
        if (rest.starts_with("$$")) {
            literal += '$';
            at += 2;
        } else if (rest.starts_with("${")) {
            const size_t end = rest.find('}');
            if (end == std::string_view::npos || end == 2) {
                return fail(Code::invalid,
                            where + ": byte " + std::to_string(at) +
                                ": expected ${name} (a dollar sign is written $$)");
            }
            flush();
            out.parts_.push_back(Part{true, std::string(rest.substr(2, end - 2))});
            at += end + 1;
        } else {
            literal += rest.front();
            ++at;
        }
    }
    flush();
    return out;
}

std::string Template::render(const Values& values, Escape escape) const {
    std::string out;
    for (const Part& part : parts_) {
        if (!part.placeholder) {
            out += part.text;
            continue;
        }
        const auto value = values.find(part.text);
        MOSAIC_ASSERT(value != values.end());
        const bool raw = escape == Escape::none || part.text.ends_with("Json");
        out += raw ? value->second : json_inside(value->second);
    }
    return out;
}

std::vector<std::string> Template::names() const {
    std::vector<std::string> out;
    for (const Part& part : parts_) {
        if (part.placeholder) {
            out.push_back(part.text);
        }
    }
    return out;
}

Escape escape_for(std::string_view file) {
    constexpr std::array<std::string_view, 4> kQuoting = {".json", ".js", ".mjs", ".ts"};
    const bool quoting = std::any_of(kQuoting.begin(), kQuoting.end(), [&](std::string_view end) {
        return file.ends_with(end);
    });
    return quoting ? Escape::json : Escape::none;
}

}  // namespace mosaic::harness
