#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wire/json.h"

// Events and lines of the log as people read them.

namespace mosaic::cli {

// " key=value" for each member that isn't `shown` already, nulls left out. Not escaped.
[[nodiscard]] std::string rest_of(const json::Value& object,
                                  const std::vector<std::string_view>& shown);

// One event on one line, escaped, without its newline: number, time, type, then the rest.
[[nodiscard]] std::string event_text(const json::Value& event);

}  // namespace mosaic::cli
