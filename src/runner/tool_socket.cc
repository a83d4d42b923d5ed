#include "runner/tool_socket.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "runner/socket_path.h"

namespace mosaic::runner {
namespace {

constexpr const char* kSocketName = "tools.sock";

}  // namespace

Result<void> enter_tool_directory() {
    const char* const run_directory = std::getenv("MOSAIC_RUN_DIR");
    if (run_directory == nullptr || *run_directory == '\0') {
        return fail(Code::missing, "MOSAIC_RUN_DIR isn't set: not inside a session");
    }
    const std::string directory = std::string(run_directory) + "/rw/io";
    if (::chdir(directory.c_str()) != 0) {
        return fail_sys(errno, directory);
    }
    return {};
}

Result<UniqueFd> connect_tool_socket() {
    return connect_blocking(kSocketName);
}

Result<UniqueFd> try_tool_socket() {
    return connect_to(kSocketName);
}

}  // namespace mosaic::runner
