// mosaic-runner: the first process of a session's sandbox, and what its turns call: the
// client of its tools, as a command and as an MCP server, and the gate.

#include <limits.h>
#include <stdlib.h>

#include <string>
#include <string_view>

#include "runner/extract.h"
#include "runner/gate.h"
#include "runner/log.h"
#include "runner/mcp_server.h"
#include "runner/namespace_limits.h"
#include "runner/self_test.h"
#include "runner/session.h"
#include "runner/shell.h"
#include "runner/tool_client.h"
#include "wire/codes.h"

namespace {

constexpr std::string_view kUsage =
    "usage: mosaic-runner RUN-DIRECTORY | tool NAME JSON | gate [FILE] | mcp [FILE] | extract "
    "RULES... | "
    "self-test | shell RUN-DIRECTORY | "
    "--version";

int run(const char* directory) {
    mosaic::runner::SessionOptions options;
    options.run_directory = directory;
    if (directory[0] != '/') {
        char resolved[PATH_MAX];
        if (::realpath(directory, resolved) != nullptr) {
            options.run_directory = resolved;
        }
    }
    return mosaic::runner::run_session(options);
}

// What bwrap starts, before it has heard from anybody.
bool is_confined() {
    const auto bounded = mosaic::runner::bound_namespaces();
    if (!bounded) {
        mosaic::runner::log_line("namespaces inside can't be bounded: " + bounded.error().text);
    }
    return bounded.has_value();
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view word = argc > 1 ? argv[1] : "";
    if (word == "tool" && argc == 4) {
        return mosaic::runner::call_tool(argv[2], argv[3]);
    }
    if (word == "gate" && argc <= 3) {
        return mosaic::runner::run_gate(argc == 3 ? argv[2] : nullptr);
    }
    if (word == "mcp" && argc <= 3) {
        return mosaic::runner::run_mcp(argc == 3 ? argv[2] : nullptr, MOSAIC_VERSION);
    }
    if (word == "extract") {
        return mosaic::runner::run_extract({argv + 2, argv + argc});
    }
    if (word == "shell" && argc == 3) {
        return is_confined() ? mosaic::runner::run_shell(argv[2]) : mosaic::runner_exit::kFailed;
    }
    if (word == "self-test" && argc == 2) {
        return is_confined() ? mosaic::runner::self_test() : mosaic::runner_exit::kFailed;
    }
    if (word == "--version" && argc == 2) {
        mosaic::runner::print_line("mosaic-runner " MOSAIC_VERSION);
        return mosaic::exit_code::kFine;
    }
    if (argc == 2 && !word.empty() && word[0] != '-' && word != "tool") {
        return is_confined() ? run(argv[1]) : mosaic::runner_exit::kFailed;
    }
    mosaic::runner::log_line(kUsage);
    return mosaic::exit_code::kUsage;
}
