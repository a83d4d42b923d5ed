#include "host/pager.h"

#include <algorithm>
#include <array>
#include <utility>

#include "host/log.h"

namespace mosaic::host {
namespace {

constexpr Duration kProgramTakes = seconds(30);

// What a program needs to reach a desktop, a mail system or a script of the human's; no credential
// of the service's is among them.
constexpr std::array<const char*, 11> kPassed = {"HOME",
                                                 "USER",
                                                 "LOGNAME",
                                                 "PATH",
                                                 "LANG",
                                                 "LC_ALL",
                                                 "DISPLAY",
                                                 "WAYLAND_DISPLAY",
                                                 "XAUTHORITY",
                                                 "XDG_RUNTIME_DIR",
                                                 "DBUS_SESSION_BUS_ADDRESS"};

}  // namespace

std::string page_text(const std::string& business, const wire::NeedArgs& need) {
    return need.what == wire::NeedArgs::What::decision
               ? business + ": " + need.by + " asks for decision " + need.id
               : business + ": message " + need.id + " from " + need.by;
}

Pager::Pager(Children& children, const Settings& settings)
    : children_(children), settings_(settings) {}

void Pager::page(const wire::NeedArgs& need) {
    const bool known = std::find(told_.begin(), told_.end(), need.id) != told_.end();
    if (settings_.system.notify.empty() || stopping_ || known) {
        return;
    }
    told_.push_back(need.id);
    if (told_.size() > kToldMax) {
        told_.pop_front();
    }
    waiting_.push_back(need);
    if (waiting_.size() > kWaitingMax) {
        log_line("notify: left out " + waiting_.front().id + ", too many wait");
        waiting_.pop_front();
    }
    start();
}

void Pager::start() {
    if (job_ != 0 || waiting_.empty() || settings_.system.notify.empty()) {
        return;
    }
    const wire::NeedArgs need = std::move(waiting_.front());
    waiting_.pop_front();
    process::SpawnSpec spec;
    spec.argv = settings_.system.notify;
    spec.path = spec.argv.front();
    program_ = spec.path;
    spec.argv.push_back(page_text(settings_.business.id, need));
    for (const char* name : kPassed) {
        if (const auto found = settings_.env.find(name); found != settings_.env.end()) {
            spec.env.push_back(found->first + "=" + found->second);
        }
    }
    spec.env.push_back("MOSAIC_BUSINESS=" + settings_.business.id);
    spec.env.push_back("MOSAIC_NEED=" + std::string(to_string(need.what)));
    spec.env.push_back("MOSAIC_ID=" + need.id);
    spec.env.push_back("MOSAIC_BY=" + need.by);
    job_ = children_.run(std::move(spec), {}, kProgramTakes);
}

bool Pager::settle(const ChildResult& result) {
    if (job_ == 0 || result.job != job_) {
        return false;
    }
    job_ = 0;
    if (!stopping_ && (!result.started || result.timed_out || result.exit.signal != 0 ||
                       result.exit.exit_code != 0)) {
        log_line("notify: " + program_ + " failed: " +
                 (!result.started           ? errno_text(result.sys)
                  : result.timed_out        ? "it ran for more than 30 s"
                  : result.exit.signal != 0 ? "signal " + std::to_string(result.exit.signal)
                  : result.output.empty()   ? "exit code " + std::to_string(result.exit.exit_code)
                                            : result.output));
    }
    start();
    return true;
}

void Pager::stop() {
    stopping_ = true;
    waiting_.clear();
    if (job_ != 0) {
        children_.end(job_);
    }
}

}  // namespace mosaic::host
