#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"

// One JSON value for every room. The same documents are read by two parsers: simdjson in host,
// broker and commands, nlohmann-json in the static runner. Both build this Value under the same
// rules, and a test feeds both the same corpus and demands the same verdict.
//
// The rules (RFC 8259 with what it leaves open decided): the whole text is one value and nothing
// follows it but white space; UTF-8 without a byte-order mark; a key twice in one object is an
// error (parsers disagree on which one counts, so accepting it would let two readers see two
// documents); at most `depth_max` arrays and objects inside one another; a number without fraction
// and exponent must fit int64, and an exponent has at most nine digits.

namespace mosaic::json {

class Value;
using Array = std::vector<Value>;
using Member = std::pair<std::string, Value>;
using Object = std::vector<Member>;  // in the order of the text

class Value {
  public:
    Value() = default;  // null

    Value(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)

    Value(bool b) : data_(b) {}  // NOLINT(google-explicit-constructor)

    Value(int i) : data_(int64_t{i}) {}  // NOLINT(google-explicit-constructor)

    Value(int64_t i) : data_(i) {}  // NOLINT(google-explicit-constructor)

    Value(uint32_t i) : data_(int64_t{i}) {}  // NOLINT(google-explicit-constructor)

    Value(double d) : data_(d) {}  // NOLINT(google-explicit-constructor)

    Value(std::string s) : data_(std::move(s)) {}  // NOLINT(google-explicit-constructor)

    Value(std::string_view s) : data_(std::string(s)) {}  // NOLINT(google-explicit-constructor)

    Value(const char* s) : data_(std::string(s)) {}  // NOLINT(google-explicit-constructor)

    Value(Array a) : data_(std::move(a)) {}  // NOLINT(google-explicit-constructor)

    Value(Object o) : data_(std::move(o)) {}  // NOLINT(google-explicit-constructor)

    bool operator==(const Value&) const = default;

    [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(data_); }

    // Each returns null when the value is of another kind.
    [[nodiscard]] const bool* boolean() const { return std::get_if<bool>(&data_); }

    [[nodiscard]] const int64_t* integer() const { return std::get_if<int64_t>(&data_); }

    [[nodiscard]] const double* number() const { return std::get_if<double>(&data_); }

    [[nodiscard]] const std::string* string() const { return std::get_if<std::string>(&data_); }

    [[nodiscard]] std::string* string() { return std::get_if<std::string>(&data_); }

    [[nodiscard]] const Array* array() const { return std::get_if<Array>(&data_); }

    [[nodiscard]] Array* array() { return std::get_if<Array>(&data_); }

    [[nodiscard]] const Object* object() const { return std::get_if<Object>(&data_); }

    [[nodiscard]] Object* object() { return std::get_if<Object>(&data_); }

    // The member of an object, or null when this isn't an object or has no such key.
    [[nodiscard]] const Value* find(std::string_view key) const;
    [[nodiscard]] Value* find(std::string_view key);

    // Sets a member of an object (a null value becomes an empty object first).
    void set(std::string_view key, Value value);

    // "null", "true or false", "an integer", "a number", "a string", "an array", "an object".
    [[nodiscard]] const char* kind() const;

  private:
    std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> data_;
};

struct ParseOptions {
    int depth_max = 8;
};

// Parses one whole document. The error's text says what is wrong and, where the parser tells, at
// which byte, as in "byte 17: the key \"cap\" stands twice"; the caller puts the file's name before
// it.
[[nodiscard]] Result<Value> parse(std::string_view text, ParseOptions options = {});

// The value on one line. Strings that aren't UTF-8 have their bad bytes replaced by U+FFFD, so the
// result always parses.
[[nodiscard]] std::string dump(const Value& value);

// The same over several lines, indented by two spaces, for files that people read.
[[nodiscard]] std::string dump_pretty(const Value& value);

// Reads the members of one object with their expectations, remembers the first thing that is wrong,
// and refuses members that nobody asked for. Use:
//
//     Reader r(value, "acme.json");
//     business.id = r.id("id");
//     business.human = r.id("human");
//     MOSAIC_TRY(r.done());
//
// After an error the accessors return empty values; only done() tells. An error reads
// "acme.json: /roles/pm/workspace: expected a string, found a number".
class Reader {
  public:
    // `value` must outlive the Reader. `where` is what an error starts with (a file, "request").
    // `pointer` is the JSON pointer (RFC 6901) of `value` in its document.
    Reader(const Value& value, std::string where, std::string pointer = "");

    [[nodiscard]] bool has(std::string_view key) const { return value_.find(key) != nullptr; }

    // Required members.
    std::string string(std::string_view key);
    std::string id(std::string_view key);  // base/ids.h
    int64_t integer(std::string_view key, int64_t min, int64_t max);
    bool boolean(std::string_view key);
    std::vector<std::string> strings(std::string_view key);
    const Value* object(std::string_view key);
    const Value* array(std::string_view key);
    const Value* any(std::string_view key);

    // Optional members: the fallback when the key isn't there. A null counts as not there only in
    // string_or_null.
    std::string string_or(std::string_view key, std::string fallback);
    std::string id_or(std::string_view key, std::string fallback);
    int64_t integer_or(std::string_view key, int64_t min, int64_t max, int64_t fallback);
    bool boolean_or(std::string_view key, bool fallback);
    std::vector<std::string> strings_or_none(std::string_view key);
    std::string string_or_null(std::string_view key);  // null or absent: empty
    const Value* object_or_none(std::string_view key);
    const Value* array_or_none(std::string_view key);
    const Value* any_or_none(std::string_view key);

    // Records a problem with a member that only the caller can judge.
    void problem(std::string_view key, std::string_view expected);
    // The same with one element of an array member.
    void problem_in(std::string_view key, size_t index, std::string_view expected);

    // The pointer of a member, for a Reader of its own.
    [[nodiscard]] std::string pointer_of(std::string_view key) const;

    [[nodiscard]] const std::string& where() const { return where_; }

    [[nodiscard]] const std::string& pointer() const { return pointer_; }

    // Takes over the first problem of a nested Reader's done().
    void absorb(Result<void> nested);

    // The first problem, among them members that were never asked for.
    [[nodiscard]] Result<void> done();

  private:
    const Value* required(std::string_view key, const char* expected);
    const Value* optional(std::string_view key);
    void wrong(std::string_view key, const char* expected, const Value& found);
    void set_error(const std::string& text);
    // The first member that was never asked for; null when there is none.
    [[nodiscard]] const std::string* unknown() const;

    const Value& value_;
    std::string where_;
    std::string pointer_;
    std::vector<std::string> asked_;
    std::string error_;
    bool something_missing_ = false;  // and that is what error_ says
};

}  // namespace mosaic::json
