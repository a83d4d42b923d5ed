#include "sim/sessions.h"

#include <algorithm>
#include <cerrno>

#include "registry/sessions.h"
#include "sim/host.h"
#include "sim/world.h"
#include "wire/codes.h"

namespace mosaic::sim {
namespace {

constexpr uint32_t kFirstPid = 300;
constexpr uint32_t kNobody = UINT32_MAX;
constexpr int kKilled = 128 + 9;
constexpr int64_t kInputTakesUs = 30'000'000;
constexpr int64_t kRetryUs = 100'000;
constexpr uint32_t kRetries = 6;
constexpr int kExitCodes[] = {0, 0, 0, 1, 2, 20, 22, 23};

}  // namespace

uint64_t Sessions::ticks() const {
    return static_cast<uint64_t>(world_.now - world_.booted_at) / 10'000'000;
}

uint32_t Sessions::free_pid() {
    by_pid_.resize(world_.shape.pids, kNobody);
    do {
        next_pid_ = (next_pid_ + 1) % world_.shape.pids;
    } while (by_pid_[next_pid_] != kNobody);
    return kFirstPid + next_pid_;
}

Handle Sessions::make(Process::Kind kind, uint32_t session, uint32_t pid) {
    uint32_t index = 0;
    if (free_processes_.empty()) {
        index = static_cast<uint32_t>(processes_.size());
        processes_.emplace_back();
    } else {
        index = free_processes_.back();
        free_processes_.pop_back();
    }
    Process& p = processes_[index];
    const uint32_t life = p.life + 1;
    p = Process{};
    p.life = life;
    p.in_use = true;
    p.alive = true;
    p.kind = kind;
    p.pid = pid;
    p.start = ticks();
    p.session = session;
    by_pid_[pid - kFirstPid] = index;
    return {index, life};
}

Fate Sessions::draw_fate() const {
    World& w = world_;
    Fate f;
    f.bwrap_dies = w.fault(w.faults.bwrap_dies);
    f.bwrap_hangs = w.fault(w.faults.bwrap_hangs);
    f.never_claims = w.fault(w.faults.never_claims);
    f.stuck_at_end = w.fault(w.faults.stuck_at_end);
    f.deaf = w.fault(w.faults.deaf);
    f.leaves_group = w.fault(w.faults.leaves_group);
    f.outer_dies = w.fault(w.faults.outer_dies);
    f.dies = w.fault(w.faults.runner_dies);
    f.exit_code = kExitCodes[w.chance.below(8)];
    f.signal = w.chance.below(8) == 0 ? 11 : 0;
    f.life_us = w.chance.magnitude(1'000, w.shape.life_ms_max * 1'000);
    f.dies_after_us = w.chance.magnitude(100, 100'000);
    return f;
}

void Sessions::later(uint32_t session, Step step, int64_t us, int64_t x) {
    world_.wake(us * 1000,
                {.kind = Wake::session,
                 .sub = static_cast<uint8_t>(step),
                 .a = session,
                 .b = sessions_[session].life,
                 .x = x});
}

int64_t Sessions::spawn(uint32_t run, bool seat_may_launch) {
    if (world_.fault(world_.faults.spawn_fails)) {
        return -EAGAIN;
    }
    auto free = std::find_if(
        sessions_.begin(), sessions_.end(), [](const Session& s) { return !s.in_use; });
    if (free == sessions_.end()) {
        sessions_.emplace_back();
        free = sessions_.end() - 1;
    }
    const auto index = static_cast<uint32_t>(free - sessions_.begin());
    const uint32_t life = free->life + 1;
    *free = Session{};
    free->life = life;
    free->in_use = true;
    free->run = run;
    free->seat = world_.truth[run].seat;
    free->host_epoch = world_.host_epoch;
    free->may_launch = seat_may_launch;
    free->warm = world_.truth[run].warm;
    free->fate = draw_fate();
    free->outer = make(Process::Kind::outer, index, free_pid());
    processes_[free->outer.index].group = processes_[free->outer.index].pid;
    world_.truth.process_made(run);
    world_.note("process made", run, 0);
    if (free->fate.outer_dies) {
        later(index, Step::outer_killed, free->fate.dies_after_us);
    }
    if (free->fate.bwrap_dies) {
        later(index, Step::outer_exits, world_.us(200, 20'000), 1);
    } else if (!free->fate.bwrap_hangs) {
        later(index, Step::fork, world_.us(500, 15'000));
    }
    return index;
}

bool Sessions::runner_alive(const Session& s) const {
    return s.runner.valid() && processes_[s.runner.index].life == s.runner.life &&
           processes_[s.runner.index].alive;
}

bool Sessions::outer_alive(const Session& s) const {
    return processes_[s.outer.index].life == s.outer.life && processes_[s.outer.index].alive;
}

void Sessions::fork_runner(uint32_t index) {
    Session& s = sessions_[index];
    // Who was sent SIGKILL does nothing more, even while it takes its time to die.
    if (!outer_alive(s) || processes_[s.outer.index].dying) {
        return;
    }
    s.runner = make(Process::Kind::runner, index, free_pid());
    processes_[s.runner.index].group = processes_[s.outer.index].pid;
    world_.truth.process_made(s.run);
    world_.note("process made", s.run, 1);
    later(index, Step::tell_pid, world_.us(10, 300));
    later(index, Step::arm, world_.us(500, 20'000));
    later(index, Step::input_late, kInputTakesUs);
    if (s.fate.dies) {
        later(index, Step::dies, s.fate.dies_after_us);
    }
}

void Sessions::read_input(uint32_t index) {
    Session& s = sessions_[index];
    if (s.read_cap || !s.armed) {
        return;
    }
    if (s.input == Session::Input::line) {
        s.read_cap = true;
        if (!s.fate.never_claims) {
            later(index, Step::claim, world_.us(50, 1'000));
        }
    } else if (s.input == Session::Input::over && !s.fate.stuck_at_end) {
        later(index, Step::exits, world_.us(50, 1'000), runner_exit::kSessionInvalid);
    }
}

// A connection is let in or not before a byte is read. The sockets are the host's: with another
// host they are other sockets.
void Sessions::connect(uint32_t index) {
    Session& s = sessions_[index];
    if (s.stopping) {
        return;
    }
    const Process& runner = processes_[s.runner.index];
    const bool reaches = s.host_epoch == world_.host_epoch && world_.host_lives() &&
                         world_.broker.lets_in(s.run, {runner.pid, runner.start, 0, 0});
    if (!reaches) {
        if (++s.retries > kRetries) {
            later(index, Step::exits, world_.us(50, 1'000), runner_exit::kBrokerUnreachable);
        } else {
            later(index, Step::claim, kRetryUs << std::min(s.retries, 4U));
        }
        return;
    }
    s.broker_epoch = world_.broker.epoch();
    ToBroker request;
    request.verb = Verb::claim;
    request.run = s.run;
    request.seat = s.seat;
    request.cap = s.cap;
    request.session = index;
    request.life = s.life;
    s.asked_claim = true;
    world_.broker.from_session(request);
}

void Sessions::work(uint32_t index) {
    Session& s = sessions_[index];
    if (!s.claimed || s.stopping || s.broker_epoch == 0) {
        return;
    }
    ToBroker request;
    request.run = s.run;
    request.seat = s.seat;
    request.cap = s.cap;
    request.session = index;
    request.life = s.life;
    request.verb = Verb::receive;
    if (world_.chance.below(3) == 0) {
        request.verb = Verb::send;
        request.ask = world_.chance.below(world_.shape.seats);
    }
    if (world_.fault(world_.faults.thieves)) {
        request.cap = request.cap + 1 + world_.chance.below(100);
        request.flag = true;
    }
    world_.broker.from_session(request);
}

void Sessions::on_reply(const ToSession& reply) {
    Session& s = sessions_[reply.session];
    if (!s.in_use || s.life != reply.life || !runner_alive(s) || s.broker_epoch == 0) {
        return;
    }
    const bool again = !reply.ok && reply.storage;
    switch (reply.verb) {
        case Verb::claim:
            if (again) {
                later(reply.session, Step::claim, world_.us(10'000, 100'000));
            } else if (!reply.ok) {
                later(reply.session, Step::exits, world_.us(50, 500), runner_exit::kClaimRefused);
            } else if (!s.claimed) {
                s.claimed = true;
                s.retries = 0;
                later(reply.session, Step::life_over, s.fate.life_us);
                later(reply.session, Step::work, world_.us(100, 2'000));
            }
            return;
        case Verb::send:
            later(reply.session, Step::work, world_.us(500, 50'000));
            return;
        case Verb::receive:
            if (reply.ok && reply.message != 0) {
                world_.clients.message_delivered(reply.message, s.seat);
                ToBroker ack;
                ack.verb = Verb::ack;
                ack.run = s.run;
                ack.seat = s.seat;
                ack.cap = s.cap;
                ack.session = reply.session;
                ack.life = reply.life;
                ack.message = reply.message;
                world_.broker.from_session(ack);
            }
            return;
        case Verb::ack:
            later(reply.session, Step::work, world_.us(500, 50'000));
            return;
        case Verb::release:
            later(reply.session, Step::exits, world_.us(20, 200), runner_exit::kStopped);
            return;
        case Verb::config:
        case Verb::bound:
        case Verb::authorize:
        case Verb::bind:
        case Verb::end:
        case Verb::refuse:
        case Verb::reply:
        case Verb::launch:
        case Verb::stop:
        case Verb::switch_launches:
        case Verb::human_send:
            return;
    }
}

void Sessions::runner_exits(uint32_t index, int code) {
    Session& s = sessions_[index];
    if (!runner_alive(s)) {
        return;
    }
    s.runner_code = code;
    end_process(s.runner);
}

// What follows the runner's end, whoever caused it.
void Sessions::exit_outer(uint32_t index, const OuterExit& exit) {
    Session& s = sessions_[index];
    if (!outer_alive(s)) {
        return;
    }
    s.exit = exit;
    end_process(s.outer);
}

void Sessions::leave_broker(Session& s) {
    s.broker_epoch = 0;
}

void Sessions::end_process(Handle process) {
    Process& p = processes_[process.index];
    p.alive = false;
    if (p.watcher != kNobody && p.watching_host == world_.host_epoch && world_.host_lives()) {
        world_.wake(world_.us(5, 100) * 1000,
                    {.kind = Wake::host_op,
                     .sub = static_cast<uint8_t>(HostOp::leftover_gone),
                     .epoch = world_.host_epoch,
                     .a = p.watcher});
    }
    if (p.kind == Process::Kind::stranger) {
        release_number(process.index);
        return;
    }
    const uint32_t index = p.session;
    Session& s = sessions_[index];
    world_.note("process ends", s.run, p.kind == Process::Kind::runner ? 1 : 0);
    --world_.truth[s.run].processes;
    world_.truth[s.run].acting -= p.dying ? 0U : 1U;
    if (p.kind == Process::Kind::runner) {
        leave_broker(s);
        world_.clients.session_gone(index, s.life);
        if (s.runner_code < 0) {
            s.runner_code = kKilled;
        }
        release_number(process.index);
        if (outer_alive(s) && !processes_[s.outer.index].dying) {
            later(index, Step::outer_exits, world_.us(20, 500), s.runner_code);
        }
        recycle(index);
        return;
    }
    if (runner_alive(s) && s.armed) {
        kill(s.runner);
    }
    const bool childs_parent = s.host_epoch == world_.host_epoch && world_.host_lives();
    if (!childs_parent) {
        release_number(process.index);
        recycle(index);
        return;
    }
    const auto tell = [&](HostOp op, int64_t not_before) {
        world_.wake(std::max(world_.us(5, 200) * 1000, not_before - world_.now),
                    {.kind = Wake::host_op,
                     .sub = static_cast<uint8_t>(op),
                     .epoch = world_.host_epoch,
                     .a = index,
                     .b = s.life,
                     .x = s.host_reference()});
    };
    tell(HostOp::outer_exited, 0);
    tell(HostOp::status_over, s.status_at);
}

void Sessions::release_number(uint32_t index) {
    Process& p = processes_[index];
    by_pid_[p.pid - kFirstPid] = kNobody;
    p.in_use = false;
    p.alive = false;
    free_processes_.push_back(index);
}

void Sessions::recycle(uint32_t index) {
    Session& s = sessions_[index];
    const Process& outer = processes_[s.outer.index];
    const bool outer_there = outer.life == s.outer.life && outer.in_use;
    if (s.in_use && !outer_there && !runner_alive(s)) {
        s.in_use = false;
    }
}

void Sessions::reap(Handle process) {
    const uint32_t session = processes_[process.index].session;
    release_number(process.index);
    recycle(session);
}

void Sessions::kill(Handle process) {
    Process& p = processes_[process.index];
    if (p.life != process.life || !p.alive || p.dying) {
        return;
    }
    if (p.kind == Process::Kind::stranger) {
        world_.fail("nobody else's process is signalled",
                    "SIGKILL to a stranger with pid " + std::to_string(p.pid));
    }
    p.dying = true;
    world_.note("process is killed", sessions_[p.session].run, static_cast<uint64_t>(p.kind));
    --world_.truth[sessions_[p.session].run].acting;
    const bool slow = world_.fault(world_.faults.unkillable);
    const int64_t after = slow ? world_.us(2'000'000, 30'000'000) : world_.us(20, 2'000);
    world_.wake(after * 1000, {.kind = Wake::death, .a = process.index, .b = process.life});
}

void Sessions::kill_group(uint32_t group) {
    for (uint32_t i = 0; i < processes_.size(); ++i) {
        if (processes_[i].alive && processes_[i].group == group) {
            kill({i, processes_[i].life});
        }
    }
}

void Sessions::on_death(const Wakeup& wakeup) {
    const Process& p = processes_[wakeup.a];
    if (p.life != wakeup.b || !p.alive) {
        return;
    }
    if (p.kind == Process::Kind::outer) {
        sessions_[p.session].exit = {0, 9, false};
    }
    end_process({wakeup.a, wakeup.b});
}

// As pid 1 the runner hears a signal only once it has made itself ready for it (TRAP-21).
void Sessions::term(Handle process) {
    const Process& p = processes_[process.index];
    if (p.life != process.life || !p.alive) {
        return;
    }
    if (p.kind == Process::Kind::stranger) {
        world_.fail("nobody else's process is signalled", "SIGTERM to a stranger");
    }
    Session& s = sessions_[p.session];
    if (!s.armed || s.fate.deaf || s.stopping) {
        return;
    }
    s.stopping = true;
    if (s.claimed && s.broker_epoch != 0) {
        ToBroker request;
        request.verb = Verb::release;
        request.run = s.run;
        request.seat = s.seat;
        request.cap = s.cap;
        request.session = p.session;
        request.life = s.life;
        world_.broker.from_session(request);
        later(p.session, Step::exits, 1'000'000, runner_exit::kStopped);
        return;
    }
    later(p.session, Step::exits, world_.us(50, 5'000), runner_exit::kStopped);
}

int64_t Sessions::write_capability(uint32_t index, uint64_t cap) {
    Session& s = sessions_[index];
    if (!runner_alive(s) && !outer_alive(s)) {
        return -EPIPE;
    }
    if (s.input != Session::Input::open) {
        return -EPIPE;
    }
    s.input = Session::Input::line;
    s.cap = cap;
    later(index, Step::read, world_.us(10, 200));
    return 0;
}

void Sessions::close_input(uint32_t index) {
    Session& s = sessions_[index];
    if (s.in_use && s.input == Session::Input::open) {
        s.input = Session::Input::over;
        later(index, Step::read, world_.us(10, 200));
    }
}

Handle Sessions::open_pidfd(uint32_t pid) const {
    const uint32_t at = pid - kFirstPid;
    if (at >= by_pid_.size() || by_pid_[at] == kNobody) {
        return {};
    }
    return {by_pid_[at], processes_[by_pid_[at]].life};
}

bool Sessions::exited(Handle process) const {
    const Process& p = processes_[process.index];
    return p.life != process.life || !p.alive;
}

void Sessions::watch(Handle process, uint32_t watcher) {
    processes_[process.index].watcher = watcher;
    processes_[process.index].watching_host = world_.host_epoch;
}

launch::SeenProcess Sessions::look(uint32_t pid) const {
    launch::SeenProcess seen;
    const Handle handle = open_pidfd(pid);
    if (!handle.valid() || !processes_[handle.index].alive) {
        return seen;
    }
    const Process& p = processes_[handle.index];
    switch (p.kind) {
        case Process::Kind::outer:
            seen.exe = "/usr/bin/bwrap";
            seen.argv = {"bwrap", "--ro-bind", run_path(sessions_[p.session].run), "/x", "--", "r"};
            seen.numbers = {2};
            break;
        case Process::Kind::runner:
            seen.exe = "/run/mosaic/mosaic-runner";
            seen.argv = {"/run/mosaic/mosaic-runner", run_path(sessions_[p.session].run)};
            seen.numbers = {1, 1};
            break;
        case Process::Kind::stranger:
            seen.exe = p.run % 2 == 0 ? "/usr/bin/tail" : "/usr/bin/bwrap";
            seen.argv = {"x", "--", "tail"};
            seen.numbers = {2};
            if (p.run != 0) {
                seen.argv.push_back(run_path(p.run));
            }
            break;
    }
    return seen;
}

std::vector<uint32_t> Sessions::pids() const {
    std::vector<uint32_t> out;
    for (uint32_t i = 0; i < by_pid_.size(); ++i) {
        if (by_pid_[i] != kNobody && processes_[by_pid_[i]].alive) {
            out.push_back(kFirstPid + i);
        }
    }
    return out;
}

void Sessions::on_step(const Wakeup& wakeup) {
    const uint32_t index = wakeup.a;
    if (!sessions_[index].in_use || sessions_[index].life != wakeup.b) {
        return;
    }
    Session& s = sessions_[index];
    const auto step = static_cast<Step>(wakeup.sub);
    if (step == Step::fork) {
        fork_runner(index);
        return;
    }
    if (step == Step::outer_exits) {
        const auto code = static_cast<int>(wakeup.x);
        exit_outer(index, {code, 0, s.runner.valid()});
        return;
    }
    if (step == Step::outer_killed) {
        kill(s.outer);
        return;
    }
    if (!runner_alive(s) || processes_[s.runner.index].dying) {
        return;
    }
    switch (step) {
        case Step::tell_pid:
            if (s.host_epoch == world_.host_epoch && world_.host_lives() && outer_alive(s)) {
                const int64_t after = world_.us(5, 100) * 1000;
                s.status_at = world_.now + after;
                world_.wake(after,
                            {.kind = Wake::host_op,
                             .sub = static_cast<uint8_t>(HostOp::status_pid),
                             .epoch = world_.host_epoch,
                             .a = index,
                             .b = s.life,
                             .x = s.host_reference()});
            }
            return;
        case Step::arm:
            s.armed = true;
            if (s.fate.leaves_group) {
                processes_[s.runner.index].group = 0;
            }
            // Its parent may have gone before it asked to be told.
            if (!outer_alive(s)) {
                runner_exits(index, kKilled);
                return;
            }
            read_input(index);
            return;
        case Step::read:
            read_input(index);
            return;
        case Step::claim:
            connect(index);
            return;
        case Step::retry:
            connect(index);
            return;
        case Step::work:
            work(index);
            return;
        case Step::life_over:
            runner_exits(index, s.fate.signal != 0 ? 128 + s.fate.signal : s.fate.exit_code);
            return;
        case Step::dies:
            runner_exits(index, s.fate.signal != 0 ? 128 + s.fate.signal : s.fate.exit_code);
            return;
        case Step::exits:
            runner_exits(index, static_cast<int>(wakeup.x));
            return;
        case Step::input_late:
            if (!s.read_cap && !s.fate.stuck_at_end && !s.warm) {
                runner_exits(index, runner_exit::kSessionInvalid);
            }
            return;
        case Step::reply: {
            const auto bits = static_cast<uint64_t>(wakeup.x);
            on_reply({.verb = static_cast<Verb>((bits >> 2U) & 63U),
                      .session = index,
                      .life = wakeup.b,
                      .ok = (bits & 1U) != 0,
                      .storage = (bits & 2U) != 0,
                      .message = bits >> 8U});
            return;
        }
        case Step::fork:
        case Step::outer_exits:
        case Step::outer_killed:
            return;
    }
}

void Sessions::broker_died() {
    for (uint32_t i = 0; i < sessions_.size(); ++i) {
        Session& s = sessions_[i];
        if (s.in_use && s.broker_epoch != 0) {
            leave_broker(s);
            later(i, Step::retry, kRetryUs);
        }
    }
}

void Sessions::close_connection(uint32_t run) {
    for (Session& s : sessions_) {
        if (s.in_use && s.run == run) {
            leave_broker(s);
        }
    }
}

void Sessions::host_died() {
    for (uint32_t i = 0; i < sessions_.size(); ++i) {
        Session& s = sessions_[i];
        if (!s.in_use) {
            continue;
        }
        close_input(i);
        const Process& outer = processes_[s.outer.index];
        if (outer.life == s.outer.life && outer.in_use && !outer.alive) {
            release_number(s.outer.index);
            recycle(i);
        }
    }
}

void Sessions::reboot() {
    for (uint32_t i = 0; i < processes_.size(); ++i) {
        if (!processes_[i].in_use) {
            continue;
        }
        if (processes_[i].alive && processes_[i].session != kNobody) {
            RunTruth& truth = world_.truth[sessions_[processes_[i].session].run];
            --truth.processes;
            truth.acting -= processes_[i].dying ? 0U : 1U;
        }
        release_number(i);
    }
    for (Session& s : sessions_) {
        s.in_use = false;
    }
    next_pid_ = 0;
}

void Sessions::plant_strangers(bool rebooted) {
    const auto left = registry::parse_sessions(world_.disk.sessions(), "sessions.json", "acme");
    if (!left) {
        return;
    }
    for (const registry::SessionEntry& entry : left->entries) {
        for (const bool outer : {true, false}) {
            const wire::ProcessIdentity& who = entry.process;
            const auto pid = static_cast<uint32_t>(outer ? who.pid : who.runner_pid);
            by_pid_.resize(world_.shape.pids, kNobody);
            if (by_pid_[pid - kFirstPid] != kNobody || !world_.fault(world_.faults.strangers)) {
                continue;
            }
            Process& p = processes_[make(Process::Kind::stranger, kNobody, pid).index];
            p.run = world_.chance.below(4) == 0 ? 0 : run_number(entry.run);
            // In another boot the same number may even have started at the same time of it; in one
            // boot a number comes again only after all others.
            const uint64_t before = std::stoull(outer ? who.start_time : who.runner_start_time);
            p.start = rebooted ? before : std::max(p.start, before + 1);
        }
    }
}

void Sessions::end_strangers() {
    for (uint32_t i = 0; i < processes_.size(); ++i) {
        if (processes_[i].in_use && processes_[i].kind == Process::Kind::stranger) {
            release_number(i);
        }
    }
}

// A runner that was sent SIGKILL runs no code of its own any more; an outer is waited for.
bool Sessions::counts(const Session& s) const {
    return outer_alive(s) || (runner_alive(s) && !processes_[s.runner.index].dying);
}

uint32_t Sessions::alive_of_seat(uint32_t seat) const {
    return static_cast<uint32_t>(
        std::count_if(sessions_.begin(), sessions_.end(), [&](const Session& s) {
            return s.in_use && s.seat == seat && counts(s) && !world_.truth[s.run].nobodys();
        }));
}

uint32_t Sessions::alive_of_model(uint32_t model) const {
    return static_cast<uint32_t>(
        std::count_if(sessions_.begin(), sessions_.end(), [&](const Session& s) {
            return s.in_use && s.seat % world_.shape.models == model && counts(s) &&
                   !world_.truth[s.run].nobodys();
        }));
}

uint32_t Sessions::alive_sessions() const {
    return static_cast<uint32_t>(
        std::count_if(sessions_.begin(), sessions_.end(), [&](const Session& s) {
            return s.in_use && counts(s);
        }));
}

uint32_t Sessions::some_launcher() const {
    const auto count = static_cast<uint32_t>(sessions_.size());
    if (count == 0) {
        return kNobody;
    }
    const uint32_t first = world_.chance.below(count);
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t at = (first + i) % count;
        const Session& s = sessions_[at];
        if (s.in_use && s.claimed && s.may_launch && runner_alive(s)) {
            return at;
        }
    }
    return kNobody;
}

}  // namespace mosaic::sim
