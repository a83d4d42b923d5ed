#pragma once

#include <sodium.h>

#include <string>
#include <string_view>

namespace mosaic::host {

// All that a session is made of, as one hash: two plans with the same would make the same session,
// but for the run's id, which counts as a word of its own wherever it stands. What a plan names by
// path or by descriptor counts as what lies there now, not as its name.
class Fit {
  public:
    explicit Fit(std::string run);

    void add(std::string_view text);
    // Which file the descriptor is of.
    void add_descriptor(int fd);
    // Which file lies there; links on the way are followed. A regular file is another one when it
    // was written since.
    void add_path(const std::string& path);

    // Once, after all that counts: 64 hex digits.
    [[nodiscard]] std::string result();

  private:
    void add_bytes(std::string_view bytes);

    std::string run_;
    crypto_hash_sha256_state state_{};
};

}  // namespace mosaic::host
