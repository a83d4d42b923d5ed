#include "host/recovery.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/crash_point.h"
#include "host/log.h"
#include "process/descriptors.h"
#include "process/files.h"
#include "process/pidfd.h"
#include "process/proc.h"
#include "registry/launch_log.h"
#include "wire/limits.h"

namespace mosaic::host {

using launch::LeftoverEffect;
using launch::LeftoverEvent;
using launch::LeftoverPhase;

namespace {

constexpr Duration kKillTakes = seconds(10);
constexpr Duration kExecTakes = seconds(1);

// /proc/PID/exe of a program that was replaced since reads "<path> (deleted)".
std::string without_deleted(std::string path) {
    constexpr std::string_view kSuffix = " (deleted)";
    if (path.ends_with(kSuffix)) {
        path.resize(path.size() - kSuffix.size());
    }
    return path;
}

bool is_pid_one_inside(pid_t pid) {
    const std::vector<pid_t> numbers = process::read_ns_pids(pid);
    return numbers.size() > 1 && numbers.back() == 1;
}

launch::SeenProcess see(pid_t pid, const std::string& bwrap) {
    launch::SeenProcess seen;
    seen.exe = without_deleted(process::read_exe(pid));
    seen.argv = process::read_cmdline(pid);
    // A runner has no more arguments: most processes needn't be looked at further.
    if (seen.exe == bwrap || seen.argv.size() == 2) {
        seen.numbers = process::read_ns_pids(pid);
    }
    return seen;
}

// None when the process is gone already.
Result<UniqueFd> pin(pid_t pid) {
    auto pidfd = process::open_pidfd(pid);
    if (!pidfd && pidfd.error().code == Code::missing) {
        return UniqueFd();
    }
    return pidfd;
}

// What the process is, once it is anything, at most until `patience`. No event tells that an exec
// is over; it is a matter of microseconds, and of more only where the processor is wanted by all.
launch::SeenProcess see_executed(pid_t pid, int pidfd, const std::string& bwrap, Instant patience) {
    launch::SeenProcess seen = see(pid, bwrap);
    pollfd gone{pidfd, POLLIN, 0};
    while (launch::is_being_executed(seen) && monotonic_now() < patience &&
           ::poll(&gone, 1, 1) == 0) {
        seen = see(pid, bwrap);
    }
    return seen;
}

}  // namespace

Recovery::Recovery(RecoveryParts parts) : parts_(std::move(parts)) {
    bwrap_real_ = process::real_path(parts_.bwrap).value_or(parts_.bwrap);
}

Result<void> Recovery::begin(const registry::SessionsFile& left,
                             const std::vector<wire::BoundRun>& bound) {
    for (const registry::SessionEntry& entry : left.entries) {
        launch::Leftover leftover;
        leftover.run = entry.run;
        leftover.seat = entry.seat;
        leftover.process = entry.process;
        leftover.harness = entry.harness;
        leftover.provider = entry.provider;
        leftover.model = entry.model;
        leftover.warm = entry.warm;
        leftovers_.add_entry(std::move(leftover));
    }
    for (const wire::BoundRun& run : bound) {
        leftovers_.add_bound(run);
    }
    MOSAIC_TRY(scan());
    if (left.boot_id == parts_.boot_id) {
        for (const registry::SessionEntry& entry : left.entries) {
            MOSAIC_TRY(note_entry_processes(entry));
        }
    }
    for (uint32_t i = 0; i < leftovers_.size(); ++i) {
        carry_out(i, leftovers_.begin(i, !rest_of(i).processes.empty()));
    }
    if (leftovers_.size() > 0) {
        log_line("an earlier host left " + std::to_string(leftovers_.size()) +
                 " runs behind; ending them");
    }
    return {};
}

Recovery::Rest& Recovery::rest_of(uint32_t leftover) {
    if (leftover >= rests_.size()) {
        rests_.resize(size_t{leftover} + 1);
    }
    return rests_[leftover];
}

// The run whose process this is by the look of it; empty when it is none of a session's.
std::string Recovery::run_of(const launch::SeenProcess& seen) const {
    return launch::run_of(seen, bwrap_real_, parts_.runs_path);
}

bool Recovery::is_known(pid_t pid) const {
    return std::any_of(processes_.begin(), processes_.end(), [&](const auto& process) {
        return process->pid == pid && !process->gone;
    });
}

// One pass over /proc. The pidfd comes before the look: what was looked at is what it names.
Result<void> Recovery::scan(const std::string& only) {
    const uid_t us = ::geteuid();
    const Instant patience = monotonic_now() + kExecTakes;
    for (const pid_t pid : process::list_pids()) {
        if (process::read_owner(pid) != us || is_known(pid)) {
            continue;
        }
        const launch::SeenProcess first = see(pid, bwrap_real_);
        if (run_of(first).empty() && !launch::is_being_executed(first)) {
            continue;
        }
        MOSAIC_TRY_ASSIGN(UniqueFd pidfd, pin(pid));
        if (!pidfd.valid()) {
            continue;
        }
        const std::string run = run_of(see_executed(pid, pidfd.get(), bwrap_real_, patience));
        const bool wanted = only.empty() ? !run.empty() : run == only;
        if (wanted && !process::has_exited(pidfd.get())) {
            MOSAIC_TRY(add_process(leftovers_.of_run(run), pid, std::move(pidfd)));
        }
    }
    return {};
}

// An entry's own pids, for a bwrap that is configured elsewhere by now.
Result<void> Recovery::note_entry_processes(const registry::SessionEntry& entry) {
    const uint32_t index = leftovers_.of_run(entry.run);
    const auto consider = [&](int64_t number, const std::string& start) -> Result<void> {
        const auto pid = static_cast<pid_t>(number);
        if (is_known(pid) || pid <= 0) {
            return {};
        }
        MOSAIC_TRY_ASSIGN(UniqueFd pidfd, pin(pid));
        if (!pidfd.valid()) {
            return {};
        }
        const auto argv = process::read_cmdline(pid);
        const bool names_run = std::find(argv.begin(), argv.end(), entry.run_dir) != argv.end();
        if (names_run && process::is_alive(pid, start)) {
            return add_process(index, pid, std::move(pidfd));
        }
        return {};
    };
    MOSAIC_TRY(consider(entry.process.runner_pid, entry.process.runner_start_time));
    return consider(entry.process.pid, entry.process.start_time);
}

Result<void> Recovery::add_process(uint32_t leftover, pid_t pid, UniqueFd pidfd) {
    // The looks that follow take descriptors, too, and what can't be looked at is passed over.
    if (!process::descriptors_left(pidfd.get(), limits::kDescriptorsInReserve)) {
        return fail(Code::unavailable,
                    "there are more processes of sessions than the limit of open files leaves room "
                    "for; raise it (LimitNOFILE= of the service, or ulimit -n)");
    }
    auto process = std::make_unique<Process>();
    process->pid = pid;
    process->inner = is_pid_one_inside(pid);
    process->leftover = leftover;
    process->pidfd = std::move(pidfd);
    const auto index = static_cast<uint32_t>(processes_.size());
    own(process->op, Owner::leftover_process, index);
    parts_.loop.ring->poll(process->op, process->pidfd.get(), POLLIN);
    processes_.push_back(std::move(process));
    rest_of(leftover).processes.push_back(index);
    return {};
}

bool Recovery::all_gone(uint32_t leftover) {
    const std::vector<uint32_t>& all = rest_of(leftover).processes;
    return std::all_of(all.begin(), all.end(), [&](uint32_t p) { return processes_[p]->gone; });
}

void Recovery::on_process_gone(uint32_t index) {
    processes_[index]->gone = true;
    const uint32_t leftover = processes_[index]->leftover;
    if (!all_gone(leftover)) {
        return;
    }
    // A bwrap that was found without its sandbox may have forked it between the look and its death.
    // A sandbox that was found took everything inside along.
    const std::vector<uint32_t>& all = rest_of(leftover).processes;
    if (std::none_of(all.begin(), all.end(), [&](uint32_t p) { return processes_[p]->inner; })) {
        if (const auto looked = scan(leftovers_[leftover].run); !looked) {
            log_line("what a sandbox of an earlier host has left can't be told: " +
                     looked.error().text);
            return;  // its deadline says the rest
        }
        kill(leftover);
    }
    if (all_gone(leftover)) {
        parts_.loop.post(leftover, LeftoverEvent::gone);
    }
}

void Recovery::on_deadline(uint32_t leftover, uint32_t /*generation*/) {
    if (leftovers_[leftover].state.phase == LeftoverPhase::waiting) {
        parts_.loop.post(leftover, LeftoverEvent::deadline);
    }
}

void Recovery::on_ended(uint32_t leftover, const wire::EndLaunchResult& end) {
    rest_of(leftover).end = end;
    const bool logged = parts_.logged_ends.count(leftovers_[leftover].run) > 0;
    parts_.loop.post(leftover, launch::end_event(end.first, logged));
}

void Recovery::step(const LeftoverNews& news) {
    MOSAIC_CRASH_POINT("leftover", "on", launch::to_string(news.event));
    carry_out(news.leftover, leftovers_.step(news.leftover, news.event));
}

void Recovery::carry_out(uint32_t index, const launch::LeftoverStep& step) {
    for (const LeftoverEffect effect : step.effects) {
        carry_out(index, effect);
        MOSAIC_CRASH_POINT("leftover", "after", launch::to_string(effect));
    }
}

void Recovery::kill(uint32_t leftover) {
    for (const bool inner : {true, false}) {
        for (const uint32_t p : rest_of(leftover).processes) {
            const Process& process = *processes_[p];
            if (process.inner == inner && !process.gone) {
                ignore(process::signal_pidfd(process.pidfd.get(), SIGKILL), "gone is wanted");
            }
        }
    }
}

void Recovery::log_end(uint32_t index) {
    const launch::Leftover& leftover = leftovers_[index];
    const wire::EndLaunchResult& end = rest_of(index).end;
    parts_.loop.counts.end(end.reason);
    registry::EndLine line;
    line.at = iso8601(wall_clock_ms());
    line.seat = leftover.seat;
    line.run = leftover.run;
    line.reason = end.reason;
    line.exit_code = end.exit_code;
    line.signal = end.signal;
    line.detail = end.detail;
    parts_.log.append(registry::encode(line));
}

void Recovery::carry_out(uint32_t index, LeftoverEffect effect) {
    const launch::Leftover& leftover = leftovers_[index];
    switch (effect) {
        case LeftoverEffect::kill:
            kill(index);
            break;
        case LeftoverEffect::arm_deadline:
            parts_.loop.set_timer(TimerKind::leftover_deadline, index, 0, kKillTakes);
            break;
        case LeftoverEffect::report_stuck:
            log_line("run " + leftover.run + " (" + describe(leftover.seat) +
                     ") of an earlier host doesn't die; its seat stays taken until it does");
            break;
        case LeftoverEffect::end_at_broker: {
            wire::EndLaunchArgs args;
            args.seat = leftover.seat;
            args.run = leftover.run;
            args.reason = EndReason::host_lost;
            args.process = leftover.process;
            args.harness = leftover.harness;
            parts_.broker.end_leftover(index, args);
            break;
        }
        case LeftoverEffect::log_end:
            log_end(index);
            break;
        case LeftoverEffect::unrecord:
            parts_.store.remove_leftover(leftover.run, index);
            break;
        case LeftoverEffect::settle:
            log_line("run " + leftover.run + " of an earlier host is ended");
            settled_.push_back(
                {leftover.run,
                 leftovers_.was_run(index) || parts_.logged_ends.count(leftover.run) > 0});
            break;
    }
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
