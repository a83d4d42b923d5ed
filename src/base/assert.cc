#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace mosaic {

void assertion_failed(const char* condition, const char* file, int line) {
    // NOLINTNEXTLINE(cert-err33-c): it ends either way
    std::fprintf(stderr, "mosaic: assertion failed: %s (%s:%d)\n", condition, file, line);
    std::abort();
}

}  // namespace mosaic
