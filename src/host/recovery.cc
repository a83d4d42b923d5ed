#include "host/recovery.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/crash_point.h"
#include "host/log.h"
#include "process/files.h"
#include "process/pidfd.h"
#include "process/proc.h"
#include "registry/launch_log.h"

namespace mosaic::host {

using launch::LeftoverEffect;
using launch::LeftoverEvent;
using launch::LeftoverPhase;

namespace {

constexpr Duration kKillTakes = seconds(10);

// /proc/PID/exe of a program that was replaced since reads "<path> (deleted)".
std::string without_deleted(std::string path) {
    constexpr std::string_view kSuffix = " (deleted)";
    if (path.ends_with(kSuffix)) {
        path.resize(path.size() - kSuffix.size());
    }
    return path;
}

std::string_view base_name(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}

bool is_pid_one_inside(pid_t pid) {
    const std::vector<pid_t> numbers = process::read_ns_pids(pid);
    return numbers.size() > 1 && numbers.back() == 1;
}

}  // namespace

Recovery::Recovery(RecoveryParts parts) : parts_(std::move(parts)) {
    bwrap_real_ = process::real_path(parts_.bwrap).value_or(parts_.bwrap);
}

void Recovery::begin(const registry::SessionsFile& left, const std::vector<wire::BoundRun>& bound) {
    for (const registry::SessionEntry& entry : left.entries) {
        Leftover& leftover = leftover_of(entry.run);
        leftover.entry = entry;
        leftover.state.facts.recorded = true;
        leftover.state.facts.in_broker = !entry.warm;
    }
    for (const wire::BoundRun& run : bound) {
        Leftover& leftover = leftover_of(run.run);
        leftover.state.facts.in_broker = true;
        if (leftover.entry.seat.instance.empty()) {
            leftover.entry.seat = run.seat;
            leftover.entry.process = run.process;
            leftover.entry.harness = run.harness;
        }
    }
    scan();
    for (uint32_t i = 0; i < leftovers_.size(); ++i) {
        if (leftovers_[i].state.facts.recorded) {
            note_entry_processes(i, left.boot_id);
        }
    }
    for (uint32_t i = 0; i < leftovers_.size(); ++i) {
        Leftover& leftover = leftovers_[i];
        leftover.state.facts.alive = !leftover.processes.empty();
        const launch::LeftoverStep first = launch::begin_leftover(leftover.state.facts);
        leftover.state = first.next;
        carry_out(i, first);
    }
    if (!leftovers_.empty()) {
        log_line("an earlier host left " + std::to_string(leftovers_.size()) +
                 " runs behind; ending them");
    }
}

Recovery::Leftover& Recovery::leftover_of(const std::string& run) {
    const auto found = std::find_if(leftovers_.begin(), leftovers_.end(), [&](const Leftover& l) {
        return l.entry.run == run;
    });
    if (found != leftovers_.end()) {
        return *found;
    }
    leftovers_.emplace_back();
    leftovers_.back().entry.run = run;
    return leftovers_.back();
}

// The run whose process this is by the look of it; empty when it is none of a session's.
std::string Recovery::run_of(pid_t pid) const {
    const std::string exe = without_deleted(process::read_exe(pid));
    const std::vector<std::string> argv = process::read_cmdline(pid);
    const std::string prefix = parts_.runs_path + "/";
    const auto run_in = [&](const std::string& argument) -> std::string {
        if (!argument.starts_with(prefix)) {
            return {};
        }
        std::string run = argument.substr(prefix.size());
        return is_run_id(run) ? run : std::string();
    };
    if (exe == bwrap_real_) {
        // Only what it binds counts: an operator's bwrap may name a run directory in its command.
        for (size_t i = 1; i < argv.size() && argv[i] != "--"; ++i) {
            const bool bound = argv[i - 1] == "--ro-bind" || argv[i - 1] == "--bind";
            if (std::string run = run_in(argv[i]); bound && !run.empty()) {
                return run;
            }
        }
        return {};
    }
    const bool runner =
        argv.size() == 2 && base_name(argv[0]) == "mosaic-runner" && is_pid_one_inside(pid);
    return runner ? run_in(argv[1]) : std::string();
}

// One pass over /proc. The pidfd comes before the look: what was looked at is what it names.
void Recovery::scan() {
    const uid_t us = ::geteuid();
    for (const pid_t pid : process::list_pids()) {
        if (process::read_owner(pid) != us) {
            continue;
        }
        if (run_of(pid).empty()) {
            continue;
        }
        auto pidfd = process::open_pidfd(pid);
        const std::string run = run_of(pid);
        if (!pidfd || run.empty() || process::has_exited(pidfd->get())) {
            continue;
        }
        Leftover& leftover = leftover_of(run);
        add_process(static_cast<uint32_t>(&leftover - leftovers_.data()), pid, std::move(*pidfd));
    }
}

// An entry's own pids, for a bwrap that is configured elsewhere by now.
void Recovery::note_entry_processes(uint32_t index, const std::string& left_boot) {
    if (left_boot != parts_.boot_id) {
        return;
    }
    const wire::ProcessIdentity& who = leftovers_[index].entry.process;
    const std::string run_dir = leftovers_[index].entry.run_dir;
    const auto consider = [&](int64_t number, const std::string& start) {
        const auto pid = static_cast<pid_t>(number);
        const bool known = std::any_of(
            processes_.begin(), processes_.end(), [&](const auto& p) { return p->pid == pid; });
        if (known || pid <= 0) {
            return;
        }
        auto pidfd = process::open_pidfd(pid);
        const auto argv = process::read_cmdline(pid);
        const bool names_run = std::find(argv.begin(), argv.end(), run_dir) != argv.end();
        if (pidfd && names_run && process::is_alive(pid, start)) {
            add_process(index, pid, std::move(*pidfd));
        }
    };
    consider(who.runner_pid, who.runner_start_time);
    consider(who.pid, who.start_time);
}

void Recovery::add_process(uint32_t leftover, pid_t pid, UniqueFd pidfd) {
    auto process = std::make_unique<Process>();
    process->pid = pid;
    process->inner = is_pid_one_inside(pid);
    process->leftover = leftover;
    process->pidfd = std::move(pidfd);
    const auto index = static_cast<uint32_t>(processes_.size());
    own(process->op, Owner::leftover_process, index);
    parts_.loop.ring->poll(process->op, process->pidfd.get(), POLLIN);
    processes_.push_back(std::move(process));
    leftovers_[leftover].processes.push_back(index);
}

bool Recovery::all_gone(const Leftover& leftover) const {
    return std::all_of(leftover.processes.begin(), leftover.processes.end(), [&](uint32_t p) {
        return processes_[p]->gone;
    });
}

void Recovery::on_process_gone(uint32_t index) {
    Process& process = *processes_[index];
    process.gone = true;
    if (all_gone(leftovers_[process.leftover])) {
        parts_.loop.post(process.leftover, LeftoverEvent::gone);
    }
}

void Recovery::on_deadline(uint32_t leftover, uint32_t /*generation*/) {
    if (leftovers_[leftover].state.phase == LeftoverPhase::waiting) {
        parts_.loop.post(leftover, LeftoverEvent::deadline);
    }
}

void Recovery::on_ended(uint32_t leftover, const wire::EndLaunchResult& end) {
    leftovers_[leftover].end = end;
    // An end that was recorded before has its line already, unless the host died between the two.
    const bool logged = !end.first && parts_.logged_ends.count(leftovers_[leftover].entry.run) > 0;
    parts_.loop.post(leftover, logged ? LeftoverEvent::ended_before : LeftoverEvent::ended);
}

void Recovery::step(const LeftoverNews& news) {
    MOSAIC_CRASH_POINT("leftover", "on", launch::to_string(news.event));
    const launch::LeftoverStep next = launch::step(leftovers_[news.leftover].state, news.event);
    leftovers_[news.leftover].state = next.next;
    carry_out(news.leftover, next);
}

void Recovery::carry_out(uint32_t index, const launch::LeftoverStep& step) {
    for (const LeftoverEffect effect : step.effects) {
        carry_out(index, effect);
        MOSAIC_CRASH_POINT("leftover", "after", launch::to_string(effect));
    }
}

void Recovery::kill(const Leftover& leftover) {
    for (const bool inner : {true, false}) {
        for (const uint32_t p : leftover.processes) {
            const Process& process = *processes_[p];
            if (process.inner == inner && !process.gone) {
                ignore(process::signal_pidfd(process.pidfd.get(), SIGKILL), "gone is wanted");
            }
        }
    }
}

void Recovery::carry_out(uint32_t index, LeftoverEffect effect) {
    Leftover& leftover = leftovers_[index];
    const registry::SessionEntry& entry = leftover.entry;
    switch (effect) {
        case LeftoverEffect::kill:
            kill(leftover);
            break;
        case LeftoverEffect::arm_deadline:
            parts_.loop.set_timer(TimerKind::leftover_deadline, index, 0, kKillTakes);
            break;
        case LeftoverEffect::report_stuck:
            log_line("run " + entry.run + " (" + describe(entry.seat) +
                     ") of an earlier host doesn't die; its seat stays taken until it does");
            break;
        case LeftoverEffect::end_at_broker: {
            wire::EndLaunchArgs args;
            args.seat = entry.seat;
            args.run = entry.run;
            args.reason = EndReason::host_lost;
            args.process = entry.process;
            args.harness = entry.harness;
            parts_.broker.end_leftover(index, args);
            break;
        }
        case LeftoverEffect::log_end: {
            parts_.loop.counts.end(leftover.end.reason);
            registry::EndLine line;
            line.at = iso8601(wall_clock_ms());
            line.seat = entry.seat;
            line.run = entry.run;
            line.reason = leftover.end.reason;
            line.exit_code = leftover.end.exit_code;
            line.signal = leftover.end.signal;
            line.detail = leftover.end.detail;
            parts_.log.append(registry::encode(line));
            break;
        }
        case LeftoverEffect::unrecord:
            parts_.store.remove_leftover(entry.run, index);
            break;
        case LeftoverEffect::settle:
            log_line("run " + entry.run + " of an earlier host is ended");
            settled_.push_back({entry.run, !entry.warm || leftover.state.facts.in_broker});
            break;
    }
}

bool Recovery::may_launch() const {
    return std::all_of(leftovers_.begin(), leftovers_.end(), [](const Leftover& l) {
        return l.state.phase == LeftoverPhase::over || l.state.reported;
    });
}

bool Recovery::over() const {
    return std::all_of(leftovers_.begin(), leftovers_.end(), [](const Leftover& l) {
        return l.state.phase == LeftoverPhase::over;
    });
}

bool Recovery::is_taken(const Seat& seat) const {
    return std::any_of(leftovers_.begin(), leftovers_.end(), [&](const Leftover& l) {
        const bool held = !l.entry.warm || l.state.facts.in_broker;
        return l.state.phase != LeftoverPhase::over && held && l.entry.seat == seat;
    });
}

bool Recovery::holds(const std::string& run) const {
    return std::any_of(leftovers_.begin(), leftovers_.end(), [&](const Leftover& l) {
        return l.state.phase != LeftoverPhase::over && l.entry.run == run;
    });
}

std::optional<Recovery::Settled> Recovery::take_settled() {
    if (settled_.empty()) {
        return std::nullopt;
    }
    Settled settled = std::move(settled_.front());
    settled_.pop_front();
    return settled;
}

}  // namespace mosaic::host
