#pragma once

#include <string>
#include <string_view>

namespace mosaic::host {

// SHA-256 of a capability, in hex: what is kept of it once it was delivered.
[[nodiscard]] std::string capability_hash(std::string_view capability);

}  // namespace mosaic::host
