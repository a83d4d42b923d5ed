#include "runner/turn.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "process/pidfd.h"
#include "process/write_all.h"
#include "runner/environment.h"
#include "runner/log.h"
#include "runner/turn_text.h"
#include "wire/limits.h"

namespace mosaic::runner {
namespace {

// What NNNN.stderr may hold: a session must not fill the disk through its runner.
constexpr uint64_t kErrorFileBytesMax = uint64_t{1024} * 1024;
// What is remembered of standard error for the reply of a failed turn.
constexpr size_t kErrorTailBytes = size_t{8} * 1024;
constexpr size_t kReadBytes = size_t{16} * 1024;
// Rounds of reading after the end: what the pipes hold when nobody writes any more, however large a
// session made them (F_SETPIPE_SZ goes to 1 MiB), and an end when somebody does.
constexpr int kLastReadsMax = 128;
// Killed processes are gone within milliseconds; one that hangs in the kernel is left to the
// reaper.
constexpr Duration kSweep = seconds(2);
// How often a marker is looked for that inotify(7) doesn't tell of.
constexpr Duration kMarkerLook = milliseconds(200);

struct Pipe {
    UniqueFd read_end;  // non-blocking
    UniqueFd write_end;
};

Result<Pipe> make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return fail_sys(errno, "pipe");
    }
    Pipe out{UniqueFd(ends[0]), UniqueFd(ends[1])};
    if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) {
        return fail_sys(errno, "pipe");
    }
    return out;
}

// The body as a file to read from the start: nothing has to feed a pipe, whatever the adapter does.
Result<UniqueFd> body_file(std::string_view body) {
    UniqueFd fd(::memfd_create("message", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd.valid()) {
        return fail_sys(errno, "memfd_create");
    }
    MOSAIC_TRY(process::write_all(fd.get(), body, "write"));
    if (::lseek(fd.get(), 0, SEEK_SET) != 0 ||
        ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) != 0) {
        return fail_sys(errno, "the message's body as standard input");
    }
    return fd;
}

// Reads once. Nothing: the pipe is at its end or broken.
std::optional<std::string_view> read_once(int fd, std::array<char, kReadBytes>& bytes) {
    const ssize_t n = ::read(fd, bytes.data(), bytes.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return std::string_view();
    }
    if (n <= 0) {
        return std::nullopt;
    }
    return std::string_view(bytes.data(), static_cast<size_t>(n));
}

// pid 1's kill(-1) reaches exactly its namespace; anybody else's would reach half the machine.
bool owns_namespace() {
    return ::getpid() == 1;
}

std::string exit_cause(const siginfo_t& how) {
    if (how.si_code == CLD_EXITED) {
        return how.si_status == 0
                   ? std::string()
                   : "the adapter exited with status " + std::to_string(how.si_status);
    }
    return "the adapter was ended by " + process::signal_name(how.si_status);
}

}  // namespace

Turn::Turn(TurnSetting& setting, wire::Message message)
    : setting_(setting), message_(std::move(message)) {}

void Turn::start(const wire::StateFacts& state, Instant now) {
    turn_until_ = now + seconds(setting_.session.limits.turn_seconds);
    if (setting_.session.turn_end == wire::TurnEnd::marker && setting_.marker.fd() < 0) {
        look_at_ = now + kMarkerLook;
    }
    if (auto prepared = prepare(state); !prepared) {
        cause_ = "it could not be started: " + prepared.error().text;
        finish();
    }
}

Result<void> Turn::prepare(const wire::StateFacts& state) {
    const wire::SessionFile& session = setting_.session;
    if (session.turn_end == wire::TurnEnd::marker) {
        MOSAIC_TRY(setting_.marker.clear());
    }
    MOSAIC_TRY_ASSIGN(files_,
                      make_turn_files(setting_.directory.turns.get(), setting_.next_number));
    const std::string request = request_text(message_, state);
    MOSAIC_TRY(process::write_all(files_.request.get(), request, "write"));
    files_.request.reset();

    MOSAIC_TRY_ASSIGN(Pipe output, make_pipe());
    MOSAIC_TRY_ASSIGN(Pipe error, make_pipe());
    UniqueFd input;
    process::SpawnSpec spec;
    spec.path = "/bin/sh";
    spec.argv = {"sh", session.adapter};
    const std::string request_file =
        setting_.directory.path + "/rw/turns/" + files_.number + ".request";
    spec.env = turn_environment(
        setting_.environment, {session, message_, setting_.directory.path, request, request_file});
    spec.descriptors = {{output.write_end.get(), 1}, {error.write_end.get(), 2}};
    if (session.turn_input == wire::TurnInput::body) {
        MOSAIC_TRY_ASSIGN(input, body_file(message_.body));
        spec.descriptors.emplace_back(input.get(), 0);
    }
    spec.directory = session.workspace;
    spec.landlock_scope_fd = setting_.scope_ruleset;
    spec.parent_death_kill = true;
    MOSAIC_TRY_ASSIGN(process::Spawned spawned, process::spawn(spec));
    adapter_ = spawned.pid();
    // The child is between clone and exec in our memory and on our descriptor numbers' copies:
    // closing ours now takes nothing from it.
    spawned_.emplace(std::move(spawned));
    output_ = std::move(output.read_end);
    error_ = std::move(error.read_end);
    return {};
}

void Turn::adapter_exited(const siginfo_t& how, Instant now) {
    kill();
    settle_exec();
    if (cause_.empty() && !marked_) {
        marked_ = setting_.session.turn_end == wire::TurnEnd::marker && setting_.marker.there();
        cause_ = marked_ ? std::string() : exit_cause(how);
    }
    adapter_ = 0;
    phase_ = Phase::sweeping;
    kill_at_.reset();
    sweep_until_ = owns_namespace() ? now + kSweep : now;
}

void Turn::add_to(PollSet& polls) const {
    if (phase_ == Phase::done) {
        return;
    }
    if (spawned_ && !executed_) {
        polls.add(spawned_->exec_result(), POLLIN);
    }
    polls.add(output_.get(), POLLIN);
    polls.add(error_.get(), POLLIN);
    if (phase_ == Phase::running) {
        polls.add(setting_.marker.fd(), POLLIN);
    }
}

void Turn::work(const PollSet& polls, Instant now) {
    if (spawned_ && !executed_ && polls.ready(spawned_->exec_result()) != 0) {
        settle_exec();
        if (!cause_.empty()) {
            // The child has exited by itself; the reaper takes it like an orphan.
            adapter_ = 0;
            finish();
        }
    }
    if (phase_ == Phase::done) {
        return;
    }
    if (polls.ready(output_.get()) != 0) {
        read_output();
    }
    if (polls.ready(error_.get()) != 0) {
        read_error();
    }
    look_for_marker(polls.ready(setting_.marker.fd()) != 0, now);
    if (phase_ == Phase::running && now >= *turn_until_) {
        end("it ran longer than " + std::to_string(setting_.session.limits.turn_seconds) +
                " seconds and was ended",
            now);
    }
    if (kill_at_ && now >= *kill_at_) {
        kill_at_.reset();
        kill();
    }
    if (phase_ == Phase::sweeping && (nothing_left_ || now >= *sweep_until_)) {
        finish();
    }
}

void Turn::look_for_marker(bool changed, Instant now) {
    if (phase_ != Phase::running) {
        return;
    }
    if (changed) {
        setting_.marker.drain();
    } else if (look_at_ && now >= *look_at_) {
        look_at_ = now + kMarkerLook;
    } else {
        return;
    }
    if (setting_.marker.there()) {
        marked_ = true;
        end("", now);
    }
}

std::optional<Instant> Turn::deadline() const {
    switch (phase_) {
        case Phase::running:
            return look_at_ ? std::min(*look_at_, *turn_until_) : turn_until_;
        case Phase::ending:
            return kill_at_;
        case Phase::sweeping:
            return sweep_until_;
        case Phase::done:
            return std::nullopt;
    }
    return std::nullopt;
}

void Turn::stop(Instant now) {
    if (phase_ == Phase::running) {
        end("the session was stopped", now);
    }
}

void Turn::kill() {
    if (adapter_ == 0) {
        return;
    }
    if (owns_namespace()) {
        ::kill(-1, SIGKILL);
    } else if (::kill(-adapter_, SIGKILL) != 0) {
        ::kill(adapter_, SIGKILL);  // it has no group of its own yet
    }
}

void Turn::settle_exec() {
    if (executed_) {
        return;
    }
    executed_ = true;
    if (auto started = spawned_->finish_exec(); !started) {
        cause_ = "it could not be started: " + started.error().text;
    }
}

void Turn::read_output() {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): read_once fills it
    std::array<char, kReadBytes> bytes;
    const auto piece = read_once(output_.get(), bytes);
    if (!piece) {
        output_.reset();
        return;
    }
    const auto limit = std::min(static_cast<size_t>(setting_.session.limits.reply_bytes),
                                limits::kMessageBodyBytesMax);
    output_bytes_ += piece->size();
    kept_ += piece->substr(0, limit - std::min(limit, kept_.size()));
}

void Turn::read_error() {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): read_once fills it
    std::array<char, kReadBytes> bytes;
    const auto piece = read_once(error_.get(), bytes);
    if (!piece) {
        error_.reset();
        return;
    }
    const uint64_t room = kErrorFileBytesMax - std::min(kErrorFileBytesMax, error_bytes_);
    error_bytes_ += piece->size();
    ignore(process::write_all(files_.error.get(), piece->substr(0, room), "write"),
           "a full disk ends no turn");
    error_tail_ += *piece;
    if (error_tail_.size() > 2 * kErrorTailBytes) {
        error_tail_.erase(0, error_tail_.size() - kErrorTailBytes);
    }
}

void Turn::end(std::string cause, Instant now) {
    cause_ = std::move(cause);
    phase_ = Phase::ending;
    kill_at_ = now + milliseconds(setting_.session.limits.turn_grace_ms);
    if (adapter_ != 0 && ::kill(-adapter_, SIGTERM) != 0) {
        ::kill(adapter_, SIGTERM);
    }
}

void Turn::finish() {
    for (int i = 0; i < kLastReadsMax && (output_.valid() || error_.valid()); ++i) {
        const uint64_t before = output_bytes_ + error_bytes_;
        if (output_.valid()) {
            read_output();
        }
        if (error_.valid()) {
            read_error();
        }
        if (output_bytes_ + error_bytes_ == before) {
            break;
        }
    }
    output_.reset();
    error_.reset();
    spawned_.reset();
    if (files_.reply.valid()) {
        ignore(process::write_all(files_.reply.get(), kept_, "write"), "a full disk ends no turn");
    }
    if (cause_.empty()) {
        reply_ = reply_body(kept_, output_bytes_);
    } else {
        log_line("turn " + files_.number + " for message " + message_.id + ": " + cause_);
        reply_ = failure_body(cause_, error_tail_);
    }
    kept_ = {};
    error_tail_ = {};
    files_ = {};
    phase_ = Phase::done;
}

}  // namespace mosaic::runner
