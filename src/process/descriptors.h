#pragma once

#include <cstddef>

namespace mosaic::process {

// Open files as a budget: who serves peers must not hand its last descriptors to them.

// RLIMIT_NOFILE up to its hard limit. What fails changes nothing.
void raise_descriptor_limit();

// Whether one more descriptor leaves `reserve` of the limit unused, or a quarter of it where the
// limit is small. The kernel gives the lowest free number, so what a duplicate of `fd` would be
// called tells how many are in use.
[[nodiscard]] bool descriptors_left(int fd, size_t reserve);

}  // namespace mosaic::process
