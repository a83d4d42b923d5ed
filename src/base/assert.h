#pragma once

// MOSAIC_ASSERT states what is true unless this program has a bug. It stays on in release builds: a
// broken invariant in a supervisor must stop it loudly rather than let it act on wrong facts.
// Bad input and failing system calls are never assertions; they are Results (error.h).

namespace mosaic {

// Prints the failed condition with its place to stderr and aborts.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace mosaic

#define MOSAIC_ASSERT(condition)                         \
    (static_cast<bool>(condition) ? static_cast<void>(0) \
                                  : ::mosaic::assertion_failed(#condition, __FILE__, __LINE__))
