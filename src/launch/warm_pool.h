#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/instant.h"

namespace mosaic::launch {

// After a seat that failed: the first time, and doubled with each further one, up to the longest.
constexpr Duration kWarmRetryMin = seconds(1);
constexpr Duration kWarmRetryMax = seconds(300);
// A seat that has waited for so long before it ended didn't fail for what it is made of.
constexpr Duration kWarmSteady = seconds(60);

// When in the loop's turns the next seat is planned. Answers go out between two turns, so a turn
// that may have given some leaves it to the next one; but a loop that is never idle must make
// seats, too.
class WarmTurn {
  public:
    // Of turns in a row.
    static constexpr uint32_t kPutOffMax = 64;

    // When a turn has no more events and a seat is lacking. True: not in this turn.
    [[nodiscard]] bool put_off(bool answered) {
        const bool wait = answered && turns_ < kPutOffMax;
        turns_ = wait ? turns_ + 1 : 0;
        return wait;
    }

  private:
    uint32_t turns_ = 0;
};

// How many warm seats each instance lacks, and when the next of them may be made. Pure: the shell
// makes them, one after the other, and says what became of each exactly once.
class WarmPool {
  public:
    // How many each instance shall have; one that isn't named shall have none. Whatever failed
    // before may be tried again at once.
    void want(const std::map<std::string, int64_t>& wanted);

    [[nodiscard]] int64_t wanted(const std::string& instance) const;

    // The instance whose next seat is to be made now: of those that may, the one that has fewest.
    [[nodiscard]] std::optional<std::string> next(Instant now) const;
    // When there will be one, if only time is missing for it.
    [[nodiscard]] std::optional<Instant> next_at() const;

    // One is being made.
    void begun(const std::string& instance);
    // A launch has taken one: what it is made of works.
    void taken(const std::string& instance);
    // One was thrown away.
    void discarded(const std::string& instance);
    // One couldn't be made, or ended by itself after it had waited for `waited`. True when it is
    // the first of its row: a person should know.
    [[nodiscard]] bool failed(const std::string& instance, Instant now, Duration waited);
    // The next one can't even be begun.
    [[nodiscard]] bool not_begun(const std::string& instance, Instant now);

  private:
    struct Seats {
        int64_t wanted = 0;
        int64_t have = 0;       // being made, waiting or being thrown away
        uint32_t failures = 0;  // in a row
        Instant not_before;
    };

    [[nodiscard]] static bool put_off(Seats& seats, Instant now);

    std::map<std::string, Seats> instances_;
    int64_t lacking_ = 0;

    void count();
};

}  // namespace mosaic::launch
