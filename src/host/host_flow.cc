// How the host starts, takes requests, and ends.

#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "base/secret.h"
#include "host/capability.h"
#include "host/host.h"
#include "host/log.h"
#include "host/notify.h"
#include "host/unlogged_ends.h"
#include "registry/layout.h"

namespace mosaic::host {

namespace {

// Beyond the sessions' own time: what recording their ends may take.
constexpr Duration kRecordingTakes = seconds(20);
constexpr Duration kSummaryEvery = seconds(1);

}  // namespace

void Host::begin_start() {
    loop_.ring->poll(signal_op_, signals_.get(), POLLIN);
    metrics_->serve(settings_.system.metrics_port);
    ignore(probe_->ask(false), "tried now, so that the first launch needn't wait");
    broker_->set_candidates(directories_->list());
    broker_->start();
}

void Host::take_news() {
    while (auto news = broker_->take_news()) {
        switch (news->kind) {
            case BrokerNews::Kind::ready:
                on_ready(*news);
                break;
            case BrokerNews::Kind::gone:
                break;
            case BrokerNews::Kind::fatal:
                if (state_ == State::starting) {
                    give_up(news->text, exit_code::kRefused);
                } else {
                    log_line(news->text);
                }
                break;
            case BrokerNews::Kind::claimed:
                runs_->on_claimed(news->run);
                break;
            case BrokerNews::Kind::released:
                break;
            case BrokerNews::Kind::launch:
                on_human_launch(*news);
                break;
            case BrokerNews::Kind::stop:
                runs_->stop(news->request_id, news->stop);
                break;
            case BrokerNews::Kind::routes:
                on_routes(news->request_id);
                break;
            case BrokerNews::Kind::change:
                config_->change(news->request_id, std::move(news->change));
                break;
            case BrokerNews::Kind::reload:
                config_->reload(news->request_id, settings_.business.human);
                break;
            case BrokerNews::Kind::metrics:
                measures_asked_.push_back(news->request_id);
                measure();
                break;
            case BrokerNews::Kind::measured:
                on_measured(news->text);
                break;
            case BrokerNews::Kind::recovered:
                recovery_->on_ended(news->leftover, news->end);
                break;
            case BrokerNews::Kind::end:
                runs_->on_ended(*news);
                break;
            case BrokerNews::Kind::bound:
                runs_->on_bound(*news);
                break;
            case BrokerNews::Kind::decision:
                pager_->page(
                    {wire::NeedArgs::What::decision, news->decision, runs_->on_decision(*news)});
                break;
            case BrokerNews::Kind::needed:
                pager_->page(news->need);
                break;
        }
    }
}

void Host::on_ready(const BrokerNews& news) {
    if (!recovery_begun_) {
        recovery_begun_ = true;
        begin_recovery(news.bound);
        return;
    }
    // A broker that was started again.
    std::set<std::string> ours = runs_->bound();
    const launch::Leftovers& leftovers = recovery_->leftovers();
    for (uint32_t i = 0; i < leftovers.size(); ++i) {
        ours.insert(leftovers[i].run);
    }
    const launch::HeldRuns held = launch::take_apart(news.bound.bound, ours);
    for (const std::string& run : held.claimed) {
        runs_->on_claimed(run);
    }
    for (const wire::EndLaunchArgs& end : held.to_end) {
        log_line("run " + end.run + " (" + describe(end.seat) +
                 ") is bound at the broker after all, though its launch failed; ending it there");
        broker_->end(SlotRef{}, end);
    }
}

void Host::begin_recovery(const wire::BoundResult& bound) {
    if (state_ == State::starting) {
        state_ = State::recovering;
    }
    std::vector<wire::BoundRun> to_end = unlogged_ends(root_.runs.get(), bound, logged_);
    to_end.insert(to_end.begin(), bound.bound.begin(), bound.bound.end());
    // A warm seat that the broker knows was taken: its entry hadn't been changed yet.
    for (const registry::SessionEntry& entry : left_.entries) {
        const auto& known = bound.known;
        if (entry.warm && std::find(known.begin(), known.end(), entry.run) != known.end()) {
            to_end.push_back({entry.seat, entry.run, entry.harness, entry.process, false});
        }
    }
    if (const auto begun = recovery_->begin(left_, to_end); !begun) {
        give_up("what an earlier host left can't be ended: " + begun.error().text +
                    "; nothing was changed",
                exit_code::kFailed);
        return;
    }
    runs_->sweep_groups(directories_->list());
    forget_orphans(bound);
    broker_->set_candidates({});
}

// Run directories that neither the broker nor sessions.json ever knew: a host died while it made
// them. The broker's store opened intact, else it would not be ready.
void Host::forget_orphans(const wire::BoundResult& bound) {
    std::set<std::string> known(bound.known.begin(), bound.known.end());
    for (const registry::SessionEntry& entry : left_.entries) {
        known.insert(entry.run);
    }
    for (const std::string& run : directories_->list()) {
        if (known.count(run) == 0) {
            log_line("removing the directory of run " + run + ", which never came to be");
            directories_->discard(run);
        } else if (!recovery_->leftovers().holds(run)) {
            directories_->adopt(run);
        }
    }
    directories_->prune();
}

void Host::serve_when_recovered() {
    if (state_ != State::recovering || !recovery_->leftovers().may_launch()) {
        return;
    }
    auto socket = listen_on(root_, std::string(registry::kLaunchSocket));
    if (!socket) {
        give_up(socket.error().text, exit_code::kFailed);
        return;
    }
    launch_socket_ = std::move(*socket);
    state_ = State::serving;
    accept_more();
    tidy_stage_ = true;
    log_line("serving " + settings_.business.id + " at " + root_.path);
    want_warm();
    consider_waiting(false);
    if (!options_.launch_pm) {
        notify_service_manager("READY=1");
        return;
    }
    Ask ask;
    ask.caller.kind = Caller::Kind::start;
    ask.caller.name = settings_.business.human;
    ask.target.instance = settings_.business.launch ? settings_.business.launch->by : "";
    ask.at = loop_.now;
    consider(std::move(ask), false);
}

void Host::consider_waiting(bool again) {
    std::deque<Ask> waiting = std::exchange(waiting_, {});
    for (Ask& ask : waiting) {
        consider(std::move(ask), again);
    }
}

void Host::on_human_launch(const BrokerNews& news) {
    Ask ask;
    ask.caller.kind = Caller::Kind::human;
    ask.caller.name = settings_.business.human;
    ask.caller.request_id = news.request_id;
    ask.target = news.launch.seat;
    ask.at = loop_.now;
    consider(std::move(ask), false);
}

void Host::take_requests() {
    while (auto request = clients_->take_request()) {
        on_request(std::move(*request));
    }
}

// Check 1: the request's shape, and whose capability it carries.
void Host::on_request(ClientRequest request) {
    auto decoded = request.overlong ? fail(Code::too_large, "a line past its limit")
                                    : wire::decode_launch_request(request.line);
    wipe(request.line);
    if (!decoded) {
        count_bad(Refusal::bad_request);
        clients_->answer(request.client,
                         request.number,
                         wire::encode_launch_refusal(Refusal::bad_request, "", ""));
        return;
    }
    const std::string hash = capability_hash(decoded->cap);
    wipe(decoded->cap);
    const RunSlot* caller = runs_->find_capability(request.run, hash);
    if (caller == nullptr) {
        count_bad(Refusal::unknown_capability);
        clients_->answer(request.client,
                         request.number,
                         wire::encode_launch_refusal(Refusal::unknown_capability, "", ""));
        return;
    }
    Ask ask;
    ask.caller.kind = Caller::Kind::session;
    ask.caller.name = caller->plan.seat.instance;
    ask.caller.seat = caller->plan.seat;
    ask.caller.run = caller->run;
    ask.caller.client = request.client;
    ask.caller.number = request.number;
    ask.target = decoded->seat;
    ask.at = loop_.now;
    consider(std::move(ask), false);
}

AdmissionParts Host::admission() {
    return {settings_, root_, *runs_, recovery_->leftovers(), *probe_, *versions_, mounts_};
}

void Host::consider(Ask ask, bool again) {
    if (state_ >= State::stopping) {
        runs_->refuse(ask, Refusal::host_stopping, "the host is stopping");
        return;
    }
    if (state_ < State::serving) {
        waiting_.push_back(std::move(ask));
        return;
    }
    Decision decision = decide(admission(), ask, again);
    if (decision.ask_again) {
        waiting_.push_back(std::move(ask));
        return;
    }
    if (decision.refusal) {
        log_line("refused " + describe(ask.target) + " for " + ask.caller.name + ": " +
                 std::string(to_string(*decision.refusal)) + " (" + decision.reason + ")");
        runs_->refuse(ask, *decision.refusal, decision.reason);
        return;
    }
    for (const std::string& warning : decision.plan.warnings) {
        if (warned_.insert(warning).second) {
            log_line("warning: " + warning);
        }
    }
    runs_->begin(std::move(ask), std::move(decision.plan));
}

void Host::take_children() {
    while (const auto result = children_->take_result()) {
        if (directories_->settle(*result) || disk_->settle(*result) || trees_->settle(*result)) {
            continue;
        }
        if (probe_->settle(*result)) {
            if (probe_->works()) {
                versions_->warm_up();
            }
            consider_waiting(true);
            warm_waited(true);
        } else if (pager_->settle(*result)) {
            continue;
        } else if (versions_->settle(*result)) {
            // Not again: these have waited for no try of the sandbox, which may be in doubt by now.
            consider_waiting(false);
            warm_waited(false);
        } else {
            ignore(config_->settle(*result), "its outcome is taken later in this tick");
        }
    }
}

void Host::take_answers() {
    if (runs_->take_sandbox_doubt()) {
        probe_->doubt();
    }
    while (const auto answer = runs_->take_answer()) {
        if (answer->caller.kind == Caller::Kind::human) {
            broker_->reply(
                answer->result
                    ? wire::reply_ok(answer->caller.request_id, answer->result->to_value())
                    : wire::reply_error(
                          answer->caller.request_id, to_string(answer->refusal), answer->reason));
            continue;
        }
        if (answer->result) {
            // With --pm the service is ready when its PM is: a refused one ends it.
            notify_service_manager("READY=1");
        } else if (state_ == State::serving) {
            log_line("PM launch refused: " + std::string(to_string(answer->refusal)) + " (" +
                     answer->reason + ")");
            exit_code_ = exit_code::kRefused;
            begin_stop();
        }
    }
}

void Host::take_ended() {
    while (const auto run = runs_->take_discarded()) {
        directories_->discard(*run);
    }
    while (const auto run = runs_->take_ended()) {
        directories_->ended(*run);
        tidy_stage_ = true;
    }
    while (const auto settled = recovery_->take_settled()) {
        if (settled->was_run) {
            directories_->ended(settled->run);
        } else {
            directories_->discard(settled->run);
        }
    }
}

void Host::take_disk() {
    if (runs_->take_went_live()) {
        disk_->wake();
    }
    while (const auto over = disk_->take_over()) {
        log_line("run " + over->run + " has written " + std::to_string(over->bytes) +
                 " bytes to its rw/, limits.runDiskBytes is " +
                 std::to_string(settings_.system.limits.run_disk_bytes) + "; ending it");
        runs_->stop_live(over->run, "disk");
    }
}

void Host::on_disk_check() {
    directories_->prune();
    disk_->on_timer(runs_->live());
}

void Host::count_bad(Refusal code) {
    loop_.counts.refuse(code);
    ++(code == Refusal::bad_request ? bad_requests_ : unknown_capabilities_);
    if (!summary_armed_) {
        summary_armed_ = true;
        loop_.set_timer(TimerKind::bad_request_summary, 0, 0, kSummaryEvery);
    }
}

void Host::on_bad_request_summary() {
    summary_armed_ = false;
    log_line("refused on launch.sock since the last such line: " + std::to_string(bad_requests_) +
             " bad requests, " + std::to_string(unknown_capabilities_) + " unknown capabilities");
    bad_requests_ = 0;
    unknown_capabilities_ = 0;
}

void Host::begin_stop() {
    if (state_ >= State::stopping) {
        return;
    }
    log_line("stopping: ending all sessions");
    notify_service_manager("STOPPING=1");
    state_ = State::stopping;
    std::deque<Ask> waiting = std::exchange(waiting_, {});
    for (const Ask& ask : waiting) {
        runs_->refuse(ask, Refusal::host_stopping, "the host is stopping");
    }
    probe_->give_up();
    versions_->give_up();
    config_->give_up();
    pager_->stop();
    directories_->stop();
    disk_->stop();
    const int64_t timeout_ms = settings_.system.limits.stop_timeout_ms;
    runs_->stop_all(timeout_ms);
    loop_.set_timer(
        TimerKind::stop_all, 0, 0, Duration{milliseconds(timeout_ms).ns + kRecordingTakes.ns});
}

void Host::stop_when_over() {
    if (state_ == State::stopping && runs_->active() == 0 && broker_->ends_waiting() == 0 &&
        store_->quiet() && log_->quiet() && config_->quiet()) {
        state_ = State::finishing;
        broker_->shut_down();
    }
    // Nothing of ours outlives us: the directories of launches that came to nothing go first.
    if (state_ == State::finishing && broker_->broker_gone() && children_->quiet()) {
        state_ = State::over;
        log_line("stopped");
    }
}

// The time for a stop is over.
void Host::cut_stop_short() {
    if (state_ == State::finishing && broker_->broker_gone()) {
        log_line("stopped; the next start goes on removing run directories");
        state_ = State::over;
        return;
    }
    give_up("not everything could be ended and recorded in time", exit_code::kFailed);
}

void Host::give_up(const std::string& why, int code) {
    log_line(why);
    exit_code_ = code;
    state_ = State::over;
}

}  // namespace mosaic::host
