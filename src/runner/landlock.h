#pragma once

#include "base/unique_fd.h"

namespace mosaic::runner {

// A Landlock ruleset that restricts nothing but scope: who enters it can neither connect to
// abstract sockets nor send signals outside of it, nor trace anybody there. File rights stay out on
// purpose: a ruleset with any of them breaks renames across directories. Not valid when the kernel
// is older than ABI 6 or refuses; the session then does without this layer.
[[nodiscard]] UniqueFd make_scope_ruleset();

}  // namespace mosaic::runner
