// json::parse by simdjson's on-demand parser, for host, broker and commands. On-demand accepts
// rubbish behind the last value that was asked for, so the whole document is walked before anything
// is believed.

#include "wire/json.h"

#include "wire/json_rules.h"

// The conversions that throw aren't even declared: no exception leaves a room.
#define SIMDJSON_EXCEPTIONS 0
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/utf8.h"

namespace mosaic::json {
namespace {

namespace od = simdjson::ondemand;

size_t digits_at(std::string_view text, size_t at) {
    return std::min(text.find_first_not_of("0123456789", at), text.size()) - at;
}

// A number with a fraction or an exponent, by the grammar of RFC 8259, and nothing but white space
// behind it. Not by simdjson: 3.0.1 reads 0.123123456789052345678 as 0.0124.
std::optional<double> read_double(std::string_view raw) {
    const size_t first = raw.starts_with('-') ? 1 : 0;
    size_t at = first + digits_at(raw, first);
    if (at == first || (raw[first] == '0' && at > first + 1)) {
        return std::nullopt;
    }
    if (at < raw.size() && raw[at] == '.') {
        const size_t digits = digits_at(raw, at + 1);
        at += 1 + digits;
        if (digits == 0) {
            return std::nullopt;
        }
    }
    if (at < raw.size() && (raw[at] == 'e' || raw[at] == 'E')) {
        at += at + 1 < raw.size() && (raw[at + 1] == '+' || raw[at + 1] == '-') ? size_t{2}
                                                                                : size_t{1};
        const size_t digits = digits_at(raw, at);
        at += digits;
        if (digits == 0 || digits > kExponentDigitsMax) {
            return std::nullopt;
        }
    }
    if (raw.find_first_not_of(" \t\r\n", at) != std::string_view::npos) {
        return std::nullopt;
    }
    // strtod: out of range it tells too large (infinite) from too small (0). The process never
    // leaves the C locale.
    const double out = std::strtod(std::string(raw.substr(0, at)).c_str(), nullptr);
    return std::isfinite(out) ? std::optional(out) : std::nullopt;
}

struct Walk {
    std::string_view text;
    od::document& document;
    int depth_max;
    size_t shift;  // bytes that were put before the caller's text
    Error error{};
    bool failed = false;

    void fail_at(size_t offset, std::string_view what) {
        if (!failed) {
            failed = true;
            // A person looks for it in a file of many lines, a program in a frame of one.
            const auto line = std::count(
                text.begin(),
                text.begin() + static_cast<std::ptrdiff_t>(std::min(offset + shift, text.size())),
                '\n');
            const std::string place = line > 0 ? " (line " + std::to_string(line + 1) + ")" : "";
            error = Error{Code::invalid,
                          0,
                          "byte " + std::to_string(offset) + place + ": " + std::string(what)};
        }
    }

    size_t offset() {
        const char* at = nullptr;
        if (document.current_location().get(at) != simdjson::SUCCESS || at < text.data()) {
            return text.size();
        }
        const size_t seen = std::min(static_cast<size_t>(at - text.data()), text.size());
        return seen - std::min(seen, shift);
    }

    void fail_here(std::string_view what) { fail_at(offset(), what); }

    Value number(od::value& value) {
        const std::string_view raw = value.raw_json_token();
        const bool whole = raw.find_first_of(".eE") == std::string_view::npos;
        if (whole) {
            int64_t out = 0;
            if (value.get_int64().get(out) != simdjson::SUCCESS) {
                fail_here("not a number, or an integer that 64 bits can't hold");
            }
            return Value(out);
        }
        const std::optional<double> out = read_double(raw);
        if (!out) {
            fail_here("not a number");
            return {};
        }
        double taken = 0;  // its place in the document is behind it then
        ignore(value.get_double().get(taken), "what it comes to is known better");
        return Value(*out);
    }

    // array, object and walk call one another; depth_max bounds it.
    Value array(od::value& value, int depth) {
        Array out;
        od::array elements;
        if (value.get_array().get(elements) != simdjson::SUCCESS) {
            fail_here("not an array");
            return {};
        }
        for (auto element : elements) {
            od::value inner;
            // NOLINTNEXTLINE(performance-move-const-arg): its get() takes an rvalue only
            if (std::move(element).get(inner) != simdjson::SUCCESS) {
                fail_here("not a value");
            }
            if (failed) {
                return {};
            }
            out.push_back(walk(inner, depth + 1));
            if (failed) {
                return {};
            }
        }
        return Value(std::move(out));
    }

    Value object(od::value& value, int depth) {
        Object out;
        KeySet keys;
        od::object members;
        if (value.get_object().get(members) != simdjson::SUCCESS) {
            fail_here("not an object");
            return {};
        }
        for (auto field : members) {
            od::field member;
            if (std::move(field).get(member) != simdjson::SUCCESS) {
                fail_here("expected a comma and a member, or the end of the object");
                return {};
            }
            std::string_view key;
            if (member.unescaped_key().get(key) != simdjson::SUCCESS) {
                fail_here("not a string");
                return {};
            }
            std::string name(key);
            if (!keys.add(out, name)) {
                fail_here("the key \"" + escape_for_terminal(name) + "\" stands twice");
                return {};
            }
            od::value inner = member.value();
            Value parsed = walk(inner, depth + 1);
            if (failed) {
                return {};
            }
            out.emplace_back(std::move(name), std::move(parsed));
        }
        return Value(std::move(out));
    }

    Value walk(od::value& value, int depth) {
        od::json_type type{};
        if (value.type().get(type) != simdjson::SUCCESS) {
            fail_here("not a JSON value");
            return {};
        }
        const bool container = type == od::json_type::array || type == od::json_type::object;
        if (container && depth >= depth_max) {
            fail_here("more than " + std::to_string(depth_max) + " levels deep");
            return {};
        }
        switch (type) {
            case od::json_type::array:
                return array(value, depth);
            case od::json_type::object:
                return object(value, depth);
            case od::json_type::number:
                return number(value);
            case od::json_type::string: {
                std::string_view text_value;
                if (value.get_string().get(text_value) != simdjson::SUCCESS) {
                    fail_here("not a string");
                }
                return Value(text_value);
            }
            case od::json_type::boolean: {
                bool out = false;
                if (value.get_bool().get(out) != simdjson::SUCCESS) {
                    fail_here("neither true nor false");
                }
                return Value(out);
            }
            case od::json_type::null: {
                // What begins like null and isn't (nonsense) is an error here, not a no.
                bool out = false;
                if (value.is_null().get(out) != simdjson::SUCCESS || !out) {
                    fail_here("not null");
                }
                return {};
            }
        }
        fail_here("not a JSON value");
        return {};
    }
};

bool is_white(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// The document's first byte that isn't white space decides whether on-demand sees a container;
// a scalar document is wrapped in an array so that there is one way to walk.
bool is_scalar_document(std::string_view text) {
    const auto first = std::find_if_not(text.begin(), text.end(), is_white);
    return first != text.end() && *first != '{' && *first != '[';
}

Result<Value> parse_text(std::string_view text, int depth_max, size_t shift) {
    od::parser parser;
    const simdjson::padded_string padded(text);
    od::document document;
    if (parser.iterate(padded).get(document) != simdjson::SUCCESS) {
        return fail(Code::invalid, "byte 0: not a JSON document");
    }
    Walk walk{std::string_view(padded.data(), padded.size()), document, depth_max, shift};
    od::value root;
    Value out;
    if (document.get_value().get(root) != simdjson::SUCCESS) {
        walk.fail_at(0, "not a JSON value");
    } else {
        out = walk.walk(root, 0);
    }
    // Behind the last token the location is out of bounds; anything else is a token too many.
    const char* rest = nullptr;
    if (!walk.failed && document.current_location().get(rest) != simdjson::OUT_OF_BOUNDS) {
        walk.fail_here("text behind the end of the document");
    }
    if (walk.failed) {
        return tl::unexpected<Error>(std::move(walk.error));
    }
    return out;
}

}  // namespace

Result<Value> parse(std::string_view text, ParseOptions options) {
    const size_t good = valid_utf8_prefix(text);
    if (good != text.size()) {
        return fail(Code::invalid, "byte " + std::to_string(good) + ": not UTF-8");
    }
    if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
        return fail(Code::invalid, "byte " + std::to_string(nul) + ": a NUL byte");
    }
    if (text.starts_with("\xEF\xBB\xBF")) {
        return fail(Code::invalid, "byte 0: a byte-order mark");
    }
    if (std::all_of(text.begin(), text.end(), is_white)) {
        return fail(Code::invalid, "byte 0: an empty document");
    }
    if (!is_scalar_document(text)) {
        return parse_text(text, options.depth_max, 0);
    }
    std::string wrapped = "[";
    wrapped += text;
    wrapped += ']';
    MOSAIC_TRY_ASSIGN(Value array, parse_text(wrapped, options.depth_max + 1, 1));
    if (array.array()->size() != 1) {
        return fail(Code::invalid, "byte 0: more than one value");
    }
    return std::move(array.array()->front());
}

}  // namespace mosaic::json
