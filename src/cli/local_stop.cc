#include "cli/local_stop.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/ids.h"
#include "process/pidfd.h"
#include "process/proc.h"

namespace mosaic::cli {
namespace {

// After SIGKILL only a process stuck in the kernel stays.
constexpr Duration kKillGrace = seconds(10);
constexpr Duration kTermEvery = seconds(1);

std::string base_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

json::Value stale(const std::string& run) {
    json::Value out;
    out.set("stopped", false);
    out.set("reason", "run " + run + " is not running (stale entry)");
    return out;
}

json::Value stopped(const registry::SessionEntry& entry) {
    json::Value out;
    out.set("stopped", true);
    out.set("business", entry.business);
    out.set("instance", entry.seat.instance);
    out.set("run", entry.run);
    return out;
}

// Whether the process exits before `until`.
Result<bool> exits_by(int pidfd, Instant until) {
    while (true) {
        const int64_t left_ms = ((until - monotonic_now()).ns + 999'999) / 1'000'000;
        pollfd wait{pidfd, POLLIN, 0};
        const int ready =
            ::poll(&wait, 1, static_cast<int>(std::clamp<int64_t>(left_ms, 0, INT_MAX)));
        if (ready > 0) {
            return true;
        }
        if (ready < 0 && errno != EINTR) {
            return fail_sys(errno, "poll");
        }
        if (monotonic_now() >= until) {
            return false;
        }
    }
}

Result<bool> terminate(int pidfd, Duration timeout) {
    const Instant deadline = monotonic_now() + timeout;
    while (true) {
        MOSAIC_TRY(process::signal_pidfd(pidfd, SIGTERM));
        const Instant next = std::min(deadline, monotonic_now() + kTermEvery);
        MOSAIC_TRY_ASSIGN(const bool gone, exits_by(pidfd, next));
        if (gone || monotonic_now() >= deadline) {
            return gone;
        }
    }
}

// The outer bwrap, by its own pidfd, and only when it is what the entry says.
void kill_outer(const registry::SessionEntry& entry) {
    const auto pid = static_cast<pid_t>(entry.process.pid);
    auto pidfd = process::open_pidfd(pid);
    if (pidfd && process::is_alive(pid, entry.process.start_time) &&
        is_bwrap_of(process::read_cmdline(pid), entry.run_dir)) {
        ignore(process::signal_pidfd(pidfd->get(), SIGKILL), "it dies with its runner anyway");
    }
}

Result<json::Value> stop_entry(const registry::SessionEntry& entry, Duration timeout) {
    const auto pid = static_cast<pid_t>(entry.process.runner_pid);
    auto pidfd = process::open_pidfd(pid);
    if (!pidfd && pidfd.error().code == Code::missing) {
        return stale(entry.run);
    }
    if (!pidfd) {
        return tl::unexpected<Error>(pidfd.error());
    }
    // The pidfd holds the process, whoever it is; only now is it worth asking who.
    if (!process::is_alive(pid, entry.process.runner_start_time)) {
        return stale(entry.run);
    }
    if (!is_runner_of(process::read_cmdline(pid), entry.run_dir)) {
        // It may have exited between the two looks: then its command line is empty.
        if (process::has_exited(pidfd->get())) {
            return stale(entry.run);
        }
        return fail(Code::unsafe,
                    "process " + std::to_string(pid) + " of run " + entry.run +
                        " is not a session runner; refusing to signal it");
    }
    MOSAIC_TRY_ASSIGN(bool gone, terminate(pidfd->get(), timeout));
    if (!gone) {
        MOSAIC_TRY(process::signal_pidfd(pidfd->get(), SIGKILL));
        kill_outer(entry);
        MOSAIC_TRY_ASSIGN(gone, exits_by(pidfd->get(), monotonic_now() + kKillGrace));
    }
    if (!gone) {
        return fail(Code::held,
                    "run " + entry.run + " (process " + std::to_string(pid) +
                        ") is still there 10 s after SIGKILL");
    }
    return stopped(entry);
}

}  // namespace

const registry::SessionEntry* find_entry(const registry::SessionsFile& file,
                                         const std::string& target,
                                         const std::string& thread) {
    const Seat seat{target, thread};
    const auto hit = std::find_if(file.entries.begin(), file.entries.end(), [&](const auto& entry) {
        return entry.run == target || (!entry.warm && entry.seat == seat);
    });
    return hit == file.entries.end() ? nullptr : &*hit;
}

bool is_runner_of(const std::vector<std::string>& cmdline, const std::string& run_dir) {
    const bool runner =
        cmdline.size() >= 2 && base_name(cmdline[0]) == "mosaic-runner" && cmdline[1] == run_dir;
    return runner || is_bwrap_of(cmdline, run_dir);
}

bool is_bwrap_of(const std::vector<std::string>& cmdline, const std::string& run_dir) {
    return !cmdline.empty() && base_name(cmdline[0]) == "bwrap" &&
           std::find(cmdline.begin() + 1, cmdline.end(), run_dir) != cmdline.end();
}

Result<json::Value> stop_locally(const registry::SessionsFile& file, const wire::StopArgs& args) {
    const registry::SessionEntry* entry = find_entry(file, args.target, args.thread);
    if (entry == nullptr) {
        const bool run = is_run_id(args.target);
        return fail(Code::missing,
                    run ? "no running session has run id " + args.target
                        : "no session of " + describe({args.target, args.thread}) + " is running");
    }
    if (file.boot_id != process::boot_id()) {
        return stale(entry->run);
    }
    return stop_entry(*entry, milliseconds(args.timeout_ms));
}

}  // namespace mosaic::cli
