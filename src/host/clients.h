#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "host/loop.h"
#include "wire/limits.h"
#include "wire/lines.h"

namespace mosaic::host {

// One request line of launch.sock, and where its reply belongs.
struct ClientRequest {
    SlotRef client;
    uint64_t number = 0;  // of the request on its connection
    SlotRef run;          // whose runner is connected
    std::string line;     // wipe it
    bool overlong = false;
};

// The connections of launch.sock. Who is at the other end was decided before add(). Requests come
// out of take_request(), replies go in by answer() in any order and go out in the order of the
// requests. At most kLaunchOutstandingMax requests wait per connection; then reading stops until
// one is answered. A connection whose replies aren't read stops too, and costs nobody else
// anything.
class Clients {
  public:
    explicit Clients(Loop& loop);

    // A new connection of this run's runner; an older one of the same run is closed.
    void add(UniqueFd socket, SlotRef run);
    // The run is over: its connection closes once what waits is answered.
    void end_of_run(SlotRef run);

    [[nodiscard]] std::optional<ClientRequest> take_request();
    // Answers for a connection that is gone are dropped.
    void answer(SlotRef client, uint64_t number, std::string reply);

    void on_recv_done(uint32_t index);
    void on_send_done(uint32_t index);

    [[nodiscard]] size_t open_connections() const;

    // Frees the slots of connections that are over and quiescent.
    void recycle();

  private:
    struct Waiting {
        uint64_t number = 0;
        std::optional<std::string> reply;
    };

    struct Client {
        uint32_t generation = 0;
        bool in_use = false;
        bool input_over = false;  // end of file, an error or an overlong line
        bool broken = false;      // nothing can be sent any more
        SlotRef run;
        UniqueFd socket;
        wire::LineBuffer lines{limits::kLaunchLineBytesMax};
        std::array<char, 16384> buffer{};
        std::deque<Waiting> waiting;
        uint64_t next_number = 0;
        std::string sending;
        size_t sent = 0;
        reactor::Op recv_op;
        reactor::Op send_op;
    };

    Client* find(SlotRef ref);
    void take_lines(uint32_t index);
    void read_more(uint32_t index);
    void send_more(uint32_t index);
    void break_off(Client& client);

    Loop& loop_;
    std::vector<std::unique_ptr<Client>> clients_;
    std::deque<ClientRequest> requests_;
};

}  // namespace mosaic::host
