#include "launch/leftovers.h"

#include <algorithm>
#include <string_view>

namespace mosaic::launch {
namespace {

std::string_view base_name(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}

// The run whose directory the argument is; empty for any other.
std::string run_in(const std::string& argument, const std::string& runs_path) {
    if (argument.size() <= runs_path.size() || !argument.starts_with(runs_path) ||
        argument[runs_path.size()] != '/') {
        return {};
    }
    std::string run = argument.substr(runs_path.size() + 1);
    return is_run_id(run) ? run : std::string();
}

bool is_warm(const Leftover& leftover) {
    return leftover.warm && !leftover.state.facts.in_broker;
}

}  // namespace

bool is_being_executed(const SeenProcess& process) {
    return !process.exe.empty() && process.argv.empty();
}

std::string run_of(const SeenProcess& process,
                   const std::string& bwrap,
                   const std::string& runs_path) {
    const std::vector<std::string>& argv = process.argv;
    const bool is_outer = process.numbers.size() == 1;
    const bool is_inner = process.numbers.size() == 2 && process.numbers.back() == 1;
    if (process.exe == bwrap && (is_outer || is_inner)) {
        // Only what it binds counts: an operator's bwrap may name a run directory in its command.
        for (size_t i = 1; i < argv.size() && argv[i] != "--"; ++i) {
            const bool bound = argv[i - 1] == "--ro-bind" || argv[i - 1] == "--bind";
            if (std::string run = run_in(argv[i], runs_path); bound && !run.empty()) {
                return run;
            }
        }
        return {};
    }
    const bool runner = argv.size() == 2 && base_name(argv[0]) == "mosaic-runner" && is_inner;
    return runner ? run_in(argv[1], runs_path) : std::string();
}

uint32_t Leftovers::of_run(const std::string& run) {
    const auto found = std::find_if(
        leftovers_.begin(), leftovers_.end(), [&](const Leftover& l) { return l.run == run; });
    if (found != leftovers_.end()) {
        return static_cast<uint32_t>(found - leftovers_.begin());
    }
    leftovers_.emplace_back();
    leftovers_.back().run = run;
    return size() - 1;
}

void Leftovers::add_entry(Leftover entry) {
    Leftover& leftover = leftovers_[of_run(entry.run)];
    entry.state = leftover.state;
    entry.state.facts.recorded = true;
    entry.state.facts.in_broker = entry.state.facts.in_broker || !entry.warm;
    leftover = std::move(entry);
}

void Leftovers::add_bound(const wire::BoundRun& bound) {
    Leftover& leftover = leftovers_[of_run(bound.run)];
    leftover.state.facts.in_broker = true;
    if (leftover.seat.instance.empty()) {
        leftover.seat = bound.seat;
        leftover.process = bound.process;
        leftover.harness = bound.harness;
    }
}

LeftoverStep Leftovers::begin(uint32_t index, bool alive) {
    Leftover& leftover = leftovers_[index];
    leftover.state.facts.alive = alive;
    LeftoverStep first = begin_leftover(leftover.state.facts);
    leftover.state = first.next;
    return first;
}

LeftoverStep Leftovers::step(uint32_t index, LeftoverEvent event) {
    LeftoverStep next = launch::step(leftovers_[index].state, event);
    leftovers_[index].state = next.next;
    return next;
}

bool Leftovers::may_launch() const {
    return std::all_of(leftovers_.begin(), leftovers_.end(), [](const Leftover& l) {
        return l.state.phase == LeftoverPhase::over || l.state.reported;
    });
}

bool Leftovers::over() const {
    return std::all_of(leftovers_.begin(), leftovers_.end(), [](const Leftover& l) {
        return l.state.phase == LeftoverPhase::over;
    });
}

bool Leftovers::is_taken(const Seat& seat) const {
    return std::any_of(leftovers_.begin(), leftovers_.end(), [&](const Leftover& l) {
        return l.state.phase != LeftoverPhase::over && !is_warm(l) && l.seat == seat;
    });
}

int64_t Leftovers::count(const std::string& provider, const std::string& model) const {
    return std::count_if(leftovers_.begin(), leftovers_.end(), [&](const Leftover& l) {
        const bool matches = l.model.empty() || (l.provider == provider && l.model == model);
        return l.state.phase != LeftoverPhase::over && !is_warm(l) && matches;
    });
}

int64_t Leftovers::count() const {
    return std::count_if(leftovers_.begin(), leftovers_.end(), [](const Leftover& l) {
        return l.state.phase != LeftoverPhase::over && !is_warm(l);
    });
}

bool Leftovers::knows(const std::string& run) const {
    return std::any_of(
        leftovers_.begin(), leftovers_.end(), [&](const Leftover& l) { return l.run == run; });
}

bool Leftovers::holds(const std::string& run) const {
    return std::any_of(leftovers_.begin(), leftovers_.end(), [&](const Leftover& l) {
        return l.run == run && l.state.phase != LeftoverPhase::over;
    });
}

bool Leftovers::was_run(uint32_t index) const {
    return leftovers_[index].state.facts.in_broker;
}

HeldRuns take_apart(const std::vector<wire::BoundRun>& held, const std::set<std::string>& ours) {
    HeldRuns out;
    for (const wire::BoundRun& run : held) {
        if (ours.count(run.run) == 0) {
            wire::EndLaunchArgs end;
            end.seat = run.seat;
            end.run = run.run;
            end.reason = EndReason::failed;
            end.detail = "binding: the broker answered that it couldn't record it";
            end.process = run.process;
            end.harness = run.harness;
            out.to_end.push_back(std::move(end));
        } else if (run.claimed) {
            out.claimed.push_back(run.run);
        }
    }
    return out;
}

LeftoverEvent end_event(bool first, bool logged) {
    return !first && logged ? LeftoverEvent::ended_before : LeftoverEvent::ended;
}

}  // namespace mosaic::launch
