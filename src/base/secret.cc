#include "base/secret.h"

#include <cstring>

namespace mosaic {

void wipe(std::string& text) {
    // The whole capacity: a longer value may have stood here before.
    text.resize(text.capacity());
    explicit_bzero(text.data(), text.size());
    text.clear();
}

}  // namespace mosaic
