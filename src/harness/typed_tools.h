#pragma once

#include <string>
#include <vector>

#include "wire/json.h"

namespace mosaic::harness {

// tools.json: for each of `names` (wire/typed_tools.h) an object
// {"name","description","parameters"}, the last a JSON schema of the tool's arguments as the runner
// takes them on tools.sock.
[[nodiscard]] json::Value describe_typed_tools(const std::vector<std::string>& names);

}  // namespace mosaic::harness
