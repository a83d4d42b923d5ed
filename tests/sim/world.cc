#include "sim/world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "sim/host.h"

namespace mosaic::sim {
namespace {

constexpr uint64_t kLaunchesPerStorm = 1'500;
constexpr int64_t kSecond = 1'000'000'000;
// Within this all must come to rest once nothing fails any more: the longest time-outs, one after
// the other, and a process that takes half a minute to die.
constexpr int64_t kRestTakes = 400 * kSecond;
// A storm in which nothing is launched for so long has come to a standstill.
constexpr int64_t kStandstill = 600 * kSecond;

bool later(const Wakeup& a, const Wakeup& b) {
    return a.at != b.at ? a.at > b.at : a.sequence > b.sequence;
}

}  // namespace

World::World(const Options& chosen)
    : options(chosen),
      chance(chosen.seed),
      truth(*this),
      disk(*this),
      sessions(*this),
      broker(*this),
      clients(*this) {
    draw_shape();
    drawn_ = draw_faults(chance);
}

World::~World() = default;

void World::draw_shape() {
    shape.seats = 3 + chance.below(22);
    shape.models = 1 + chance.below(3);
    shape.model_max = 1 + chance.below(shape.seats);
    shape.setup_in_flight = 1 + chance.below(6);
    shape.pids = static_cast<uint32_t>(chance.magnitude(512, 4'096));
    shape.runs_kept = 3 + chance.below(40);
    shape.life_ms_max = chance.magnitude(10, 1'000);
    // Seats that are mostly busy, or mostly free.
    const int64_t busy_us = 20'000 + shape.life_ms_max * 1000 / 5;
    shape.ask_every_us = busy_us * chance.between(1, 6) / shape.seats;
    shape.fsync_us_max = chance.magnitude(60, 8'000);
    shape.warm = chance.below(4);
    kinds.resize(shape.seats);
}

void World::wake(int64_t after_ns, Wakeup what) {
    what.at = now + std::max<int64_t>(after_ns, 0);
    what.sequence = ++sequence_;
    queue_.push_back(what);
    std::push_heap(queue_.begin(), queue_.end(), later);
}

bool World::fault(uint32_t per_million) {
    const bool hit = chance.chance(per_million);
    counters.faults += hit ? 1 : 0;
    return hit;
}

int64_t World::us(int64_t low, int64_t high) {
    return chance.between(low, std::max(low, high));
}

void World::note(const Label& what, uint32_t run, uint64_t a, std::string_view detail) {
    trace.note(now, what, run, a, detail);
    if (options.verbose) {
        std::printf("%12.6f s  %-20s run %u  %llu  %.*s\n",
                    static_cast<double>(now) / 1e9,
                    what.text,
                    run,
                    static_cast<unsigned long long>(a),
                    static_cast<int>(detail.size()),
                    detail.data());
    }
}

void World::fail(std::string_view checker, const std::string& what) {
    const bool wanted = options.mutation != Mutation::none || options.canary;
    if (wanted) {
        std::printf("caught by \"%.*s\": %s (seed %llu, %llu launches)\n",
                    static_cast<int>(checker.size()),
                    checker.data(),
                    what.c_str(),
                    static_cast<unsigned long long>(options.seed),
                    static_cast<unsigned long long>(counters.launches));
        std::fflush(stdout);
        // The canary must be seen for what it is.
        std::_Exit(options.canary && checker != "one holder a role" ? 1 : 0);
    }
    std::fflush(stdout);
    std::fprintf(stderr,
                 "\nVIOLATION: %.*s\n  %s\nseed %llu, after %llu launches, %llu wakeups\n",
                 static_cast<int>(checker.size()),
                 checker.data(),
                 what.c_str(),
                 static_cast<unsigned long long>(options.seed),
                 static_cast<unsigned long long>(counters.launches),
                 static_cast<unsigned long long>(counters.wakeups));
    std::fprintf(stderr, "the last transitions:\n");
    trace.print(stderr);
    std::fprintf(stderr, "the state:\n");
    if (host != nullptr) {
        std::fprintf(stderr, "%s", host->describe().c_str());
    } else {
        std::fprintf(stderr, "no host\n");
    }
    std::fprintf(stderr,
                 "  broker %s, holds:%s\n",
                 broker.alive() ? "alive" : "dead",
                 broker.describe_live().c_str());
    std::_Exit(1);
}

void World::start_host_later(int64_t after_ns) {
    wake(after_ns, {.kind = Wake::host_start});
}

// Nothing of the host's memory survives; what it had submitted may have happened.
void World::host_died() {
    ++counters.host_deaths;
    host->settle_operations();
    host.reset();
    const bool machine = fault(faults.machine_dies);
    note("host dies", 0, machine ? 1 : 0);
    broker.die();
    broker.to_host.clear();
    broker.last_to_host_at = 0;
    sessions.host_died();
    clients.host_died();
    truth.host_died();
    const bool drops = machine || fault(faults.drops_unsynced);
    if (drops) {
        disk.power_loss();
        broker.machine_died();
    }
    if (machine) {
        ++counters.reboots;
        sessions.reboot();
        ++boot;
        booted_at = now;
    }
    sessions.plant_strangers(machine);
    // Only entries tell of an outer whose program isn't the configured bwrap any more.
    bwrap_moved = chance.below(16) == 0 && truth.all_in_file();
    start_host_later(us(500, 300'000) * 1000);
}

void World::step_once() {
    std::pop_heap(queue_.begin(), queue_.end(), later);
    const Wakeup wakeup = queue_.back();
    queue_.pop_back();
    now = wakeup.at;
    ++counters.wakeups;
    trace.mix(static_cast<uint64_t>(wakeup.at) ^ (static_cast<uint64_t>(wakeup.kind) << 56U));
    dispatch(wakeup);
    if (host == nullptr) {
        return;
    }
    if (host->dead()) {
        host_died();
    } else if (host->over()) {
        note("host ends");
        host.reset();
        broker.die();
        broker.to_host.clear();
        broker.last_to_host_at = 0;
        sessions.host_died();
        clients.host_died();
        truth.host_died();
        start_host_later(us(500, 300'000) * 1000);
    }
}

void World::dispatch(const Wakeup& wakeup) {
    const bool of_host = host != nullptr && wakeup.epoch == host_epoch;
    const bool of_broker = broker.alive() && wakeup.epoch == broker.epoch();
    switch (wakeup.kind) {
        case Wake::host_start:
            ++host_epoch;
            host = std::make_unique<Host>(*this);
            note("host starts", 0, host_epoch);
            host->begin();
            return;
        case Wake::host_tick:
            if (of_host) {
                host->on_tick(wakeup);
            }
            return;
        case Wake::host_op:
            if (of_host) {
                host->complete(wakeup);
            }
            return;
        case Wake::to_host:
            if (of_host) {
                host->frame_is_there();
            }
            return;
        case Wake::broker_up:
            if (of_broker) {
                broker.on_up();
            }
            return;
        case Wake::broker_turn:
            if (of_broker) {
                broker.on_turn();
            }
            return;
        case Wake::broker_commit:
            if (of_broker) {
                broker.on_commit();
            }
            return;
        case Wake::to_broker_host:
            if (of_broker) {
                broker.on_host_frame();
            }
            return;
        case Wake::session:
            sessions.on_step(wakeup);
            return;
        case Wake::death:
            sessions.on_death(wakeup);
            return;
        case Wake::ask:
            clients.on_ask();
            return;
    }
}

void World::run() {
    start_host_later(0);
    while (counters.launches < options.launches) {
        storm(std::min(options.launches, counters.launches + kLaunchesPerStorm));
        rest();
    }
}

void World::storm(uint64_t launches) {
    calm = false;
    faults = drawn_;
    if (host != nullptr) {
        host->want_warm();
    }
    clients.begin();
    uint64_t last = counters.launches;
    int64_t last_at = now;
    bool planted = !options.canary;
    while (counters.launches < launches) {
        step_once();
        if (!planted && counters.launches > 100) {
            planted = broker.plant_second_holder();
        }
        if (counters.launches != last) {
            last = counters.launches;
            last_at = now;
        } else if (now - last_at > kStandstill) {
            fail("launches go on", "none has begun for 600 s");
        }
    }
}

// No more faults, no more requests: everything that was begun comes to its end.
void World::rest() {
    calm = true;
    faults = Faults{};
    disk.full_until = 0;
    sessions.end_strangers();
    if (host != nullptr) {
        host->want_warm();
    }
    const int64_t until = now + kRestTakes;
    std::string reason = "begun";
    while (!reason.empty()) {
        const int64_t pause = now + kSecond;
        while (!queue_.empty() && queue_.front().at <= pause) {
            step_once();
        }
        now = std::max(now, pause);
        reason = unrest();
        if (!reason.empty() && now > until) {
            fail("everything comes to rest", reason);
        }
        if (!reason.empty()) {
            clients.stop_everything();
        }
    }
    check_quiet();
}

std::string World::unrest() {
    if (host == nullptr) {
        return "there is no host";
    }
    if (std::string reason = host->unrest(); !reason.empty()) {
        return reason;
    }
    for (uint32_t run = truth.first(); run < truth.next(); ++run) {
        if (truth[run].processes != 0) {
            return "run " + std::to_string(run) + " has processes";
        }
    }
    if (broker.live_runs() != 0) {
        return "the broker holds" + broker.describe_live();
    }
    if (clients.open_asks() != 0) {
        return std::to_string(clients.open_asks()) + " requests have no answer";
    }
    return "";
}

void World::check_quiet() {
    clients.check_messages();
    for (uint32_t run = truth.first(); run < truth.next(); ++run) {
        const RunTruth& one = truth[run];
        ++counters.checks;
        if (one.bound && one.ends != 1) {
            fail("one end a run",
                 "run " + std::to_string(run) + " has " + std::to_string(one.ends));
        }
        if (one.claimed && !one.released) {
            fail("every role is free at last", "run " + std::to_string(run) + " holds its role");
        }
        if (one.warm && one.directory) {
            fail("nothing is left of what nobody took",
                 "run " + std::to_string(run) + " has a directory");
        }
        if (one.in_file || one.processes != 0) {
            fail("everything comes to rest",
                 "run " + std::to_string(run) +
                     (one.in_file ? " is in sessions.json" : " has processes"));
        }
    }
    if (disk.directories.size() > shape.runs_kept) {
        fail("no more directories than are kept",
             std::to_string(disk.directories.size()) + " of " + std::to_string(shape.runs_kept));
    }
    note("at rest");
}

}  // namespace mosaic::sim
