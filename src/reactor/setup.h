#pragma once

#include <cstdint>

#include "base/error.h"

// How the ring is made and what a refusal means. Internal to this room.

struct io_uring;

namespace mosaic::reactor {

struct SetupOptions {
    uint32_t entries = 0;      // submission queue
    uint32_t completions = 0;  // completion queue, at least
};

// Fills `ring`, which the caller frees with io_uring_queue_exit. On failure there is nothing to
// free.
[[nodiscard]] Result<void> set_up(io_uring& ring, SetupOptions options);

// What to tell a person when `call` ("io_uring_setup") answered with the errno `sys`: cause and
// remedy. `disabled` is the content of /proc/sys/kernel/io_uring_disabled, empty when there is no
// such file. Pure.
[[nodiscard]] std::string explain_refusal(std::string_view call,
                                          int sys,
                                          std::string_view disabled);

}  // namespace mosaic::reactor
