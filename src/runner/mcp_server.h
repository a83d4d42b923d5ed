#pragma once

#include <string>

namespace mosaic::runner {

// `mosaic-runner mcp [FILE]`: a Model Context Protocol server on standard input and output whose
// tools are those of FILE, else of tools.json in $MOSAIC_BUNDLE. Each call is one on tools.sock of
// the session, with a connection of its own, so that they don't wait for one another.
//
// Ends with 0 at SIGTERM, SIGINT, when nobody reads its answers any more, and at the end of its
// input, after what calls under way still bring within a moment. 1: it couldn't start, or a line
// was past the limit.
[[nodiscard]] int run_mcp(const char* file, const std::string& version);

}  // namespace mosaic::runner
