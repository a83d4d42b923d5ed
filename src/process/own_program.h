#pragma once

#include <string>

#include "base/error.h"

// Where the product's programs lie, from the one that runs.

namespace mosaic::process {

// The target of /proc/self/exe.
[[nodiscard]] Result<std::string> own_executable();

// A program of the product: beside this one, or in ../libexec/mosaic. Links of its own name aren't
// resolved. Code::missing names the places.
[[nodiscard]] Result<std::string> find_beside(const std::string& name);

}  // namespace mosaic::process
