#include "sim/truth.h"

#include <algorithm>

#include "sim/world.h"

namespace mosaic::sim {
namespace {

// Numbers are compared with files and processes that may be this much older.
constexpr uint32_t kRemembered = 64;

std::string name(uint32_t run) {
    return "run " + std::to_string(run);
}

}  // namespace

uint32_t Truth::begin_run() {
    forget_old();
    runs_.emplace_back();
    return next_++;
}

RunTruth& Truth::operator[](uint32_t run) {
    if (run < first_ || run >= next_) {
        world_.fail("the ledger knows every run", name(run) + " of " + std::to_string(next_));
    }
    return runs_[run - first_];
}

void Truth::forget_old() {
    while (runs_.size() > kRemembered && runs_.front().forgettable() &&
           world_.disk.surely_lacks(first_) && !world_.broker.may_find(first_)) {
        world_.broker.forget(first_);
        runs_.pop_front();
        ++first_;
    }
}

bool Truth::all_in_file() const {
    return std::all_of(runs_.begin(), runs_.end(), [](const RunTruth& run) {
        return run.in_file || run.processes == 0;
    });
}

void Truth::host_died() {
    for (RunTruth& run : runs_) {
        run.in_host = false;
    }
}

// A seat is taken again only when nothing is left of who had it.
void Truth::seat_starts(uint32_t run) {
    const uint32_t seat = (*this)[run].seat;
    for (uint32_t other = first_; other < next_; ++other) {
        RunTruth& before = (*this)[other];
        if (other == run || before.seat != seat || before.nobodys()) {
            continue;
        }
        ++world_.counters.checks;
        if (before.acting > 0) {
            world_.fail("one run a seat", name(run) + " begins while " + name(other) + " lives");
        }
        if (before.bound && !before.ended && !before.found) {
            world_.fail("one run a seat",
                        name(run) + " begins before the end of " + name(other) + " is recorded");
        }
        if (before.in_file) {
            world_.fail("one run a seat",
                        name(run) + " begins while sessions.json names " + name(other));
        }
    }
}

void Truth::process_made(uint32_t run) {
    RunTruth& truth = (*this)[run];
    ++truth.processes;
    ++truth.acting;
    if (!truth.warm) {
        check_capacity(truth.model, 0);
    }
}

// With so many `more` as don't count by themselves yet.
void Truth::check_capacity(uint32_t model, uint32_t more) {
    ++world_.counters.checks;
    const uint32_t alive = world_.sessions.alive_of_model(model) + more;
    if (alive > world_.shape.model_max) {
        world_.fail("capacity is kept",
                    std::to_string(alive) + " sessions of model " + std::to_string(model) +
                        ", at most " + std::to_string(world_.shape.model_max));
    }
}

void Truth::warm_taken(uint32_t run, bool fits) {
    RunTruth& truth = (*this)[run];
    ++world_.counters.checks;
    ++world_.counters.warm_taken;
    if (!truth.warm || !fits) {
        world_.fail("a launch gets what it would get today", name(run) + " is of another kind");
    }
    truth.warm = false;
    truth.was_warm = true;
    seat_starts(run);
    check_capacity(truth.model, 1);
}

void Truth::capability_leaves(uint32_t run) {
    RunTruth& truth = (*this)[run];
    world_.counters.checks += 2;
    if (!world_.disk.surely_has(run)) {
        world_.fail("a capability leaves only with a durable entry",
                    name(run) + " isn't surely in sessions.json");
    }
    if (truth.warm || !truth.bound || truth.ended) {
        world_.fail("a capability leaves only for a bound run", name(run));
    }
    truth.delivered = true;
}

void Truth::reply_launched(uint32_t run) {
    ++world_.counters.checks;
    if (!(*this)[run].claimed) {
        world_.fail("launched means claimed", name(run) + " hasn't claimed");
    }
}

void Truth::claim_committed(uint32_t run) {
    RunTruth& truth = (*this)[run];
    truth.claimed = true;
    truth.claimed_at = world_.now;
    ++world_.counters.claimed;
    world_.counters.checks += 2;
    if (!truth.delivered && !world_.options.canary) {
        world_.fail("who claims was given its capability", name(run));
    }
    if (truth.ended) {
        world_.fail("nobody claims after the end", name(run));
    }
}

void Truth::end_committed(uint32_t run, EndReason reason) {
    RunTruth& truth = (*this)[run];
    if (truth.ended && !world_.mutated(Mutation::broker_end_recorded_twice)) {
        return;  // another change of an ended run
    }
    if (truth.warm) {
        world_.fail("what nobody asked for has no end", name(run) + " was warm");
    }
    ++truth.ends;
    truth.ended = true;
    truth.reason = reason;
    world_.counters.checks += 2;
    ++world_.counters.ended;
    if (truth.ends > 1) {
        world_.fail("one end a run", name(run) + " has two");
    }
    if (truth.acting > 0) {
        world_.fail("ended means gone", name(run) + " has processes");
    }
}

// The file that the next host would read doesn't name it any more.
void Truth::entry_leaves(uint32_t run) {
    const RunTruth& truth = (*this)[run];
    world_.counters.checks += 2;
    if (truth.acting > 0) {
        world_.fail("a live process has an entry", name(run) + " lives and has none now");
    }
    if (truth.bound && !truth.ended && !truth.found) {
        world_.fail("the end comes before the removal", name(run));
    }
}

void Truth::leftover_ends(uint32_t run) {
    ++world_.counters.checks;
    if ((*this)[run].processes > 0) {
        world_.fail("ended means gone", name(run) + " of an earlier host has processes");
    }
}

void Truth::run_over(uint32_t run) {
    RunTruth& truth = (*this)[run];
    world_.counters.checks += 3;
    truth.in_host = false;
    if (truth.acting > 0) {
        world_.fail("a seat is free when nothing is left", name(run) + " has processes");
    }
    if (truth.bound && !truth.ended && !truth.found) {
        world_.fail("every bound run is ended", name(run) + " is over without an end");
    }
    if (!world_.disk.surely_lacks(run)) {
        world_.fail("a seat is free when nothing is left", name(run) + " may be in sessions.json");
    }
}

void Truth::directory_removed(uint32_t run) {
    RunTruth& truth = (*this)[run];
    ++world_.counters.checks;
    truth.directory = false;
    if (truth.acting > 0 || truth.in_file || (truth.bound && !truth.ended && !truth.found)) {
        world_.fail("no directory goes that is needed", name(run));
    }
}

}  // namespace mosaic::sim
