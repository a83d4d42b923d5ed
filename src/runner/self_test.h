#pragma once

namespace mosaic::runner {

// `mosaic-runner self-test`: whether a session could run where this process runs. Prints one line:
// on standard output when it could (returns 0), else what is missing on standard error (returns 1).
[[nodiscard]] int self_test();

}  // namespace mosaic::runner
