#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/broker.h"
#include "sim/clients.h"
#include "sim/disk.h"
#include "sim/faults.h"
#include "sim/mutations.h"
#include "sim/prng.h"
#include "sim/sessions.h"
#include "sim/trace.h"
#include "sim/truth.h"

namespace mosaic::sim {

class Host;

// Whose turn it is when the clock reaches a wakeup.
enum class Wake : uint8_t {
    host_start,
    host_tick,
    host_op,    // an operation of the host's has completed
    to_host,    // the next frame on the control pair is there
    broker_up,  // the child has opened its store
    broker_turn,
    broker_commit,
    to_broker_host,  // the next frame of the host's is there
    session,
    death,  // of a process
    ask,    // the clients ask something
};

struct Wakeup {
    int64_t at = 0;
    uint64_t sequence = 0;
    Wake kind = Wake::host_tick;
    uint8_t sub = 0;     // of host_op, session
    uint32_t epoch = 0;  // of the host or the broker: a wakeup for a dead one is dropped
    uint32_t a = 0;
    uint32_t b = 0;
    int64_t x = 0;
};

struct Shape {
    uint32_t seats = 0;
    uint32_t models = 0;
    uint32_t model_max = 0;
    int64_t setup_in_flight = 0;
    uint32_t pids = 0;
    uint32_t runs_kept = 0;
    int64_t ask_every_us = 0;
    int64_t life_ms_max = 0;
    int64_t fsync_us_max = 0;
    uint32_t warm = 0;  // seats that each third instance keeps warm
};

struct Options {
    uint64_t seed = 1;
    uint64_t launches = 0;
    Mutation mutation = Mutation::none;
    bool canary = false;
    bool verbose = false;
};

// What a campaign adds up.
struct Counters {
    uint64_t launches = 0;  // runs whose checks passed
    uint64_t claimed = 0;
    uint64_t ended = 0;
    uint64_t refused = 0;
    uint64_t asks = 0;
    uint64_t messages = 0;
    uint64_t faults = 0;
    uint64_t host_deaths = 0;
    uint64_t broker_deaths = 0;
    uint64_t reboots = 0;
    uint64_t leftovers = 0;
    uint64_t warm_begun = 0;
    uint64_t warm_taken = 0;
    uint64_t wakeups = 0;
    uint64_t checks = 0;
};

// Everything: the clock, what waits for it, the machine, the host's and the broker's lives, the
// clients, and the ledger that the checkers keep. One seed, one history.
class World {
  public:
    explicit World(const Options& options);
    ~World();
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    // Storms of launches with faults, each followed by a calm in which all must come to rest.
    void run();

    void wake(int64_t after_ns, Wakeup what);
    // A draw that counts as an injected fault when it hits.
    [[nodiscard]] bool fault(uint32_t per_million);
    [[nodiscard]] int64_t us(int64_t low, int64_t high);
    void note(const Label& what, uint32_t run = 0, uint64_t a = 0, std::string_view detail = {});

    [[nodiscard]] bool mutated(Mutation m) const { return options.mutation == m; }

    // The host dies by kill, and the machine with it when chance says so.
    void host_died();
    void start_host_later(int64_t after_ns);

    [[nodiscard]] bool host_lives() const { return host != nullptr; }

    [[noreturn]] void fail(std::string_view checker, const std::string& what);

    Options options;
    Prng chance;
    Shape shape;
    Faults faults;
    Counters counters;
    int64_t now = 0;
    uint32_t boot = 1;
    int64_t booted_at = 0;
    uint32_t host_epoch = 0;
    bool calm = false;
    std::vector<uint32_t> kinds;  // by seat: what its sandboxes are made of, by number
    bool bwrap_moved = false;     // the configured bwrap is another since the last host
    Trace trace;
    Truth truth;
    Disk disk;
    Sessions sessions;
    Broker broker;
    Clients clients;
    std::unique_ptr<Host> host;

  private:
    void draw_shape();
    void dispatch(const Wakeup& wakeup);
    void storm(uint64_t launches);
    void rest();
    [[nodiscard]] std::string unrest();
    void check_quiet();
    void step_once();

    std::vector<Wakeup> queue_;
    uint64_t sequence_ = 0;
    Faults drawn_;
};

}  // namespace mosaic::sim
