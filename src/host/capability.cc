#include "host/capability.h"

#include <sodium.h>

#include <array>

namespace mosaic::host {

std::string capability_hash(std::string_view capability) {
    std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
    crypto_hash_sha256(digest.data(),
                       reinterpret_cast<const unsigned char*>(capability.data()),
                       capability.size());
    std::array<char, 2 * crypto_hash_sha256_BYTES + 1> hex{};
    sodium_bin2hex(hex.data(), hex.size(), digest.data(), digest.size());
    return {hex.data(), hex.size() - 1};
}

}  // namespace mosaic::host
