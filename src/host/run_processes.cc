// The effects of runs that touch files, processes, pipes, the broker and the logs.

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "host/failure.h"
#include "host/kill.h"
#include "host/log.h"
#include "host/runs.h"
#include "process/files.h"
#include "process/pidfd.h"
#include "process/proc.h"
#include "registry/launch_log.h"
#include "registry/layout.h"
#include "sandbox/binds.h"
#include "sandbox/worktree.h"

namespace mosaic::host {

using launch::Event;
using launch::EventKind;
using launch::Phase;

namespace {

constexpr uint64_t kRunnerLogHeadMax = uint64_t{64} * 1024;
constexpr uint64_t kRunnerLogTailMax = uint64_t{4} * 1024;
// Sessions go first when memory runs out, the host last.
constexpr int kSessionOomScore = 500;

struct Pipe {
    UniqueFd read;
    UniqueFd write;
};

// A gate is a socket because shutdown(2) ends it for good: the write end of a pipe lives on in
// every child that was cloned meanwhile and hasn't come to its exec.
Result<Pipe> make_gate() {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return fail_sys(errno, "socketpair");
    }
    return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<Pipe> make_pipe() {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) {
        return fail_sys(errno, "pipe");
    }
    return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

void Runs::prepare(uint32_t index) {
    RunSlot& s = slot(index);
    // Where the files go must still be where their paths lead, or a session would be given another
    // tree than the one that was written.
    if (const auto same = check_runs_directory(parts_.root, parts_.business); !same) {
        s.failure = same.error().text;
        parts_.loop.post(ref_of(index),
                         Event{EventKind::prepare_failed, Refusal::storage_unavailable});
        return;
    }
    s.files.start(*parts_.loop.ring, s.files_op, parts_.root.runs.get(), std::move(s.plan.files));
}

void Runs::on_files_done(uint32_t index) {
    RunSlot& s = slot(index);
    const auto progress = s.files.on_completion(*parts_.loop.ring, s.files_op);
    if (progress != FileJob::Progress::failed && s.files.has_kept()) {
        s.runner_log = s.files.take_kept();
        start_outer(index);
    }
    if (progress == FileJob::Progress::done) {
        parts_.loop.post(ref_of(index), EventKind::prepared);
    } else if (progress == FileJob::Progress::failed) {
        s.failure = "the run directory can't be made: " + s.files.error().text;
        parts_.loop.post(ref_of(index),
                         Event{EventKind::prepare_failed, refusal_of(s.files.error())});
    }
}

// bwrap is a dynamic program, and to be executed and linked takes it longer than the rest of the
// run directory takes us: it is started beside that, behind a gate. Behind it bwrap has done
// nothing yet and does nothing when it is killed there, so to the machine there is no process
// before the gate is opened; when this host dies the gate opens too, and the runner finds its stdin
// at its end.
void Runs::start_outer(uint32_t index) {
    RunSlot& s = slot(index);
    if (s.state.facts.cancelled) {
        return;
    }
    if (const auto started = start_behind_gate(s); !started) {
        drop_group(s);
        s.failure = started.error().text;
        return;
    }
    reactor::Ring& ring = *parts_.loop.ring;
    ring.poll(s.exit_op, s.outer_pidfd.get(), POLLIN);
    ring.poll(s.exec_op, s.child->exec_result(), POLLIN);
    ring.read(s.status_op, s.status_pipe.get(), s.status_buffer.data(), s.status_buffer.size());
}

// Opens the gate, once bwrap has been executed: its score for when memory runs out is written then,
// and what it forks behind the gate inherits that.
void Runs::spawn(uint32_t index) {
    RunSlot& s = slot(index);
    s.spawned_at = parts_.loop.awake();
    if (!s.outer_pidfd.valid()) {
        parts_.loop.post(ref_of(index), EventKind::start_failed);
        return;
    }
    if (!s.exec_op.idle()) {
        s.gate_wanted = true;
        return;
    }
    open_gate(index);
}

void Runs::open_gate(uint32_t index) {
    RunSlot& s = slot(index);
    ::shutdown(s.gate.get(), SHUT_RDWR);
    s.gate.reset();
    s.spawned = true;
    parts_.loop.post(ref_of(index), EventKind::started);
    report_exit(index);
}

Result<void> Runs::start_behind_gate(RunSlot& s) {
    MOSAIC_TRY_ASSIGN(Pipe input, make_pipe());
    MOSAIC_TRY_ASSIGN(Pipe gate, make_gate());
    MOSAIC_TRY_ASSIGN(Pipe status, make_pipe());
    process::SpawnSpec spec;
    spec.path = s.plan.argv.front();
    spec.argv = s.plan.argv;
    spec.env = s.plan.env;
    spec.descriptors = {{input.read.get(), 0},
                        {s.runner_log.get(), 1},
                        {s.runner_log.get(), 2},
                        {status.write.get(), sandbox::kStatusFd},
                        {s.plan.workspace_fd.get(), sandbox::kWorkspaceFd},
                        {s.plan.seccomp_fd.get(), sandbox::kSeccompFd},
                        {gate.read.get(), sandbox::kGateFd}};
    for (size_t i = 0; i < s.plan.git_fds.size(); ++i) {
        spec.descriptors.emplace_back(s.plan.git_fds[i].get(),
                                      sandbox::kGitFdFirst + static_cast<int>(i));
    }
    spec.new_keyring = true;
    spec.oom_score_adj = kSessionOomScore;
    spec.until_exec_fd = parts_.root.lock.get();
    UniqueFd group;
    if (parts_.groups.on()) {
        MOSAIC_TRY_ASSIGN(group, parts_.groups.make(s.run, s.plan.group_limits));
        s.has_group = true;
        spec.control_group_fd = group.get();
    }
    const Instant before = monotonic_now();
    auto spawned = process::spawn(spec);
    parts_.loop.counts.spawn.observe(monotonic_now() - before);
    MOSAIC_TRY_ASSIGN(process::Spawned child, std::move(spawned));
    s.process.pid = child.pid();
    // The child can't be reaped by anybody else, so its stat is its own even after its death.
    if (const auto stat = process::read_stat(child.pid())) {
        s.process.start_time = stat->start_time;
    }
    s.child.emplace(std::move(child));
    s.outer_pidfd = s.child->take_pidfd();
    s.gate = std::move(gate.write);
    s.stdin_pipe = std::move(input.write);
    s.status_pipe = std::move(status.read);
    s.status_over = false;
    // The child has a table of descriptors of its own, so ours of its ends can go at once.
    s.plan.workspace_fd.reset();
    s.plan.git_fds.clear();
    s.plan.seccomp_fd.reset();
    s.runner_log.reset();
    return {};
}

void Runs::on_exec(uint32_t index) {
    RunSlot& s = slot(index);
    const auto started = s.child->finish_exec();
    if (started) {
        s.child.reset();  // its stack and its copies of the arguments
    } else {
        s.failure = "sandbox: " + started.error().text;
        sandbox_doubt_ = true;
    }
    if (std::exchange(s.gate_wanted, false)) {
        open_gate(index);
    }
}

void Runs::on_status(uint32_t index) {
    RunSlot& s = slot(index);
    const int result = s.status_op.result();
    if (result <= 0) {
        s.status_over = true;
        report_exit(index);
        return;
    }
    const auto fed = s.status.feed({s.status_buffer.data(), static_cast<size_t>(result)});
    if (!fed && s.failure.empty()) {
        s.failure = "bwrap's status: " + fed.error().text;
    }
    if (s.status.child_pid() && s.process.runner_pid == 0) {
        find_runner_of(index);
    }
    parts_.loop.ring->read(
        s.status_op, s.status_pipe.get(), s.status_buffer.data(), s.status_buffer.size());
}

// The pid from the status pipe is only a number: it is pinned by a pidfd, then checked to be what
// bwrap made, while the outer still lives and so the number can't have been used again.
void Runs::find_runner_of(uint32_t index) {
    RunSlot& s = slot(index);
    const pid_t pid = *s.status.child_pid();
    s.process.runner_pid = pid;
    auto pidfd = process::open_pidfd(pid);
    const auto stat = process::read_stat(pid);
    const auto numbers = process::read_ns_pids(pid);
    const bool ours = pidfd && stat && stat->parent == s.process.pid && stat->state != 'Z' &&
                      numbers.size() > 1 && numbers.back() == 1 &&
                      !process::has_exited(s.outer_pidfd.get());
    if (!ours) {
        s.failure = "the runner was gone before it was known";
        kill(s);
        return;
    }
    s.process.runner_start_time = stat->start_time;
    s.runner_pidfd = std::move(*pidfd);
    s.found = true;
    parts_.loop.post(ref_of(index), EventKind::runner_found);
}

void Runs::kill(RunSlot& s) {
    SessionProcesses session;
    session.runner_pidfd = s.runner_pidfd.get();
    if (s.outer_pidfd.valid() && !s.reaped) {
        session.outer_pidfd = s.outer_pidfd.get();
        session.group = static_cast<pid_t>(s.process.pid);
    }
    kill_session(session);
    if (s.has_group) {
        parts_.groups.kill(s.run);
    }
}

void Runs::on_exit(uint32_t index) {
    RunSlot& s = slot(index);
    kill(s);
    const auto exit = process::reap(s.outer_pidfd.get());
    if (!exit) {
        log_line("run " + s.run + ": " + exit.error().text);
    }
    s.exit = exit.value_or(process::Exit{});
    s.reaped = true;
    report_exit(index);
}

// The exit counts when both are there: the reaped outer and the end of its status pipe, which come
// in either order.
void Runs::report_exit(uint32_t index) {
    RunSlot& s = slot(index);
    if (!s.spawned || !s.reaped || !s.status_over) {
        return;
    }
    std::string error_line;
    const bool never_ran = s.exit.signal == 0 && s.exit.exit_code != 0 && !s.status.exit_code();
    if (never_ran) {
        const auto text =
            process::read_file_beneath(parts_.root.runs.get(),
                                       s.run + "/" + std::string(registry::kRunnerLog),
                                       kRunnerLogHeadMax);
        error_line = text ? sandbox::first_error_line(*text) : std::string();
    }
    const sandbox::End end = sandbox::map_exit(s.exit, s.status.exit_code(), error_line);
    // A runner that gives up says why as its last words.
    std::string last_words;
    if (!never_ran && end.exit_code.value_or(0) != 0) {
        const auto text =
            process::read_tail_beneath(parts_.root.runs.get(),
                                       s.run + "/" + std::string(registry::kRunnerLog),
                                       kRunnerLogTailMax);
        last_words = text ? sandbox::last_line(*text) : std::string();
    }
    s.end_exit_code.reset();
    if (end.exit_code) {
        s.end_exit_code = *end.exit_code;
    }
    s.end_signal = end.signal;
    s.end_detail = end.detail;
    if (s.has_group && end.reason == EndReason::killed && end.detail.empty() &&
        parts_.groups.out_of_memory_kills(s.run) > 0) {
        s.end_detail = "memory";
    }
    drop_group(s);
    const bool sandbox_failed = end.detail.starts_with("sandbox");
    sandbox_doubt_ = sandbox_doubt_ || sandbox_failed;
    if (sandbox_failed && !s.failure.starts_with("sandbox: ")) {
        s.failure = end.detail;
    } else if (s.failure.empty() && s.state.phase < Phase::live) {
        s.failure = "the session ended: " + std::string(to_string(end.reason)) +
                    (end.signal.empty() ? "" : " by " + end.signal) +
                    (last_words.empty() ? "" : " (" + last_words + ")");
    } else if (s.state.phase == Phase::live && s.end_detail.empty()) {
        s.end_detail = last_words;
    }
    parts_.loop.post(ref_of(index), Event{EventKind::exited, Refusal::launch_failed, end.reason});
}

void Runs::bind(uint32_t index) {
    const RunSlot& s = slot(index);
    wire::BindLaunchArgs args;
    args.seat = s.plan.seat;
    args.run = s.run;
    args.harness = s.plan.route.harness;
    args.provider = s.plan.route.provider;
    args.model = s.plan.route.model;
    args.launched_by = s.plan.launched_by;
    args.transcript = s.plan.transcript;
    args.process = s.process;
    parts_.broker.bind(ref_of(index), args);
}

void Runs::record(uint32_t index) {
    parts_.store.add(entry_of(slot(index)), ref_of(index));
}

registry::SessionEntry Runs::entry_of(const RunSlot& s) const {
    registry::SessionEntry entry;
    entry.business = parts_.business;
    entry.seat = s.plan.seat;
    entry.run = s.run;
    entry.run_dir = s.plan.run_dir;
    entry.process = s.process;
    entry.harness = s.plan.route.harness;
    entry.provider = s.plan.route.provider;
    entry.model = s.plan.route.model;
    entry.warm = s.state.facts.warm;
    if (!entry.warm) {
        entry.launched_by = s.plan.launched_by;
        entry.at = iso8601(wall_clock_ms());
    }
    return entry;
}

void Runs::deliver(uint32_t index) {
    RunSlot& s = slot(index);
    s.capability_written = 0;
    parts_.loop.ring->write(
        s.stdin_op, s.stdin_pipe.get(), s.capability_line.data(), s.capability_line.size());
}

void Runs::on_stdin_done(uint32_t index) {
    RunSlot& s = slot(index);
    const int result = s.stdin_op.result();
    if (result < 0) {
        s.failure = "the capability can't be written: " + errno_text(-result);
        close_capability(s);
        parts_.loop.post(ref_of(index), EventKind::deliver_failed);
        return;
    }
    s.capability_written += static_cast<size_t>(result);
    if (s.capability_written < s.capability_line.size()) {
        parts_.loop.ring->write(s.stdin_op,
                                s.stdin_pipe.get(),
                                s.capability_line.data() + s.capability_written,
                                s.capability_line.size() - s.capability_written);
        return;
    }
    close_capability(s);
    parts_.loop.post(ref_of(index), EventKind::delivered);
}

void Runs::close_capability(RunSlot& s) {
    wipe(s.capability_line);
    s.stdin_pipe.reset();
}

void Runs::end_at_broker(uint32_t index) {
    RunSlot& s = slot(index);
    wire::EndLaunchArgs args;
    args.seat = s.plan.seat;
    args.run = s.run;
    args.reason = s.state.reason;
    args.exit_code = s.end_exit_code;
    args.signal = s.end_signal;
    args.detail = s.end_detail.empty() ? s.stop_detail : s.end_detail;
    // A launch that failed says at which stage, and why.
    if (args.detail.empty() && (!s.state.facts.claimed || s.state.reason == EndReason::failed) &&
        !s.failure.empty()) {
        args.detail = std::string(to_string(s.state.failed_in)) + ": " + s.failure;
    }
    args.process = s.process;
    args.harness = s.plan.route.harness;
    parts_.broker.end(ref_of(index), args);
}

void Runs::reply_launched(RunSlot& s) {
    went_live_ = true;
    wire::LaunchResult result{
        s.run, s.plan.seat.instance, s.plan.route.harness, s.plan.route.model};
    if (s.caller.kind == Caller::Kind::session) {
        parts_.clients.answer(s.caller.client, s.caller.number, wire::encode_launch_reply(result));
        return;
    }
    answers_.push_back(HumanAnswer{s.caller, std::move(result), Refusal::launch_failed, ""});
}

void Runs::answer_refusal(const Caller& caller,
                          Refusal code,
                          const std::string& decision,
                          const std::string& reason) {
    parts_.loop.counts.refuse(code);
    if (caller.kind == Caller::Kind::session) {
        parts_.clients.answer(
            caller.client, caller.number, wire::encode_launch_refusal(code, decision, ""));
        return;
    }
    answers_.push_back(HumanAnswer{caller, std::nullopt, code, reason});
}

void Runs::refuse(const Ask& ask, Refusal code, const std::string& reason) {
    registry::RefusedLine line;
    line.at = iso8601(wall_clock_ms());
    line.code = code;
    line.seat = ask.target;
    line.reason = reason;
    line.by = ask.caller.name;
    parts_.log.append(registry::encode(line));
    parts_.broker.refuse({ask.target, std::string(to_string(code)), reason, ask.caller.name});
    answer_refusal(ask.caller, code, "", reason);
}

void Runs::log_launch(const RunSlot& s) {
    const auto us = [&](Stage stage) {
        return to_us(s.stage_at[static_cast<size_t>(stage)] - s.asked_at);
    };
    parts_.loop.counts.launch(s.asked_at, s.stage_at, s.was_warm);
    registry::LaunchLine line;
    line.at = iso8601(wall_clock_ms());
    line.seat = s.plan.seat;
    line.run = s.run;
    line.launched_by = s.plan.launched_by;
    line.harness = s.plan.route.harness;
    line.provider = s.plan.route.provider;
    line.model = s.plan.route.model;
    line.stages = {us(Stage::checked),
                   us(Stage::authorized),
                   us(Stage::prepared),
                   us(Stage::spawned),
                   us(Stage::bound),
                   us(Stage::persisted),
                   us(Stage::delivered),
                   us(Stage::claimed)};
    parts_.log.append(registry::encode(line));
    log_line("launched " + describe(s.plan.seat) + " as " + s.run + " in " +
             std::to_string(us(Stage::claimed) / 1000) + " ms" +
             (s.was_warm ? ", from a warm seat" : ""));
}

void Runs::log_refused(const RunSlot& s) {
    const std::string reason = failure_text(s, parts_.limits.setup_wait_ms);
    registry::RefusedLine line;
    line.at = iso8601(wall_clock_ms());
    line.code = s.state.refusal;
    line.seat = s.plan.seat;
    line.reason = reason;
    line.by = s.caller.name;
    parts_.log.append(registry::encode(line));
    log_line("refused " + describe(s.plan.seat) + " for " + s.caller.name + ": " +
             std::string(to_string(s.state.refusal)) + " (" + reason + ")");
    // The broker has recorded its own refusals; the rest it learns from us.
    const bool brokers_own = s.state.refusal == Refusal::launch_revoked ||
                             s.state.refusal == Refusal::not_authorized ||
                             s.state.refusal == Refusal::decision_required;
    if (!brokers_own) {
        parts_.broker.refuse(
            {s.plan.seat, std::string(to_string(s.state.refusal)), reason, s.caller.name});
    }
}

// Also of an end that the broker had on record already: it was this run's own, and its answer was
// lost with an earlier broker.
void Runs::log_end(const RunSlot& s) {
    parts_.loop.counts.end(s.end_reason);
    registry::EndLine line;
    line.at = iso8601(wall_clock_ms());
    line.seat = s.plan.seat;
    line.run = s.run;
    line.reason = s.end_reason;
    line.exit_code = s.end_exit_code;
    line.signal = s.end_signal;
    line.detail = s.end_detail;
    parts_.log.append(registry::encode(line));
    log_line("ended " + describe(s.plan.seat) + " " + s.run + ": " +
             std::string(to_string(line.reason)) +
             (line.detail.empty() ? "" : " (" + line.detail + ")"));
}

}  // namespace mosaic::host
