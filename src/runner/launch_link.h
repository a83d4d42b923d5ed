#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/unique_fd.h"
#include "runner/capability.h"
#include "runner/outbox.h"
#include "runner/poll_set.h"
#include "runner/socket_path.h"
#include "wire/json.h"
#include "wire/lines.h"

namespace mosaic::runner {

// The connection to the host's launch.sock, made at the first launch and kept. Replies come in the
// order of the requests. When it is lost, what was under way is answered with an error instead of
// being sent again: whether the launch happened only the host knows.
class LaunchLink {
  public:
    // What a launch tool answers: a result, or an error text.
    struct Answer {
        uint64_t token = 0;
        bool ok = false;
        json::Value result;
        std::string error;
    };

    // `path` empty: this role may not launch. `capability` must outlive the link.
    LaunchLink(const std::string& path, const CapabilityPage& capability);

    // Takes hold of the socket's file; to be called before the first turn.
    void prepare();

    [[nodiscard]] bool allowed() const { return !path_.path().empty(); }

    // Asks for a launch; the answer comes from answers(), perhaps at once.
    void request(uint64_t token, const Seat& seat);

    void add_to(PollSet& polls) const;

    // Sends and reads what is possible.
    void work(const PollSet& polls);

    // The answers since the last call.
    [[nodiscard]] std::vector<Answer> take_answers();

  private:
    void flush();
    void read();
    void take_line(const std::string& line);
    void lose(const std::string& why);

    const CapabilityPage& capability_;
    SocketPath path_;
    UniqueFd fd_;
    wire::LineBuffer input_;
    Outbox outbox_;
    std::deque<uint64_t> waiting_;
    std::vector<Answer> answers_;
};

}  // namespace mosaic::runner
