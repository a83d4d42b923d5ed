#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "wire/json.h"
#include "wire/lines.h"
#include "wire/messages.h"

namespace mosaic::cli {

// A human's connection to admin.sock for who waits for other things, too: requests are queued, and
// replies come as they come. Nothing here blocks but the connect to a listening socket. Once an
// error was returned the connection is of no use any more.
class AdminStream {
  public:
    [[nodiscard]] static Result<AdminStream> connect(const std::string& path);

    [[nodiscard]] int fd() const { return fd_.get(); }

    // What poll(2) is to wait for.
    [[nodiscard]] short wanted() const;

    // The number that the reply will have. Requests past the broker's bound of outstanding ones
    // wait there.
    int64_t ask(std::string_view verb, json::Value args);

    // Sends and receives what can be now. A reply of number 0 is about the connection as a whole.
    // Code::unavailable when the other side has closed.
    [[nodiscard]] Result<std::vector<wire::Reply>> work();

  private:
    AdminStream(std::string path, UniqueFd fd);

    [[nodiscard]] Result<void> send_some();
    [[nodiscard]] Result<void> receive_some();

    std::string path_;
    UniqueFd fd_;
    wire::LineBuffer lines_;
    std::string unsent_;
    int64_t last_id_ = 0;
};

}  // namespace mosaic::cli
