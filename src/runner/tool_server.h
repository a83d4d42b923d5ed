#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "runner/poll_set.h"
#include "runner/tool_call.h"
#include "wire/limits.h"
#include "wire/lines.h"

namespace mosaic::runner {

// tools.sock: the programs of a turn on one side, decoded calls on the other. A client's calls are
// answered in their order; its next line is read only when the answer to the last one is sent, so
// no client can pile anything up. At most kToolClientsMax clients are held; more wait to be
// accepted.
class ToolServer {
  public:
    struct Pending {
        uint64_t token = 0;  // for answer()
        ToolCall call;
    };

    explicit ToolServer(std::vector<std::string> granted) : granted_(std::move(granted)) {}

    // `directory` is rw/io's descriptor.
    [[nodiscard]] Result<void> listen(int directory);

    void add_to(PollSet& polls) const;

    // Accepts, reads and sends what is possible. The new calls, and nothing twice.
    [[nodiscard]] std::vector<Pending> work(const PollSet& polls);

    // Something is left to do without any descriptor becoming ready: a client whose call was
    // answered may have sent its next line long ago.
    [[nodiscard]] bool pending() const { return pending_; }

    // `line` with its newline. Nothing happens when the client has gone.
    void answer(uint64_t token, std::string line);

    // Whether the client of this call still waits.
    [[nodiscard]] bool waits(uint64_t token) const;

  private:
    struct Client {
        explicit Client(UniqueFd socket) : fd(std::move(socket)), in(limits::kToolLineBytesMax) {}

        UniqueFd fd;
        wire::LineBuffer in;
        std::string out;
        uint64_t token = 0;  // of the call that has no answer yet; 0: none
        bool ended = false;  // it will send no more
    };

    void accept_clients();
    void work_on(Client& client, short ready, std::vector<Pending>& calls);
    static void read_from(Client& client);
    void take_lines(Client& client, std::vector<Pending>& calls);
    static void flush(Client& client);

    std::vector<std::string> granted_;
    UniqueFd listener_;
    std::vector<std::unique_ptr<Client>> clients_;
    uint64_t next_token_ = 1;
    bool pending_ = false;
};

}  // namespace mosaic::runner
