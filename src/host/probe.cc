#include "host/probe.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "harness/module.h"
#include "host/log.h"
#include "sandbox/seccomp.h"
#include "sandbox/status.h"

namespace mosaic::host {
namespace {

constexpr Duration kProbeTakes = seconds(10);

}  // namespace

Probe::Probe(Children& children, const Settings& settings)
    : children_(children), settings_(settings) {}

Probe::Answer Probe::ask(bool again) {
    const std::string& bwrap = settings_.system.sandbox.bwrap;
    const auto identity = sandbox::identity_of(bwrap);
    if (!identity) {
        unavailable_ = identity.error().code == Code::missing
                           ? sandbox::explain_exec(bwrap, ENOENT)
                           : sandbox::Unavailable{bwrap + " failed: " + identity.error().text, ""};
        known_good_.reset();
        return Answer::broken;
    }
    if (known_good_ == *identity) {
        return Answer::works;
    }
    if (try_job_ != 0) {
        return Answer::unknown;
    }
    if (again && trying_ == *identity) {
        return Answer::broken;
    }
    return start(*identity) ? Answer::unknown : Answer::broken;
}

bool Probe::start(const sandbox::FileIdentity& identity) {
    trying_ = identity;
    sandbox::ProbeSpec probe;
    probe.layout = settings_.layout;
    probe.stage_dir = settings_.stages.at("");
    probe.shm_bytes = settings_.system.limits.shm_bytes;
    probe.options.bwrap = settings_.system.sandbox.bwrap;
    probe.options.nested = settings_.system.sandbox.nested;
    probe.options.seccomp_fd = sandbox::kSeccompFd;
    process::SpawnSpec spec;
    spec.path = probe.options.bwrap;
    spec.argv = sandbox::probe_argv(probe);
    spec.env = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8"};
    std::vector<UniqueFd> keep;
    for (const auto& [path, flags] : {std::pair{"/dev/null", O_WRONLY},
                                      std::pair{probe.stage_dir.c_str(), O_PATH | O_DIRECTORY}}) {
        keep.emplace_back(::open(path, flags | O_CLOEXEC));
        if (!keep.back().valid()) {
            unavailable_ = sandbox::explain_exec(probe.options.bwrap, errno);
            return false;
        }
    }
    spec.descriptors = {{keep[0].get(), sandbox::kStatusFd},
                        {keep[1].get(), sandbox::kWorkspaceFd}};
    // Without it bwrap says that it can't read the filter, which is the truth.
    if (auto filter = sandbox::open_program(settings_.seccomp.get())) {
        spec.descriptors.emplace_back(filter->get(), sandbox::kSeccompFd);
        keep.push_back(std::move(*filter));
    }
    try_job_ = children_.run(std::move(spec), std::move(keep), kProbeTakes);
    process::SpawnSpec version;
    version.path = probe.options.bwrap;
    version.argv = {probe.options.bwrap, "--version"};
    version.env = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8"};
    version_job_ = children_.run(std::move(version), {}, kProbeTakes);
    return true;
}

void Probe::forget() {
    give_up();
    try_job_ = 0;
    version_job_ = 0;
    trying_ = {};
    known_good_.reset();
}

void Probe::give_up() {
    children_.end(std::exchange(try_job_, 0));
    children_.end(std::exchange(version_job_, 0));
}

bool Probe::settle(const ChildResult& result) {
    if (result.job == version_job_) {
        version_ = harness::version_from(result.output);
        return false;
    }
    if (result.job != try_job_) {
        return false;
    }
    try_job_ = 0;
    const std::string& bwrap = settings_.system.sandbox.bwrap;
    if (!result.started) {
        unavailable_ = sandbox::explain_exec(bwrap, result.sys);
    } else if (result.timed_out) {
        unavailable_ = {bwrap + " failed: it did not end within 10 s", ""};
    } else if (result.exit.signal != 0 || result.exit.exit_code != 0) {
        unavailable_ =
            sandbox::explain(bwrap, result.exit, sandbox::first_error_line(result.output));
    } else {
        known_good_ = trying_;
        return true;
    }
    log_line("sessions can't start: " + unavailable_.reason +
             (unavailable_.remedy.empty() ? "" : "; " + unavailable_.remedy));
    return true;
}

}  // namespace mosaic::host
