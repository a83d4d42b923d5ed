// The runner's parser under another name, so that a target can hold both in one program. All that
// it includes comes first, so that the macro renames nothing else.

#include <algorithm>
#define JSON_NOEXCEPTION
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "wire/json.h"
#include "wire/json_rules.h"

#define parse parse_by_nlohmann
#include "wire/json_nlohmann.cc"
