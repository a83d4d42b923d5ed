#include "host/fit.h"

#include <sys/stat.h>

#include <array>

namespace mosaic::host {
namespace {

std::string identity_of(const struct stat& file) {
    const auto number = [](auto n) { return std::to_string(n) + " "; };
    std::string out = number(file.st_dev) + number(file.st_ino) + number(file.st_mode & S_IFMT);
    // A directory's own time says only that something was made in it.
    if (S_ISREG(file.st_mode)) {
        out += number(file.st_size) + number(file.st_mtim.tv_sec) + number(file.st_mtim.tv_nsec);
    }
    return out;
}

}  // namespace

Fit::Fit(std::string run) : run_(std::move(run)) {
    crypto_hash_sha256_init(&state_);
}

// With its length before it, so that no two lists of pieces give the same bytes.
void Fit::add_bytes(std::string_view bytes) {
    const std::string length = std::to_string(bytes.size()) + ":";
    for (const std::string_view part : {std::string_view(length), bytes}) {
        crypto_hash_sha256_update(
            &state_, reinterpret_cast<const unsigned char*>(part.data()), part.size());
    }
}

void Fit::add(std::string_view text) {
    // The text is cut where the run's id stands; "/" ends the list of its pieces.
    for (size_t at = 0; (at = text.find(run_)) != std::string_view::npos;) {
        add_bytes(text.substr(0, at));
        text.remove_prefix(at + run_.size());
    }
    add_bytes(text);
    crypto_hash_sha256_update(&state_, reinterpret_cast<const unsigned char*>("/"), 1);
}

void Fit::add_descriptor(int fd) {
    struct stat file {};

    add_bytes(::fstat(fd, &file) == 0 ? identity_of(file) : std::string("none"));
}

void Fit::add_path(const std::string& path) {
    struct stat file {};

    add_bytes(::stat(path.c_str(), &file) == 0 ? identity_of(file) : std::string("none"));
}

std::string Fit::result() {
    std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
    crypto_hash_sha256_final(&state_, digest.data());
    std::array<char, 2 * crypto_hash_sha256_BYTES + 1> hex{};
    sodium_bin2hex(hex.data(), hex.size(), digest.data(), digest.size());
    return {hex.data(), hex.size() - 1};
}

}  // namespace mosaic::host
