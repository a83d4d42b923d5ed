#include "runner/json_pointer.h"

#include <algorithm>
#include <charconv>

namespace mosaic::runner {
namespace {

std::string unescaped(std::string_view token) {
    std::string out;
    for (size_t i = 0; i < token.size(); ++i) {
        const bool escape = token[i] == '~' && i + 1 < token.size();
        if (escape && (token[i + 1] == '0' || token[i + 1] == '1')) {
            out += token[++i] == '0' ? '~' : '/';
        } else {
            out += token[i];
        }
    }
    return out;
}

}  // namespace

std::vector<std::string> pointer_tokens(std::string_view pointer) {
    std::vector<std::string> out;
    while (!pointer.empty()) {
        pointer.remove_prefix(1);
        const size_t slash = std::min(pointer.find('/'), pointer.size());
        out.push_back(unescaped(pointer.substr(0, slash)));
        pointer.remove_prefix(slash);
    }
    return out;
}

const json::Value* child_at(const json::Value& value, std::string_view token) {
    const json::Array* const array = value.array();
    if (array == nullptr) {
        return value.find(token);
    }
    size_t index = 0;
    const char* const end = token.data() + token.size();
    const auto read = std::from_chars(token.data(), end, index);
    const bool good = read.ec == std::errc() && read.ptr == end && index < array->size();
    return good ? &(*array)[index] : nullptr;
}

}  // namespace mosaic::runner
