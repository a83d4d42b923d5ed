#include "wire/json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/ids.h"
#include "base/utf8.h"

namespace mosaic::json {
namespace {

void dump_string(std::string& out, std::string_view text) {
    const auto plain = [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; };
    out += '"';
    if (std::all_of(text.begin(), text.end(), plain)) {
        out += text;
        out += '"';
        return;
    }
    for (const char c : to_valid_utf8(text)) {
        switch (c) {
            case '"':
                out += "\\\"";
                break;
            case '\\':
                out += "\\\\";
                break;
            case '\n':
                out += "\\n";
                break;
            case '\r':
                out += "\\r";
                break;
            case '\t':
                out += "\\t";
                break;
            default:
                if (static_cast<unsigned char>(c) < 0x20) {
                    std::array<char, 8> escape{};
                    ignore(std::snprintf(escape.data(), escape.size(), "\\u%04x", c),
                           "there is room");
                    out += escape.data();
                } else {
                    out += c;
                }
        }
    }
    out += '"';
}

void dump_number(std::string& out, double number) {
    if (!std::isfinite(number)) {
        out += "null";
        return;
    }
    std::array<char, 64> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), number);
    const std::string_view digits(text.data(), static_cast<size_t>(end.ptr - text.data()));
    out += digits;
    // Keep it a number with a fraction, so that reading it back gives the same kind.
    if (digits.find_first_of(".e") == std::string_view::npos) {
        out += ".0";
    }
}

// indent < 0: all on one line.
void break_line(std::string& out, int indent) {
    if (indent >= 0) {
        out += '\n';
        out.append(static_cast<size_t>(indent) * 2, ' ');
    }
}

int deeper(int indent) {
    return indent < 0 ? indent : indent + 1;
}

// Values built by us or by parse() are at most depth_max deep, so the recursion is bounded.
void dump_value(std::string& out, const Value& value, int indent) {
    if (const bool* b = value.boolean()) {
        out += *b ? "true" : "false";
    } else if (const int64_t* i = value.integer()) {
        out += std::to_string(*i);
    } else if (const double* d = value.number()) {
        dump_number(out, *d);
    } else if (const std::string* s = value.string()) {
        dump_string(out, *s);
    } else if (const Array* a = value.array()) {
        out += '[';
        for (const Value& element : *a) {
            out += &element == a->data() ? "" : ",";
            break_line(out, deeper(indent));
            dump_value(out, element, deeper(indent));
        }
        if (!a->empty()) {
            break_line(out, indent);
        }
        out += ']';
    } else if (const Object* o = value.object()) {
        out += '{';
        for (const Member& member : *o) {
            out += &member == o->data() ? "" : ",";
            break_line(out, deeper(indent));
            dump_string(out, member.first);
            out += indent < 0 ? ":" : ": ";
            dump_value(out, member.second, deeper(indent));
        }
        if (!o->empty()) {
            break_line(out, indent);
        }
        out += '}';
    } else {
        out += "null";
    }
}

}  // namespace

const Value* Value::find(std::string_view key) const {
    const Object* members = object();
    if (members == nullptr) {
        return nullptr;
    }
    const auto hit = std::find_if(
        members->begin(), members->end(), [&](const Member& m) { return m.first == key; });
    return hit == members->end() ? nullptr : &hit->second;
}

Value* Value::find(std::string_view key) {
    return const_cast<Value*>(std::as_const(*this).find(key));
}

void Value::set(std::string_view key, Value value) {
    if (is_null()) {
        data_ = Object{};
    }
    if (Value* old = find(key)) {
        *old = std::move(value);
        return;
    }
    std::get<Object>(data_).emplace_back(std::string(key), std::move(value));
}

const char* Value::kind() const {
    constexpr std::array<const char*, 7> kKinds = {
        "null", "true or false", "an integer", "a number", "a string", "an array", "an object"};
    return kKinds[data_.index()];
}

std::string dump(const Value& value) {
    std::string out;
    dump_value(out, value, -1);
    return out;
}

std::string dump_pretty(const Value& value) {
    std::string out;
    dump_value(out, value, 0);
    out += '\n';
    return out;
}

Reader::Reader(const Value& value, std::string where, std::string pointer)
    : value_(value), where_(std::move(where)), pointer_(std::move(pointer)) {
    if (value_.object() == nullptr) {
        set_error(std::string("expected an object, found ") + value_.kind());
    }
}

std::string Reader::pointer_of(std::string_view key) const {
    std::string out = pointer_;
    out += '/';
    for (const char c : key) {  // RFC 6901, section 3
        if (c == '~') {
            out += "~0";
        } else if (c == '/') {
            out += "~1";
        } else {
            out += c;
        }
    }
    return out;
}

void Reader::set_error(const std::string& text) {
    if (error_.empty()) {
        error_ = where_ + ": " + (pointer_.empty() ? std::string() : pointer_ + ": ") + text;
    }
}

void Reader::problem(std::string_view key, std::string_view expected) {
    if (error_.empty()) {
        error_ = where_ + ": " + pointer_of(key) + ": " + std::string(expected);
    }
}

void Reader::problem_in(std::string_view key, size_t index, std::string_view expected) {
    if (error_.empty()) {
        error_ = where_ + ": " + pointer_of(key) + "/" + std::to_string(index) + ": " +
                 std::string(expected);
    }
}

void Reader::wrong(std::string_view key, const char* expected, const Value& found) {
    problem(key, std::string("expected ") + expected + ", found " + found.kind());
}

void Reader::absorb(Result<void> nested) {
    if (!nested && error_.empty()) {
        error_ = std::move(nested.error().text);
    }
}

const Value* Reader::optional(std::string_view key) {
    asked_.emplace_back(key);
    return value_.find(key);
}

const Value* Reader::required(std::string_view key, const char* expected) {
    const Value* found = optional(key);
    if (found == nullptr && error_.empty()) {
        something_missing_ = true;
        problem(key, std::string("is missing; expected ") + expected);
    }
    return found;
}

std::string Reader::string(std::string_view key) {
    const Value* found = required(key, "a string");
    if (found == nullptr) {
        return {};
    }
    if (const std::string* s = found->string()) {
        return *s;
    }
    wrong(key, "a string", *found);
    return {};
}

std::string Reader::id(std::string_view key) {
    std::string text = string(key);
    if (error_.empty() && !is_id(text)) {
        problem(
            key,
            "expected an id (a-z, 0-9 and -, 1 to 64 characters, not starting with -), found \"" +
                escape_for_terminal(text.substr(0, 80)) + "\"");
        return {};
    }
    return text;
}

int64_t Reader::integer(std::string_view key, int64_t min, int64_t max) {
    const Value* found = required(key, "an integer");
    if (found == nullptr) {
        return min;
    }
    const int64_t* number = found->integer();
    if (number == nullptr) {
        wrong(key, "an integer", *found);
        return min;
    }
    if (*number < min || *number > max) {
        problem(key,
                "expected an integer from " + std::to_string(min) + " to " + std::to_string(max) +
                    ", found " + std::to_string(*number));
        return min;
    }
    return *number;
}

bool Reader::boolean(std::string_view key) {
    const Value* found = required(key, "true or false");
    if (found == nullptr) {
        return false;
    }
    if (const bool* b = found->boolean()) {
        return *b;
    }
    wrong(key, "true or false", *found);
    return false;
}

std::vector<std::string> Reader::strings(std::string_view key) {
    const Value* found = required(key, "an array of strings");
    if (found == nullptr) {
        return {};
    }
    const Array* elements = found->array();
    if (elements == nullptr) {
        wrong(key, "an array of strings", *found);
        return {};
    }
    std::vector<std::string> out;
    for (const Value& element : *elements) {
        const std::string* s = element.string();
        if (s == nullptr) {
            problem_in(key, out.size(), std::string("expected a string, found ") + element.kind());
            return {};
        }
        out.push_back(*s);
    }
    return out;
}

const Value* Reader::object(std::string_view key) {
    const Value* found = required(key, "an object");
    if (found != nullptr && found->object() == nullptr) {
        wrong(key, "an object", *found);
        return nullptr;
    }
    return found;
}

const Value* Reader::array(std::string_view key) {
    const Value* found = required(key, "an array");
    if (found != nullptr && found->array() == nullptr) {
        wrong(key, "an array", *found);
        return nullptr;
    }
    return found;
}

const Value* Reader::any(std::string_view key) {
    return required(key, "a value");
}

std::string Reader::string_or(std::string_view key, std::string fallback) {
    return has(key) ? string(key) : (optional(key), std::move(fallback));
}

std::string Reader::id_or(std::string_view key, std::string fallback) {
    return has(key) ? id(key) : (optional(key), std::move(fallback));
}

int64_t Reader::integer_or(std::string_view key, int64_t min, int64_t max, int64_t fallback) {
    return has(key) ? integer(key, min, max) : (optional(key), fallback);
}

bool Reader::boolean_or(std::string_view key, bool fallback) {
    return has(key) ? boolean(key) : (optional(key), fallback);
}

std::vector<std::string> Reader::strings_or_none(std::string_view key) {
    return has(key) ? strings(key) : (optional(key), std::vector<std::string>{});
}

std::string Reader::string_or_null(std::string_view key) {
    const Value* found = optional(key);
    return found == nullptr || found->is_null() ? std::string() : string(key);
}

const Value* Reader::object_or_none(std::string_view key) {
    return has(key) ? object(key) : optional(key);
}

const Value* Reader::array_or_none(std::string_view key) {
    return has(key) ? array(key) : optional(key);
}

const Value* Reader::any_or_none(std::string_view key) {
    return optional(key);
}

const std::string* Reader::unknown() const {
    if (value_.object() != nullptr) {
        for (const Member& member : *value_.object()) {
            if (std::find(asked_.begin(), asked_.end(), member.first) == asked_.end()) {
                return &member.first;
            }
        }
    }
    return nullptr;
}

Result<void> Reader::done() {
    const std::string* stranger = unknown();
    if (stranger != nullptr && error_.empty()) {
        problem(*stranger, "unknown key");
    } else if (stranger != nullptr && something_missing_) {
        // Most often it is the missing one, misspelt.
        error_ += "; there is an unknown key, " + pointer_of(*stranger);
    }
    if (!error_.empty()) {
        return fail(Code::invalid, error_);
    }
    return {};
}

}  // namespace mosaic::json
