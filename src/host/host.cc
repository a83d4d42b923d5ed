#include "host/host.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/assert.h"
#include "host/log.h"
#include "launch/deadlines.h"
#include "process/descriptors.h"
#include "process/peer.h"
#include "process/proc.h"
#include "registry/layout.h"
#include "wire/limits.h"

// The loop, its completions, timers and signals. host_flow.cc has the start, the requests and the
// end.

namespace mosaic::host {

namespace {

// The longest a machine's events may go on within one tick before something is wrong.
constexpr size_t kEventsPerTickMax = 1'000'000;

// TRAP-19: the ring of a host that was killed a moment ago gives its locked memory back late.
// Waited for, because a start that is refused isn't tried again by the service manager.
Result<std::unique_ptr<reactor::Ring>> make_ring() {
    constexpr int kTriesMax = 100;
    constexpr int kPauseMs = 50;
    for (int tries = 1;; ++tries) {
        auto ring = reactor::Ring::create({});
        if (ring || ring.error().sys != ENOMEM || tries == kTriesMax) {
            return ring;
        }
        if (tries == 1) {
            log_line("no memory for a ring now; trying again for 5 s");
        }
        ::poll(nullptr, 0, kPauseMs);
    }
}

}  // namespace

Host::Host(Settings settings, DataRoot root, registry::SessionsFile left, HostOptions options)
    : settings_(std::move(settings)),
      root_(std::move(root)),
      left_(std::move(left)),
      options_(options),
      boot_id_(process::boot_id()) {}

Host::~Host() {
    // The kernel gives up every operation before the memory that it may touch goes.
    loop_.ring.reset();
}

Result<void> Host::set_up() {
    MOSAIC_TRY_ASSIGN(loop_.ring, make_ring());
    MOSAIC_TRY_ASSIGN(bus_socket_, listen_on(root_, std::string(registry::kBusSocket)));
    MOSAIC_TRY_ASSIGN(admin_socket_, listen_on(root_, std::string(registry::kAdminSocket)));
    loop_.now = monotonic_now();
    started_ms_ = wall_clock_ms();

    sigset_t wanted{};
    sigemptyset(&wanted);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
        sigaddset(&wanted, signal);
    }
    if (::sigprocmask(SIG_BLOCK, &wanted, nullptr) != 0) {
        return fail_sys(errno, "sigprocmask");
    }
    signals_.reset(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_.valid()) {
        return fail_sys(errno, "signalfd");
    }
    own(signal_op_, Owner::signals, 0);
    own(accept_op_, Owner::accept, 0);

    log_ = std::make_unique<LaunchLog>(loop_);
    MOSAIC_TRY(log_->open(root_.launches.get(), registry::launch_log_name(settings_.business.id)));
    store_ = std::make_unique<SessionStore>(loop_, root_.bus_host.get(), boot_id_);
    store_->adopt(left_.entries, left_.boot_id);
    broker_ = std::make_unique<BrokerLink>(
        loop_,
        BrokerPrograms{settings_.programs.broker, registry::broker_store_path(root_.path)},
        bus_socket_.get(),
        admin_socket_.get());
    broker_->set_config(broker_config(settings_));
    clients_ = std::make_unique<Clients>(loop_);
    children_ = std::make_unique<Children>(loop_);
    probe_ = std::make_unique<Probe>(*children_, settings_);
    config_ = std::make_unique<ConfigKeeper>(settings_, root_, *children_);
    versions_ = std::make_unique<Versions>(loop_, *children_, settings_);
    pager_ = std::make_unique<Pager>(*children_, settings_);
    directories_ = std::make_unique<RunDirectories>(
        loop_, *children_, settings_.system.limits, root_.runs.get());
    disk_ =
        std::make_unique<DiskWatch>(loop_, *children_, settings_.system.limits, root_.runs.get());
    metrics_ = std::make_unique<MetricsPort>(loop_);
    trees_ = std::make_unique<StageTrees>(*children_, root_.stage.get());
    logged_ = logged_ends(root_.launches.get(), registry::launch_log_name(settings_.business.id));
    recovery_ = std::make_unique<Recovery>(
        RecoveryParts{loop_,
                      *store_,
                      *broker_,
                      *log_,
                      registry::runs_dir(root_.path, settings_.business.id),
                      settings_.system.sandbox.bwrap,
                      boot_id_,
                      logged_.runs});
    runs_ = std::make_unique<Runs>(RunParts{loop_,
                                            root_,
                                            *store_,
                                            *broker_,
                                            *clients_,
                                            *log_,
                                            *settings_.groups,
                                            settings_.system.limits,
                                            settings_.business.id,
                                            settings_.business.human});
    return {};
}

int Host::run() {
    begin_start();
    std::vector<reactor::Op*> done;
    while (state_ != State::over) {
        const Instant deadline = next_deadline();
        const Instant last_tick = loop_.now;
        const auto ticked = loop_.ring->tick(deadline, done);
        if (!ticked) {
            log_line("io_uring failed: " + ticked.error().text);
            return exit_code::kFailed;
        }
        loop_.now = monotonic_now();
        loop_.make_good(launch::time_away(last_tick, deadline, loop_.now));
        // Completions before timers: what has happened wins over a deadline that passed meanwhile.
        for (reactor::Op* op : done) {
            op->take();
            dispatch(*op);
        }
        dispatch_timers();
        drain();
        loop_.counts.ticks.add();
        loop_.counts.busy.ns += (monotonic_now() - loop_.now).ns;
    }
    return exit_code_;
}

// A launch sets a deadline for each of its steps, and few ever count: an idle host is woken for
// none of the others.
Instant Host::next_deadline() {
    loop_.timers.drop_until([&](const reactor::Timer& timer) {
        const auto kind = static_cast<TimerKind>(timer.kind);
        if (kind == TimerKind::run_deadline) {
            return runs_->awaits_deadline(timer.owner, timer.generation);
        }
        return kind != TimerKind::child_deadline ||
               children_->awaits(timer.owner, timer.generation);
    });
    // What waits for the answers to be on their way doesn't wait for anything else.
    return warm_due_ ? loop_.now : loop_.timers.next().value_or(reactor::Ring::kForever);
}

void Host::drain() {
    warm_due_ = false;
    for (size_t handled = 0;; ++handled) {
        MOSAIC_ASSERT(handled < kEventsPerTickMax);
        take_news();
        take_requests();
        take_children();
        take_config();
        take_answers();
        take_ended();
        take_disk();
        if (metrics_->take_question()) {
            measure();
        }
        take_warm();
        serve_when_recovered();
        if (!loop_.run_events.empty()) {
            const RunEvent event = loop_.run_events.front();
            loop_.run_events.pop_front();
            runs_->step(event);
        } else if (!loop_.leftover_events.empty()) {
            const LeftoverNews news = loop_.leftover_events.front();
            loop_.leftover_events.pop_front();
            recovery_->step(news);
        } else if (warm_.next(loop_.now) && warm_turn_.put_off(handled > 0)) {
            warm_due_ = true;
            break;
        } else if (!fill_warm()) {
            break;
        }
    }
    runs_->recycle();
    clients_->recycle();
    metrics_->recycle();
    tidy_stage();
    stop_when_over();
}

// NOLINTNEXTLINE(readability-function-size): a case for each owner and nothing else
void Host::dispatch(reactor::Op& op) {
    switch (static_cast<Owner>(op.owner_kind())) {
        case Owner::none:
            break;
        case Owner::signals:
            on_signal();
            break;
        case Owner::accept:
            on_accept();
            break;
        case Owner::client_recv:
            clients_->on_recv_done(op.owner());
            break;
        case Owner::client_send:
            clients_->on_send_done(op.owner());
            break;
        case Owner::control_recv:
            broker_->on_recv_done();
            break;
        case Owner::control_send:
            broker_->on_send_done();
            break;
        case Owner::broker_exit:
            broker_->on_exit();
            break;
        case Owner::broker_exec:
            broker_->on_exec();
            break;
        case Owner::store:
            store_->on_completion();
            break;
        case Owner::store_close:
            store_->on_close_done();
            break;
        case Owner::log_write:
            log_->on_write_done();
            break;
        case Owner::run_files:
            runs_->on_files_done(op.owner());
            break;
        case Owner::run_exec:
            runs_->on_exec(op.owner());
            break;
        case Owner::run_exit:
            runs_->on_exit(op.owner());
            break;
        case Owner::run_status:
            runs_->on_status(op.owner());
            break;
        case Owner::run_stdin:
            runs_->on_stdin_done(op.owner());
            break;
        case Owner::leftover_process:
            recovery_->on_process_gone(op.owner());
            break;
        case Owner::child_exit:
            children_->on_exit(op.owner());
            break;
        case Owner::child_output:
            children_->on_output(op.owner());
            break;
        case Owner::metrics_accept:
            metrics_->on_accept();
            break;
        case Owner::metrics_recv:
            metrics_->on_recv_done(op.owner());
            break;
        case Owner::metrics_send:
            metrics_->on_send_done(op.owner());
            break;
    }
}

void Host::dispatch_timers() {
    while (const auto timer = loop_.timers.take_due(loop_.now)) {
        switch (static_cast<TimerKind>(timer->kind)) {
            case TimerKind::run_deadline:
                runs_->on_deadline(timer->owner, timer->generation);
                break;
            case TimerKind::run_term:
                runs_->on_term_timer(timer->owner, timer->generation);
                break;
            case TimerKind::leftover_deadline:
                recovery_->on_deadline(timer->owner, timer->generation);
                break;
            case TimerKind::broker_restart:
                broker_->on_restart(timer->generation);
                break;
            case TimerKind::broker_watch:
                broker_->on_watch(timer->generation);
                break;
            case TimerKind::ends_retry:
                broker_->on_ends_retry();
                break;
            case TimerKind::store_retry:
                store_->on_retry();
                break;
            case TimerKind::log_retry:
                log_->on_retry();
                break;
            case TimerKind::accept_retry:
                accept_paused_ = false;
                accept_more();
                break;
            case TimerKind::child_deadline:
                children_->on_deadline(timer->owner, timer->generation);
                break;
            case TimerKind::bad_request_summary:
                on_bad_request_summary();
                break;
            case TimerKind::disk_check:
                on_disk_check();
                break;
            case TimerKind::tidy_up:
                directories_->on_timer();
                break;
            case TimerKind::group_retry:
                runs_->on_group_timer();
                break;
            case TimerKind::warm_retry:
                warm_timer_.reset();
                break;
            case TimerKind::stop_all:
                cut_stop_short();
                break;
            case TimerKind::metrics_client:
                metrics_->on_client_timer(timer->owner, timer->generation);
                break;
            case TimerKind::metrics_listen:
                metrics_->on_listen_timer();
                break;
            case TimerKind::metrics_broker:
                if (timer->generation == measure_generation_) {
                    on_measured("");
                }
                break;
        }
    }
}

void Host::on_signal() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
        const auto signal = static_cast<int>(info.ssi_signo);
        if (signal == SIGHUP) {
            const auto opened =
                log_->open(root_.launches.get(), registry::launch_log_name(settings_.business.id));
            log_line(opened ? "the launch log is open anew"
                            : "the launch log stays as it is: " + opened.error().text);
            config_->reload(0, "SIGHUP");
            continue;
        }
        ++stops_asked_;
        if (stops_asked_ > 1 && signal == SIGINT) {
            log_line("stopping at once");
            begin_stop();
            runs_->stop_all(0);
        } else {
            begin_stop();
        }
    }
    loop_.ring->poll(signal_op_, signals_.get(), POLLIN);
}

void Host::accept_more() {
    const bool serving = state_ == State::serving;
    if (!serving || !launch_socket_.valid() || !accept_op_.idle() || accept_paused_) {
        return;
    }
    // The last descriptors are for launches and ends: who calls now waits in the socket's queue.
    if (!process::descriptors_left(launch_socket_.get(), limits::kDescriptorsInReserve)) {
        pause_accepting();
        return;
    }
    loop_.ring->accept(accept_op_, launch_socket_.get());
}

void Host::pause_accepting() {
    constexpr Duration kPause = milliseconds(100);
    accept_paused_ = true;
    loop_.set_timer(TimerKind::accept_retry, 0, 0, kPause);
}

void Host::on_accept() {
    const int result = accept_op_.result();
    if (result < 0) {
        if (result == -EMFILE || result == -ENFILE || result == -ENOBUFS || result == -ENOMEM) {
            pause_accepting();
        }
        accept_more();
        return;
    }
    UniqueFd socket(result);
    // Who calls is decided before a byte is read: only the recorded runner of a live run is served.
    const auto peer = process::peer_of(socket.get());
    const auto run = peer ? runs_->find_runner(peer->pid, peer->start_time) : std::nullopt;
    if (run) {
        clients_->add(std::move(socket), *run);
    } else {
        loop_.counts.launch_strangers.add();
    }
    accept_more();
}

}  // namespace mosaic::host
