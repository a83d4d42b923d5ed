// What a dead host left behind, as src/host/recovery.cc deals with it.

#include <algorithm>

#include "sim/host.h"
#include "sim/world.h"

namespace mosaic::sim {

using launch::LeftoverEffect;
using launch::LeftoverPhase;

namespace {

constexpr int64_t kKillTakesNs = 10'000'000'000;

}  // namespace

void Host::begin_recovery(const ToHost& bound) {
    if (state_ == State::starting) {
        state_ = State::recovering;
    }
    const std::set<uint32_t> known(bound.known.begin(), bound.known.end());
    for (const registry::SessionEntry& entry : left_.entries) {
        launch::Leftover leftover;
        leftover.run = entry.run;
        leftover.seat = entry.seat;
        leftover.process = entry.process;
        leftover.provider = entry.provider;
        leftover.model = entry.model;
        // One that the broker knows was taken: its entry hadn't been changed yet.
        const bool taken = known.count(run_number(entry.run)) > 0 &&
                           !world_.mutated(Mutation::warm_taken_not_ended);
        leftover.warm = entry.warm && !taken && !world_.mutated(Mutation::warm_leftover_ended);
        leftovers_.add_entry(std::move(leftover));
    }
    if (!world_.mutated(Mutation::bound_runs_not_asked)) {
        for (const BoundItem& item : bound.bound) {
            if (world_.mutated(Mutation::warm_taken_not_ended) && is_warm_entry(item.run)) {
                continue;
            }
            wire::BoundRun run;
            run.run = run_name(item.run);
            run.seat.instance = "s" + std::to_string(item.seat);
            leftovers_.add_bound(run);
        }
    }
    if (!world_.mutated(Mutation::proc_not_scanned)) {
        scan();
    }
    for (uint32_t i = 0; i < leftovers_.size(); ++i) {
        if (leftovers_[i].state.facts.recorded) {
            note_entry_processes(i);
        }
    }
    processes_of_.resize(leftovers_.size());
    for (uint32_t i = 0; i < leftovers_.size() && !dead_; ++i) {
        ++world_.counters.leftovers;
        world_.truth[run_number(leftovers_[i].run)].in_host = true;
        const launch::LeftoverStep first = leftovers_.begin(i, !processes_of_[i].empty());
        for (const LeftoverEffect effect : first.effects) {
            if (dies_here()) {
                return;
            }
            carry_out(i, effect);
        }
    }
    if (!dead_) {
        forget_orphans(bound);
        candidates_.clear();
    }
}

// By what the dead host wrote.
bool Host::is_warm_entry(uint32_t run) const {
    return std::any_of(left_.entries.begin(), left_.entries.end(), [&](const auto& entry) {
        return entry.warm && run_number(entry.run) == run;
    });
}

void Host::scan() {
    const std::string bwrap = world_.bwrap_moved ? "/opt/bwrap" : "/usr/bin/bwrap";
    for (const uint32_t pid : world_.sessions.pids()) {
        const launch::SeenProcess seen = world_.sessions.look(pid);
        const std::string run = launch::run_of(seen, bwrap, kRunsPath);
        if (!run.empty()) {
            add_process(
                leftovers_.of_run(run), world_.sessions.open_pidfd(pid), seen.numbers.back() == 1);
        }
    }
}

// An entry's own pids, for a bwrap that is configured elsewhere by now.
void Host::note_entry_processes(uint32_t index) {
    const bool same_boot = left_.boot_id == "boot-" + std::to_string(world_.boot);
    if (!same_boot && !world_.mutated(Mutation::boot_not_compared)) {
        return;
    }
    const wire::ProcessIdentity who = leftovers_[index].process;
    const std::string directory = run_path(run_number(leftovers_[index].run));
    const auto consider = [&](int64_t pid, const std::string& start) {
        const Handle process = world_.sessions.open_pidfd(static_cast<uint32_t>(pid));
        if (!process.valid() || world_.sessions.exited(process)) {
            return;
        }
        const bool known =
            std::any_of(processes_.begin(), processes_.end(), [&](const LeftoverProcess& p) {
                return p.process == process;
            });
        const launch::SeenProcess seen = world_.sessions.look(static_cast<uint32_t>(pid));
        const bool names_run =
            std::find(seen.argv.begin(), seen.argv.end(), directory) != seen.argv.end();
        const bool same_start = std::to_string(world_.sessions.at(process).start) == start ||
                                world_.mutated(Mutation::start_time_not_compared);
        if (!known && names_run && same_start) {
            add_process(index, process, seen.numbers.back() == 1);
        }
    };
    consider(who.runner_pid, who.runner_start_time);
    consider(who.pid, who.start_time);
}

void Host::add_process(uint32_t leftover, Handle process, bool inner) {
    processes_of_.resize(std::max<size_t>(processes_of_.size(), leftover + 1));
    const auto index = static_cast<uint32_t>(processes_.size());
    processes_.push_back({process, inner, false, leftover});
    processes_of_[leftover].push_back(index);
    world_.sessions.watch(process, index);
}

void Host::on_process_gone(uint32_t index) {
    processes_[index].gone = true;
    const uint32_t leftover = processes_[index].leftover;
    const std::vector<uint32_t>& all = processes_of_[leftover];
    if (std::all_of(all.begin(), all.end(), [&](uint32_t p) { return processes_[p].gone; })) {
        leftover_events_.push_back({leftover, launch::LeftoverEvent::gone});
    }
}

void Host::step_leftover(const LeftoverEvent& event) {
    world_.note("leftover event",
                run_number(leftovers_[event.leftover].run),
                static_cast<uint64_t>(leftovers_[event.leftover].state.phase),
                launch::to_string(event.event));
    const launch::LeftoverStep next = leftovers_.step(event.leftover, event.event);
    for (const LeftoverEffect effect : next.effects) {
        if (dies_here()) {
            return;
        }
        carry_out(event.leftover, effect);
    }
}

void Host::kill_leftover(uint32_t index) {
    for (const bool inner : {true, false}) {
        for (const uint32_t p : processes_of_[index]) {
            if (processes_[p].inner == inner && !processes_[p].gone) {
                world_.sessions.kill(processes_[p].process);
            }
        }
    }
}

void Host::carry_out(uint32_t index, LeftoverEffect effect) {
    const launch::Leftover& leftover = leftovers_[index];
    const uint32_t run = run_number(leftover.run);
    world_.note("leftover effect", run, static_cast<uint64_t>(effect));
    switch (effect) {
        case LeftoverEffect::kill:
            kill_leftover(index);
            if (world_.mutated(Mutation::ended_before_gone)) {
                leftover_events_.push_back({index, launch::LeftoverEvent::gone});
            }
            break;
        case LeftoverEffect::arm_deadline:
            set_timer(TimerKind::leftover_deadline, index, 0, kKillTakesNs);
            break;
        case LeftoverEffect::report_stuck:
            break;
        case LeftoverEffect::end_at_broker: {
            world_.truth.leftover_ends(run);
            Pending pending;
            pending.kind = launch::RequestKind::end_leftover;
            pending.leftover = index;
            pending.request.verb = Verb::end;
            pending.request.run = run;
            pending.request.seat = seat_number(leftover.seat);
            pending.request.reason = EndReason::host_lost;
            send_end(std::move(pending));
            break;
        }
        case LeftoverEffect::log_end:
            log_end(run);
            break;
        case LeftoverEffect::unrecord:
            if (!world_.mutated(Mutation::leftover_kept_in_file)) {
                changed(entries_.remove(leftover.run, Waiter{{}, index}));
            } else {
                leftover_events_.push_back({index, launch::LeftoverEvent::removed});
            }
            break;
        case LeftoverEffect::settle:
            world_.truth.run_over(run);
            if (leftover.state.facts.in_broker) {
                check_has_line(run);
            }
            if (world_.disk.directories.count(run) != 0 &&
                std::find(to_remove_.begin(), to_remove_.end(), run) == to_remove_.end() &&
                std::find(removing_.begin(), removing_.end(), run) == removing_.end()) {
                if (!leftovers_.was_run(index) && world_.truth[run].end_lines == 0) {
                    remove_directory(run);
                } else {
                    keep_directory(run);
                }
            }
            break;
    }
}

// Directories of runs that neither the broker nor sessions.json ever knew go.
void Host::forget_orphans(const ToHost& bound) {
    std::set<uint32_t> known(bound.known.begin(), bound.known.end());
    for (const registry::SessionEntry& entry : left_.entries) {
        known.insert(run_number(entry.run));
    }
    if (world_.mutated(Mutation::known_directory_removed)) {
        known.clear();
    }
    for (const uint32_t run : world_.disk.directories) {
        if (known.count(run) == 0) {
            if (!world_.mutated(Mutation::unknown_directory_kept)) {
                remove_directory(run);
            }
        } else if (!leftovers_.knows(run_name(run))) {
            keep_directory(run);
        }
    }
}

void Host::serve_when_recovered() {
    if (state_ != State::recovering || !leftovers_.may_launch()) {
        return;
    }
    state_ = State::serving;
    world_.note("host serves");
    check_processes_known();
    want_warm();
    for (uint32_t i = 0; i < leftovers_.size(); ++i) {
        const launch::LeftoverState& state = leftovers_[i].state;
        ++world_.counters.checks;
        if (state.phase != LeftoverPhase::over && !state.reported) {
            world_.fail("launches wait for what is left", leftovers_[i].run + " isn't over");
        }
    }
    const std::deque<Ask> waiting = std::exchange(waiting_, {});
    for (const Ask& ask : waiting) {
        if (dead_) {
            return;
        }
        consider(ask);
    }
}

// Whatever of a session is alive when launches begin is one that a leftover waits for.
void Host::check_processes_known() const {
    ++world_.counters.checks;
    for (uint32_t run = world_.truth.first(); run < world_.truth.next(); ++run) {
        const RunTruth& truth = world_.truth[run];
        const bool mine = std::any_of(
            slots_.begin(), slots_.end(), [&](const Slot& s) { return s.in_use && s.run == run; });
        if (mine) {
            continue;
        }
        const bool waited_for = leftovers_.holds(run_name(run));
        if (truth.processes > 0 && !waited_for) {
            world_.fail("nothing of an old session lives unknown",
                        "run " + std::to_string(run) + " has processes");
        }
        if (truth.bound && !truth.ended && !waited_for) {
            world_.fail("every bound run is ended",
                        "run " + std::to_string(run) + " of an earlier host isn't");
        }
    }
}

}  // namespace mosaic::sim
