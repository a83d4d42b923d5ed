#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/secret.h"

// A capability is 256 random bits that act for one run, as 64 hex digits. The broker shows it once,
// in the reply to bindLaunch, and keeps only its SHA-256: neither the store nor a copy of it can
// act for a run.

namespace mosaic::broker {

// From getrandom(2); fails only where the kernel has none to give.
[[nodiscard]] Result<Secret> mint_capability();

// The SHA-256 of the text as 64 lower-case hex digits.
[[nodiscard]] std::string hash_capability(std::string_view capability);

// Compares in constant time. An empty hash (a run that has no living capability) matches nothing.
[[nodiscard]] bool capability_matches(std::string_view capability, std::string_view hash);

}  // namespace mosaic::broker
