#include "runner/tool_client.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "base/utf8.h"
#include "process/write_all.h"
#include "runner/tool_socket.h"
#include "wire/codes.h"
#include "wire/json.h"
#include "wire/limits.h"
#include "wire/lines.h"

namespace mosaic::runner {
namespace {

int complain(int code, std::string_view text) {
    const std::string line = escape_for_terminal(text) + "\n";
    ignore(::write(STDERR_FILENO, line.data(), line.size()), "nobody else to tell");
    return code;
}

Result<void> send_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return fail_sys(errno, "tools.sock");
        }
        bytes.remove_prefix(static_cast<size_t>(n));
    }
    return {};
}

// A result may hold a whole message, so it may be as long as a frame.
Result<std::string> receive_line(int fd) {
    wire::LineBuffer input(limits::kFrameBytesMax);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): read fills it
    std::array<char, 16384> bytes;
    for (;;) {
        if (auto line = input.next()) {
            return std::move(*line);
        }
        if (input.overlong()) {
            return fail(Code::too_large, "tools.sock: a line past the limit");
        }
        const ssize_t n = ::recv(fd, bytes.data(), bytes.size(), 0);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return fail_sys(errno, "tools.sock");
        }
        if (n == 0) {
            return fail(Code::unavailable, "the session closed the connection without an answer");
        }
        input.append({bytes.data(), static_cast<size_t>(n)});
    }
}

Result<std::string> exchange(const std::string& line) {
    MOSAIC_TRY(enter_tool_directory());
    MOSAIC_TRY_ASSIGN(const UniqueFd fd, connect_tool_socket());
    MOSAIC_TRY(send_all(fd.get(), line));
    return receive_line(fd.get());
}

int show(const std::string& line) {
    const auto reply = json::parse(line, {limits::kWireDepthMax + 2});
    const json::Value* const ok = reply ? reply->find("ok") : nullptr;
    const bool* const good = ok != nullptr ? ok->boolean() : nullptr;
    const json::Value* const told =
        good != nullptr ? reply->find(*good ? "result" : "error") : nullptr;
    if (told == nullptr) {
        return complain(exit_code::kFailed, "the session's answer can't be read");
    }
    if (!*good) {
        const std::string* const text = told->string();
        return complain(exit_code::kFailed, text != nullptr ? *text : json::dump(*told));
    }
    return process::write_all(STDOUT_FILENO, json::dump(*told) + "\n", "standard output")
               ? exit_code::kFine
               : exit_code::kFailed;
}

}  // namespace

int call_tool(const char* name, const char* arguments) {
    const auto args = json::parse(arguments, {limits::kWireDepthMax});
    if (!args || args->object() == nullptr) {
        return complain(exit_code::kUsage,
                        "the arguments must be one JSON object" +
                            (args ? std::string() : ": " + args.error().text));
    }
    const json::Value request(json::Object{{"tool", name}, {"args", *args}});
    const auto answer = exchange(json::dump(request) + "\n");
    if (!answer) {
        return complain(exit_code::kFailed, answer.error().text);
    }
    return show(*answer);
}

}  // namespace mosaic::runner
