#include "runner/session.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "runner/bus.h"
#include "runner/capability.h"
#include "runner/idle_memory.h"
#include "runner/landlock.h"
#include "runner/launch_link.h"
#include "runner/log.h"
#include "runner/mailbox.h"
#include "runner/poll_set.h"
#include "runner/process_limits.h"
#include "runner/run_directory.h"
#include "runner/tool_server.h"
#include "runner/tools.h"
#include "runner/turn.h"
#include "wire/codes.h"

namespace mosaic::runner {
namespace {

// How long the broker may take to hear that the role is free again.
constexpr Duration kRelease = seconds(1);
// Past the grace of a turn, for what is being killed to be gone.
constexpr Duration kStopSlack = seconds(2);
// From the last turn, or the claim, until nothing more is expected to come right away.
constexpr Duration kIdleAfter = seconds(1);
// Zombies taken in one round, so that a flood of them keeps nothing else waiting.
constexpr int kReapsPerRound = 256;

class Session {
  public:
    Session(Loaded loaded, const CapabilityPage& capability, UniqueFd signals)
        : loaded_(std::move(loaded)),
          signals_(std::move(signals)),
          bus_({loaded_.session.broker_socket,
                loaded_.session.run,
                loaded_.session.limits.broker_retries},
               capability),
          launches_(loaded_.session.launch_socket, capability),
          server_(loaded_.session.typed),
          tools_(server_, bus_, launches_),
          mailbox_(bus_),
          setting_{loaded_.directory, loaded_.session, environ, -1, {}, 1} {}

    int run();

  private:
    void round();
    void prepare_turns();
    void take_signals();
    void reap();
    void take_replies(Instant now);
    void move_on(Instant now);
    void begin_stop(Instant now);
    void move_stop_on(Instant now);
    void give_up(int code, const std::string& why);
    [[nodiscard]] std::optional<Instant> deadline() const;

    Loaded loaded_;
    UniqueFd signals_;
    Bus bus_;
    LaunchLink launches_;
    ToolServer server_;
    Tools tools_;
    Mailbox mailbox_;
    UniqueFd scope_;
    TurnSetting setting_;
    std::optional<Turn> turn_;
    PollSet polls_;
    bool prepared_ = false;
    std::optional<Instant> idle_at_;  // when what the last work touched is given back
    bool reap_more_ = false;
    bool stopping_ = false;
    Instant stop_until_;
    int64_t release_id_ = 0;
    std::optional<Instant> release_until_;
    std::optional<int> exit_code_;
};

int Session::run() {
    while (!exit_code_) {
        round();
    }
    if (turn_) {
        turn_->kill();
    }
    if (prepared_) {
        ::unlinkat(loaded_.directory.io.get(), "tools.sock", 0);
    }
    return *exit_code_;
}

void Session::round() {
    bus_.work(monotonic_now());
    polls_.clear();
    polls_.add(signals_.get(), POLLIN);
    bus_.add_to(polls_);
    launches_.add_to(polls_);
    server_.add_to(polls_);
    if (turn_) {
        turn_->add_to(polls_);
    }
    polls_.wait(deadline());

    const Instant now = monotonic_now();
    // Signals first in every round, and every part below does a bounded piece of work: SIGTERM is
    // never behind more than that.
    if (polls_.ready(signals_.get()) != 0) {
        take_signals();
    }
    if (reap_more_) {
        reap();
    }
    if (turn_) {
        turn_->work(polls_, now);
    }
    take_replies(now);
    for (const ToolServer::Pending& call : server_.work(polls_)) {
        tools_.start(call);
    }
    launches_.work(polls_);
    tools_.take_launches();
    tools_.expire(now);
    move_on(now);
}

std::optional<Instant> Session::deadline() const {
    const bool over = bus_.state() == Bus::State::exhausted && !stopping_;
    if (reap_more_ || server_.pending() || over) {
        return Instant{};
    }
    std::optional<Instant> first = earlier(bus_.next_attempt(), tools_.deadline());
    if (turn_) {
        first = earlier(first, turn_->deadline());
    }
    if (stopping_) {
        return earlier(earlier(first, stop_until_), release_until_);
    }
    if (!turn_) {
        first = earlier(first, idle_at_);
    }
    return earlier(first, mailbox_.deadline());
}

// All that must be in place before a session's program runs for the first time: from then on paths
// belong to it.
void Session::prepare_turns() {
    prepared_ = true;
    launches_.prepare();
    if (auto listening = server_.listen(loaded_.directory.io.get()); !listening) {
        log_line("no tools: " + listening.error().text);
    }
    scope_ = make_scope_ruleset();
    setting_.scope_ruleset = scope_.get();
    if (loaded_.session.turn_end == wire::TurnEnd::marker) {
        const std::string& path = loaded_.session.turn_marker;
        const std::string name = path.substr(path.find_last_of('/') + 1);
        if (auto watched = setting_.marker.watch(loaded_.directory.io.get(), name); !watched) {
            log_line("the end of a turn is looked for every now and then: " + watched.error().text);
        }
    }
}

void Session::take_signals() {
    std::array<signalfd_siginfo, 8> signals{};
    const ssize_t n = ::read(signals_.get(), signals.data(), sizeof(signals));
    const size_t count = n > 0 ? static_cast<size_t>(n) / sizeof(signalfd_siginfo) : 0;
    for (size_t i = 0; i < count; ++i) {
        if (signals[i].ssi_signo == SIGCHLD) {
            reap_more_ = true;
        } else {
            begin_stop(monotonic_now());
        }
    }
}

// Takes every zombie: as pid 1 also those whose parents have died. The adapter's is looked at
// before it is taken.
void Session::reap() {
    for (int i = 0; i < kReapsPerRound; ++i) {
        siginfo_t how{};
        const int found = ::waitid(P_ALL, 0, &how, WEXITED | WNOHANG | WNOWAIT | __WALL);
        if (found != 0 || how.si_pid == 0) {
            reap_more_ = false;
            if (found != 0 && errno == ECHILD && turn_) {
                turn_->nothing_left();
            }
            return;
        }
        if (turn_ && how.si_pid == turn_->adapter()) {
            turn_->adapter_exited(how, monotonic_now());
        }
        ::waitid(P_PID, static_cast<id_t>(how.si_pid), nullptr, WEXITED | WNOHANG | __WALL);
    }
}

void Session::take_replies(Instant now) {
    for (const wire::Reply& reply : bus_.read(polls_, now)) {
        if (reply.id == release_id_) {
            exit_code_ = runner_exit::kStopped;
        } else if (!mailbox_.take(reply, now) && !tools_.take(reply, now)) {
            log_line("a reply to no request of ours");
        }
    }
}

void Session::move_on(Instant now) {
    if (bus_.claims() > 0 && !prepared_) {
        print_line("claimed by run " + loaded_.session.run);
        prepare_turns();
        idle_at_ = now + kIdleAfter;
    }
    if (stopping_) {
        move_stop_on(now);
        return;
    }
    if (bus_.state() == Bus::State::refused || mailbox_.dead()) {
        give_up(runner_exit::kClaimRefused,
                mailbox_.dead() ? "the run was ended elsewhere" : bus_.problem());
        return;
    }
    if (bus_.state() == Bus::State::exhausted) {
        give_up(runner_exit::kBrokerUnreachable, bus_.problem());
        return;
    }
    for (wire::MessageReceiveResult& late : tools_.take_late()) {
        mailbox_.add_late(std::move(late));
    }
    if (turn_ && turn_->phase() == Turn::Phase::done) {
        mailbox_.finished(turn_->take_reply());
        turn_.reset();
        idle_at_ = now + kIdleAfter;
    }
    if (prepared_) {
        mailbox_.work(now);
    }
    if (!turn_ && idle_at_ && now >= *idle_at_) {
        idle_at_.reset();
        give_back_memory();
    }
    if (!turn_) {
        if (auto next = mailbox_.take_next()) {
            turn_.emplace(setting_, std::move(next->message));
            turn_->start(next->state, now);
        }
    }
}

void Session::begin_stop(Instant now) {
    if (stopping_) {
        return;
    }
    stopping_ = true;
    const int64_t grace_ms = loaded_.session.limits.turn_grace_ms;
    stop_until_ = now + milliseconds(grace_ms) + kStopSlack;
    if (turn_) {
        turn_->stop(now);
    }
}

void Session::move_stop_on(Instant now) {
    const bool turn_over = !turn_ || turn_->phase() == Turn::Phase::done || now >= stop_until_;
    if (!turn_over) {
        return;
    }
    if (!release_until_) {
        release_until_ = now + kRelease;
        stop_until_ = *release_until_;
        mailbox_.close();
        if (bus_.state() == Bus::State::claimed) {
            release_id_ = bus_.request("role.release", json::Value(json::Object{}));
        }
    }
    if (bus_.state() != Bus::State::claimed || now >= *release_until_) {
        exit_code_ = runner_exit::kStopped;
    }
}

void Session::give_up(int code, const std::string& why) {
    log_line(why);
    exit_code_ = code;
}

// First of all: nobody who isn't root may look into this process from here on.
void harden() {
    ignore(::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "can't fail for 0");
    // As pid 1 of a namespace this is how the session ends when its outer process is gone.
    ignore(::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "can't fail for a valid signal");
    ignore(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "can't fail since Linux 3.5");
}

// SIGTERM and SIGCHLD are blocked and come by descriptor; a blocked signal is also one that pid 1
// doesn't ignore (TRAP-21). At first the descriptor tells of SIGTERM only.
Result<UniqueFd> take_over_signals() {
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigset_t told = blocked;
    sigaddset(&blocked, SIGCHLD);
    ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
    ::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c): both can't fail
    ::signal(SIGCHLD, SIG_DFL);  // NOLINT(cert-err33-c): TRAP-05
    UniqueFd fd(::signalfd(-1, &told, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd.valid()) {
        return fail_sys(errno, "signalfd");
    }
    return fd;
}

// From here on also of children: while the capability is awaited an orphan's end is nobody's
// concern.
void tell_of_children(int signals) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    ignore(::signalfd(signals, &set, 0), "can't fail for a signalfd");
}

// Standard input has nothing more to say; /dev/null in its place frees the pipe.
void close_input(int input) {
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (null.valid()) {
        ::dup3(null.get(), input, input > 2 ? O_CLOEXEC : 0);
    }
}

}  // namespace

int run_session(const SessionOptions& options) {
    go_first_when_memory_runs_out();
    harden();
    auto signals = take_over_signals();
    if (!signals) {
        log_line(signals.error().text);
        return runner_exit::kFailed;
    }
    const std::string forbidden = forbidden_variables(environ);
    if (!forbidden.empty()) {
        log_line("these variables must not be in a session's environment: " + forbidden);
        return runner_exit::kFounderCredentials;
    }
    auto loaded = load_run(options.run_directory);
    if (!loaded) {
        log_line(loaded.error().text);
        return runner_exit::kSessionInvalid;
    }
    set_process_limits(loaded->session.limits);
    CapabilityPage capability;
    CapabilitySource source{options.input, signals->get(), options.capability_deadline};
    if (loaded->session.warm) {
        source.deadline.reset();
    }
    auto read = read_capability(source, capability);
    if (!read) {
        log_line(read.error().text);
        return runner_exit::kSessionInvalid;
    }
    if (*read == CapabilityRead::stopped) {
        return runner_exit::kStopped;
    }
    close_input(options.input);
    tell_of_children(signals->get());
    return Session(std::move(*loaded), capability, std::move(*signals)).run();
}

}  // namespace mosaic::runner
