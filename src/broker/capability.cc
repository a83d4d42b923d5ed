#include "broker/capability.h"

#include <sodium.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <utility>

namespace mosaic::broker {
namespace {

constexpr size_t kCapabilityBytes = 32;

template <size_t N>
std::string hex(const std::array<unsigned char, N>& bytes) {
    std::string out(N * 2 + 1, '\0');  // sodium_bin2hex ends it with a NUL
    sodium_bin2hex(out.data(), out.size(), bytes.data(), bytes.size());
    out.pop_back();
    return out;
}

}  // namespace

Result<Secret> mint_capability() {
    std::array<unsigned char, kCapabilityBytes> random{};
    // Up to 256 bytes come whole or not at all once the pool is ready (getrandom(2)).
    const ssize_t got = getrandom(random.data(), random.size(), 0);
    if (got != static_cast<ssize_t>(random.size())) {
        return fail_sys(errno, "getrandom");
    }
    Secret out(hex(random));
    sodium_memzero(random.data(), random.size());
    return out;
}

std::string hash_capability(std::string_view capability) {
    std::array<unsigned char, crypto_hash_sha256_BYTES> hash{};
    crypto_hash_sha256(
        hash.data(), reinterpret_cast<const unsigned char*>(capability.data()), capability.size());
    return hex(hash);
}

bool capability_matches(std::string_view capability, std::string_view hash) {
    const std::string ours = hash_capability(capability);
    return ours.size() == hash.size() && sodium_memcmp(ours.data(), hash.data(), ours.size()) == 0;
}

}  // namespace mosaic::broker
