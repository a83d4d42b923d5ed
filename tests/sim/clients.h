#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_set>
#include <vector>

#include "wire/codes.h"

namespace mosaic::sim {

class World;

// One request of a human or a session, and what came of it.
struct AskRecord {
    enum class Kind : uint8_t {
        launch,
        stop
    };
    enum class From : uint8_t {
        human,
        session,
        start
    };
    Kind kind = Kind::launch;
    From from = From::human;
    uint32_t seat = 0;
    uint32_t run = 0;  // begun for it
    uint32_t host_epoch = 0;
    uint32_t broker_epoch = 0;
    bool open = false;
    uint32_t answers = 0;
    bool gone = false;  // who asked is not there any more
    uint32_t session = UINT32_MAX;
    uint32_t life = 0;
};

// Who asks: humans over the broker, sessions over launch.sock. They hang up, flood, revoke and
// stop; each of their requests is followed until it is answered.
class Clients {
  public:
    explicit Clients(World& world) : world_(world) {}

    void on_ask();
    // Keeps asking until told not to.
    void begin();
    void stop_everything();

    [[nodiscard]] uint32_t add(const AskRecord& record);
    // Only while it is open.
    [[nodiscard]] AskRecord& record(uint32_t ask);

    [[nodiscard]] bool is_open(uint32_t ask) const {
        return ask >= first_ && asks_[ask - first_].open;
    }

    // The answer that the asker is given. `run`: launched. Wrong or second answers fail here.
    void answered(uint32_t ask, bool ok, uint32_t run, Refusal refusal);
    void begun(uint32_t ask, uint32_t run);
    void host_died();
    void broker_died(uint32_t epoch);
    void session_gone(uint32_t session, uint32_t life);

    // ---- messages ----
    // The broker told its sender that it has it.
    void message_acknowledged(uint64_t number);
    // Its receiver was given it.
    void message_delivered(uint64_t number, uint32_t seat);
    // Its receiver has acknowledged it, durably.
    void message_taken(uint64_t number);
    void check_messages() const;

    [[nodiscard]] size_t open_asks() const { return open_.size(); }

  private:
    void human_launches(uint32_t seat);
    void human_stops(uint32_t seat, int64_t timeout_ms);
    void session_launches(uint32_t seat);
    void close(uint32_t ask);

    World& world_;
    std::deque<AskRecord> asks_;
    uint32_t first_ = 1;  // the number of asks_.front(); 0 is none
    std::vector<uint32_t> open_;
    std::unordered_set<uint64_t> unread_;
    std::vector<uint64_t> last_given_;  // by seat
};

}  // namespace mosaic::sim
