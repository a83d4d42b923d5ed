#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wire/json.h"

// JSON pointers (RFC 6901), one step at a time. Pure.

namespace mosaic::runner {

// The tokens of a pointer, which is empty or begins with a slash, without their escapes.
[[nodiscard]] std::vector<std::string> pointer_tokens(std::string_view pointer);

// The element of an array or the member of an object that the token names; null when there is none.
// It lives as long as `value`.
[[nodiscard]] const json::Value* child_at(const json::Value& value, std::string_view token);

}  // namespace mosaic::runner
