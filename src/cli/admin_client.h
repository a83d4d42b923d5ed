#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/instant.h"
#include "base/unique_fd.h"
#include "wire/json.h"
#include "wire/lines.h"
#include "wire/messages.h"

// A human's connection to admin.sock: one request at a time, each with its deadline. Blocking: a
// command has nothing else to do.

namespace mosaic::cli {

// For the requests that wait as long as it takes.
constexpr std::nullopt_t kNoDeadline = std::nullopt;

// Connects to admin.sock. Code::unavailable when nobody answers there: no host runs, or it has just
// gone. The text names the socket.
[[nodiscard]] Result<UniqueFd> connect_to(const std::string& path);

class AdminClient {
  public:
    [[nodiscard]] static Result<AdminClient> connect(const std::string& path);

    // Sends the request and returns its reply, a refusing one included. Code::unavailable when the
    // other side closed first; Code::missing when `within` has passed; without a deadline also an
    // error when the reader of our standard output goes. Each way the connection is of no use any
    // more.
    [[nodiscard]] Result<wire::Reply> call(std::string_view verb,
                                           json::Value args,
                                           std::optional<Duration> within);

  private:
    AdminClient(std::string path, UniqueFd fd);

    [[nodiscard]] Result<void> send(std::string_view bytes, std::optional<Instant> deadline);
    [[nodiscard]] Result<std::string> receive_line(std::optional<Instant> deadline);
    // Waits until the socket is ready for `events`.
    [[nodiscard]] Result<void> wait_ready(short events, std::optional<Instant> deadline);

    std::string path_;
    UniqueFd fd_;
    wire::LineBuffer lines_;
    int64_t last_id_ = 0;
};

}  // namespace mosaic::cli
