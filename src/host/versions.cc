#include "host/versions.h"

#include <fcntl.h>

#include <algorithm>

#include "harness/bundle.h"
#include "host/log.h"
#include "sandbox/environment.h"
#include "sandbox/seccomp.h"
#include "sandbox/status.h"

namespace mosaic::host {
namespace {

constexpr Duration kVersionTakes = seconds(10);
constexpr Duration kAskAgain = seconds(60);
constexpr size_t kEntriesMax = 64;
// Some programs unpack parts of themselves there before they say anything.
constexpr int64_t kTmpBytes = int64_t{256} * 1024 * 1024;

Result<std::vector<sandbox::Bind>> binds_for(const Settings& settings,
                                             const harness::ChosenRoute& route) {
    std::vector<sandbox::Bind> out =
        sandbox::system_binds(settings.layout, settings.system.limits.shm_bytes);
    out.push_back(sandbox::Bind{.kind = sandbox::BindKind::tmpfs,
                                .dest = "/tmp",
                                .reason = "home and temporary directory",
                                .bytes = kTmpBytes,
                                .mode = 0700});
    out.insert(out.end(), settings.layout.outside.begin(), settings.layout.outside.end());
    for (const harness::HostPath& path : harness::program_paths(route)) {
        auto mounts = sandbox::mounts_for(settings.layout, path.path, path.reason);
        if (!mounts && path.optional) {
            continue;
        }
        if (!mounts) {
            return tl::unexpected<Error>(std::move(mounts.error()));
        }
        out.insert(out.end(), mounts->begin(), mounts->end());
    }
    return sandbox::in_mount_order(std::move(out));
}

std::string why_not(const ChildResult& result) {
    if (!result.started) {
        return errno_text(result.sys);
    }
    if (result.timed_out) {
        return "no answer within 10 s";
    }
    const std::string line = sandbox::first_error_line(result.output);
    if (result.exit.signal != 0 || result.exit.exit_code != 0) {
        return (result.exit.signal != 0 ? process::signal_name(result.exit.signal)
                                        : "exit " + std::to_string(result.exit.exit_code)) +
               (line.empty() ? "" : ", " + line);
    }
    return "no version in what it printed" + (line.empty() ? "" : ": " + line);
}

}  // namespace

Versions::Versions(Loop& loop, Children& children, const Settings& settings)
    : loop_(loop), children_(children), settings_(settings) {}

Versions::Entry* Versions::find(const sandbox::FileIdentity& file) {
    const auto found = std::find_if(
        entries_.begin(), entries_.end(), [&](const Entry& one) { return one.file == file; });
    return found == entries_.end() ? nullptr : &*found;
}

std::optional<std::string> Versions::of(const harness::ChosenRoute& route) {
    if (stopping_ || harness::version_command(route).empty()) {
        return "";
    }
    const auto file = sandbox::identity_of(route.program->real);
    if (!file) {
        return "";  // gone since the check; the launch will say so
    }
    if (Entry* known = find(*file)) {
        if (known->job == 0 && known->version.empty() && loop_.now - known->at > kAskAgain) {
            ask(*known, route);
        }
        return known->known ? std::optional(known->version) : std::nullopt;
    }
    if (entries_.size() >= kEntriesMax) {
        entries_.pop_front();
    }
    Entry entry;
    entry.file = *file;
    entry.path = route.program->real;
    entries_.push_back(std::move(entry));
    ask(entries_.back(), route);
    return entries_.back().known ? std::optional(entries_.back().version) : std::nullopt;
}

void Versions::ask(Entry& entry, const harness::ChosenRoute& route) {
    entry.at = loop_.now;
    const auto binds = binds_for(settings_, route);
    auto filter = sandbox::open_program(settings_.seccomp.get());
    if (!binds || !filter) {
        entry.known = true;
        log_line("the version of " + entry.path +
                 " is unknown: " + (binds ? filter.error().text : binds.error().text));
        return;
    }
    sandbox::BwrapOptions options;
    options.bwrap = settings_.system.sandbox.bwrap;
    options.directory = "/tmp";
    options.network_none = true;
    // Nested or not: whoever tells its version needs no sandbox inside, has no control group of its
    // own, and isn't the runner, which gives up what a nested sandbox begins with.
    options.nested = false;
    options.seccomp_fd = sandbox::kSeccompFd;
    sandbox::EnvironmentSpec path;
    path.host = &settings_.env;
    path.path_dirs = harness::path_directories(route);
    process::SpawnSpec spec;
    spec.path = options.bwrap;
    spec.argv = sandbox::bwrap_argv(options, *binds, harness::version_command(route));
    spec.env = {"HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8", "PATH=" + sandbox::session_path(path)};
    std::vector<UniqueFd> keep;
    keep.emplace_back(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    spec.descriptors = {{keep[0].get(), sandbox::kStatusFd}, {filter->get(), sandbox::kSeccompFd}};
    keep.push_back(std::move(*filter));
    entry.job = children_.run(std::move(spec), std::move(keep), kVersionTakes);
}

void Versions::warm_up() {
    for (const auto& [name, module] : settings_.modules.modules) {
        harness::ChosenRoute route;
        route.module = &module;
        // What isn't there now is for a launch to complain about.
        if (!harness::take_programs(module, settings_.env, route)) {
            ignore(of(route), "kept for the launches");
        }
    }
}

void Versions::give_up() {
    stopping_ = true;
    for (const Entry& entry : entries_) {
        if (entry.job != 0) {
            children_.end(entry.job);
        }
    }
}

bool Versions::settle(const ChildResult& result) {
    const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& one) {
        return one.job != 0 && one.job == result.job;
    });
    if (entry == entries_.end()) {
        return false;
    }
    const bool well = result.started && !result.timed_out && result.exit.signal == 0 &&
                      result.exit.exit_code == 0;
    entry->job = 0;
    entry->known = true;
    entry->version = well ? harness::version_from(result.output) : "";
    if (entry->version.empty()) {
        log_line("the version of " + entry->path + " is unknown: " + why_not(result));
    }
    return true;
}

}  // namespace mosaic::host
