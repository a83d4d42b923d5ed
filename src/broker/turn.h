#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "broker/connection.h"
#include "broker/core.h"
#include "broker/store.h"

// One loop turn: all requests that came in together, in one transaction with one commit, and the
// requests that wait for what these brought. Nothing leaves before the commit: run() returns what
// is to be sent.
//
// When the store can't commit (a full disk, an I/O error), the state is as before, each request
// that would have written is answered with storage-unavailable, and the others get their answers
// from the state that is.

namespace mosaic::broker {

struct Item {
    Connection* from = nullptr;
    wire::Request request;
};

// What a request came to. `outcome.kind` is reply or forward.
struct Done {
    Connection* to = nullptr;
    wire::Request request;
    Outcome outcome;
};

class Turns {
  public:
    Turns(Store& store, Core& core) : store_(store), core_(core) {}

    // Takes the items' requests. Connections must outlive the call.
    [[nodiscard]] std::vector<Done> run(std::vector<Item> items, int64_t now);

    // Drops what a connection waits for. Before the connection goes.
    void forget(const Connection& connection);

    // Why the last turn didn't commit; empty when it did.
    [[nodiscard]] const std::string& problem() const { return problem_; }

  private:
    // A request that stays open: message.receive under its mailbox, events under the empty seat.
    struct Wait {
        Connection* from = nullptr;
        wire::Request request;
        bool fresh = true;      // came in this turn
        bool answered = false;  // in this turn
    };

    [[nodiscard]] Result<std::vector<Done>> all_at_once(const std::vector<Item>& items,
                                                        int64_t now);
    [[nodiscard]] std::vector<Done> one_by_one(std::vector<Item>& items, int64_t now);
    [[nodiscard]] Result<void> settle(std::vector<Seat> mailboxes,
                                      int64_t now,
                                      std::vector<Done>& done);
    [[nodiscard]] Result<void> settle_one(const Seat& mailbox,
                                          bool replies,
                                          int64_t now,
                                          std::vector<Seat>& more,
                                          std::vector<Done>& done);
    void park(Connection* from, const wire::Request& request);
    void touch(Connection* connection);
    void keep();
    void undo();

    Store& store_;
    Core& core_;
    std::map<Seat, std::vector<Wait>> waits_;
    std::vector<Seat> parked_;          // keys of waits_ that this turn changed
    std::vector<Connection*> touched_;  // whose caller this turn may have changed
    std::vector<Seat> missed_;          // to settle again, because their turn failed
    std::string problem_;
};

}  // namespace mosaic::broker
