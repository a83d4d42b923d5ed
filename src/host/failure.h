#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "host/run_slot.h"
#include "wire/codes.h"

namespace mosaic::host {

// Why a run that was allowed by the checks didn't come to be, for the launch log, the event and the
// human; sessions get the code alone. `setup_wait_ms` is how long a launch may queue for its
// set-up.
[[nodiscard]] std::string failure_text(const RunSlot& slot, int64_t setup_wait_ms);

// The refusal that a failed file operation means to the caller: storage_unavailable for what the
// disk or its rights refuse, else launch_failed.
[[nodiscard]] Refusal refusal_of(const Error& error);

}  // namespace mosaic::host
