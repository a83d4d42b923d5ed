#pragma once

namespace mosaic::runner {

// `mosaic-runner tool NAME JSON`: one call to the session's tools, for adapters that are shell
// scripts. Finds the session by MOSAIC_RUN_DIR. Prints the result as JSON on standard output and
// returns 0; a refusal or an unreachable session goes to standard error and returns 1; arguments
// that are no call return 4.
[[nodiscard]] int call_tool(const char* name, const char* arguments);

}  // namespace mosaic::runner
