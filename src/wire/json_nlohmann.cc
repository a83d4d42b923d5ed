// json::parse by nlohmann-json's SAX parser, for the static runner (Debian has no static simdjson).
// No exception is thrown: SAX reports errors by a callback.

#define JSON_NOEXCEPTION
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "wire/json.h"
#include "wire/json_rules.h"

namespace mosaic::json {
namespace {

class Builder : public nlohmann::json_sax<nlohmann::json> {
  public:
    explicit Builder(int depth_max) : depth_max_(depth_max) {}

    bool null() override { return add(Value()); }

    bool boolean(bool value) override { return add(Value(value)); }

    bool number_integer(number_integer_t value) override { return add(Value(int64_t{value})); }

    bool number_unsigned(number_unsigned_t value) override {
        if (value > static_cast<number_unsigned_t>(INT64_MAX)) {
            return stop("an integer that 64 bits can't hold");
        }
        return add(Value(static_cast<int64_t>(value)));
    }

    bool number_float(number_float_t value, const string_t& text) override {
        if (text.find_first_of(".eE") == std::string::npos) {
            return stop("an integer that 64 bits can't hold");
        }
        if (exponent_too_long(text)) {
            return stop("not a number");
        }
        return add(Value(value));
    }

    bool string(string_t& value) override { return add(Value(std::move(value))); }

    bool binary(binary_t& /*value*/) override { return stop("not JSON"); }

    bool start_object(size_t /*elements*/) override { return open(Value(Object{})); }

    bool start_array(size_t /*elements*/) override { return open(Value(Array{})); }

    bool end_object() override { return close(); }

    bool end_array() override { return close(); }

    bool key(string_t& name) override {
        Open& top = stack_.back();
        if (!top.keys.add(*top.value.object(), name)) {
            return stop("the key \"" + escape_for_terminal(name) + "\" stands twice");
        }
        top.key = name;
        return true;
    }

    bool parse_error(size_t position,
                     const std::string& /*last_token*/,
                     const nlohmann::detail::exception& /*error*/) override {
        if (error_.empty()) {
            // nlohmann counts bytes read; the one it stumbled over is the last of them.
            error_ = "byte " + std::to_string(position > 0 ? position - 1 : 0) + ": not valid JSON";
        }
        return false;
    }

    Value take() { return std::move(root_); }

    [[nodiscard]] const std::string& error() const { return error_; }

  private:
    struct Open {
        Value value;
        std::string key;
        KeySet keys;
    };

    bool stop(std::string why) {
        error_ = std::move(why);
        return false;
    }

    bool add(Value value) {
        if (stack_.empty()) {
            root_ = std::move(value);
            return true;
        }
        Open& top = stack_.back();
        if (Array* elements = top.value.array()) {
            elements->push_back(std::move(value));
        } else {
            top.value.object()->emplace_back(std::move(top.key), std::move(value));
        }
        return true;
    }

    bool open(Value value) {
        if (static_cast<int>(stack_.size()) >= depth_max_) {
            return stop("more than " + std::to_string(depth_max_) + " levels deep");
        }
        stack_.push_back(Open{std::move(value), {}, {}});
        return true;
    }

    bool close() {
        Value done = std::move(stack_.back().value);
        stack_.pop_back();
        return add(std::move(done));
    }

    int depth_max_;
    std::vector<Open> stack_;
    Value root_;
    std::string error_;
};

bool is_white(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
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
    Builder builder(options.depth_max);
    if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
        return fail(Code::invalid, builder.error());
    }
    return builder.take();
}

}  // namespace mosaic::json
