#include "host/broker_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/assert.h"
#include "base/crash_point.h"
#include "base/secret.h"
#include "host/log.h"
#include "process/pidfd.h"
#include "process/proc.h"
#include "wire/limits.h"

namespace mosaic::host {
namespace {

using launch::Event;
using launch::EventKind;
using wire::Reply;
using wire::Request;

constexpr int64_t kRestartMsMin = 50;
constexpr int64_t kRestartMsMax = 5'000;

json::Value empty_object() {
    return json::Value(json::Object{});
}

}  // namespace

BrokerLink::BrokerLink(Loop& loop, BrokerPrograms programs, int bus_socket, int admin_socket)
    : loop_(loop),
      programs_(std::move(programs)),
      bus_socket_(bus_socket),
      admin_socket_(admin_socket),
      lines_(limits::kFrameBytesMax) {
    own(recv_op_, Owner::control_recv, 0);
    own(send_op_, Owner::control_send, 0);
    own(exit_op_, Owner::broker_exit, 0);
    own(exec_op_, Owner::broker_exec, 0);
}

BrokerLink::~BrokerLink() = default;

void BrokerLink::set_config(wire::BrokerConfig config) {
    config_ = std::move(config);
    if (state_ != State::down) {
        send_config();
    }
}

void BrokerLink::send_config() {
    Pending pending;
    pending.kind = Kind::config;
    send_request("config", config_.to_value(), std::move(pending));
}

void BrokerLink::start() {
    MOSAIC_ASSERT(state_ == State::down && !running_);
    int pair[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        log_line("no socketpair for the broker: " + errno_text(errno));
        arm_restart();
        return;
    }
    control_.reset(pair[0]);
    const UniqueFd theirs(pair[1]);
    process::SpawnSpec spec;
    spec.path = programs_.broker;
    spec.argv = {"mosaic-broker",
                 "--store",
                 programs_.store,
                 "--control-fd",
                 "3",
                 "--bus-fd",
                 "4",
                 "--admin-fd",
                 "5"};
    spec.env = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8"};
    MOSAIC_PASS_CRASH_POINTS(spec.env);
    spec.descriptors = {{theirs.get(), 3}, {bus_socket_, 4}, {admin_socket_, 5}, {2, 2}};
    spec.parent_death_kill = true;
    auto child = process::spawn(spec);
    if (!child) {
        log_line("the broker can't be started: " + child.error().text);
        control_.reset();
        arm_restart();
        return;
    }
    child_.emplace(std::move(*child));
    running_ = true;
    loop_.counts.broker_restarts.add(std::exchange(started_before_, true) ? 1 : 0);
    state_ = State::starting;
    lines_ = wire::LineBuffer(limits::kFrameBytesMax);
    loop_.ring->poll(exit_op_, child_->pidfd(), POLLIN);
    loop_.ring->poll(exec_op_, child_->exec_result(), POLLIN);
    loop_.ring->recv(recv_op_, control_.get(), buffer_.data(), buffer_.size());
    send_config();
}

void BrokerLink::shut_down() {
    stopping_ = true;
    shut_when_sent();
}

// What still is to be sent goes first: on a socket that is shut it would fail, and the broker with
// it. Then the broker sees the end of file, finishes what it has read, and exits.
void BrokerLink::shut_when_sent() {
    const bool sent = send_op_.idle() && to_send_.empty() && sent_ == sending_.size();
    if (stopping_ && !shut_ && sent && control_.valid()) {
        shut_ = true;
        ::shutdown(control_.get(), SHUT_WR);
    }
}

void BrokerLink::on_exec() {
    if (!child_) {
        return;  // its end came first
    }
    const auto started = child_->finish_exec();
    if (!started) {
        BrokerNews news;
        news.kind = BrokerNews::Kind::fatal;
        news.text = "the broker can't be started: " + started.error().text;
        news_.push_back(std::move(news));
    }
    restart_when_quiet();
}

void BrokerLink::on_exit() {
    const auto exit = process::reap(child_->pidfd());
    running_ = false;
    if (exit && exit->signal == 0 && exit->exit_code == exit_code::kRefused) {
        BrokerNews news;
        news.kind = BrokerNews::Kind::fatal;
        news.text = "the broker refused to start; its message is above";
        news_.push_back(std::move(news));
    }
    if (!stopping_ && exit) {
        log_line("the broker ended (" +
                 (exit->signal != 0 ? process::signal_name(exit->signal)
                                    : "exit " + std::to_string(exit->exit_code)) +
                 "); starting another");
    }
    restart_when_quiet();
}

// The connection is of no more use: everything asked over it fails, and the child goes.
void BrokerLink::lose(const std::string& why) {
    if (state_ == State::down) {
        return;
    }
    if (!why.empty()) {
        log_line("the broker's connection is lost: " + why);
    }
    state_ = State::down;
    if (running_) {
        ignore(process::signal_pidfd(child_->pidfd(), SIGKILL), "gone is what is wanted");
    }
    ::shutdown(control_.get(), SHUT_RDWR);
    fail_pending();
    asked_.clear();
    early_.clear();
    BrokerNews news;
    news.kind = BrokerNews::Kind::gone;
    news_.push_back(std::move(news));
    restart_when_quiet();
}

void BrokerLink::restart_when_quiet() {
    const bool quiet = recv_op_.idle() && send_op_.idle() && exit_op_.idle() && exec_op_.idle();
    if (!child_ || running_ || state_ != State::down || !quiet) {
        return;
    }
    child_.reset();
    control_.reset();
    wipe(sending_);
    wipe(to_send_);
    sent_ = 0;
    arm_restart();
}

void BrokerLink::arm_restart() {
    if (stopping_) {
        return;
    }
    const int64_t delay = std::min(kRestartMsMin << std::min(restarts_, 10U), kRestartMsMax);
    ++restarts_;
    loop_.set_timer(TimerKind::broker_restart, 0, ++generation_, milliseconds(delay));
}

void BrokerLink::on_restart(uint32_t generation) {
    if (generation == generation_ && state_ == State::down && !running_ && !stopping_) {
        start();
    }
}

void BrokerLink::watch() {
    if (!watching_) {
        watching_ = true;
        loop_.set_timer(TimerKind::broker_watch, 0, generation_, milliseconds(kBrokerLookMs));
    }
}

void BrokerLink::on_watch(uint32_t generation) {
    watching_ = false;
    if (state_ == State::down || !requests_.waits()) {
        silent_looks_ = 0;
        return;
    }
    // The first look at a broker that was started since the timer was set proves nothing yet. Nor
    // does one that waits for its disk (state D): it isn't at fault, and no signal ends that wait.
    const auto stat = process::read_stat(child_->pid());
    const bool waits_for_disk = stat && stat->state == 'D';
    const bool silent =
        generation == generation_ && !std::exchange(heard_, false) && !waits_for_disk;
    silent_looks_ = silent ? silent_looks_ + 1 : 0;
    const uint32_t most =
        state_ == State::starting ? kBrokerSilentLooksMaxAtStart : kBrokerSilentLooksMax;
    if (silent_looks_ < most) {
        watch();
        return;
    }
    silent_looks_ = 0;
    lose("it has answered nothing for " + std::to_string(most * kBrokerLookMs / 1000) + " s");
}

void BrokerLink::fail_pending() {
    for (const Pending& pending : requests_.lose_broker()) {
        switch (pending.kind) {
            case Kind::authorize:
                loop_.post(pending.slot, Event{EventKind::refused, Refusal::broker_unavailable});
                break;
            case Kind::bind:
                loop_.post(pending.slot, EventKind::broker_lost);
                break;
            case Kind::end:
            case Kind::end_leftover:
                MOSAIC_ASSERT(!launch::outlives_broker(pending.kind));
                break;
            case Kind::metrics:
                tell_measured("");
                break;
            case Kind::config:
            case Kind::bound:
            case Kind::refuse:
                break;
        }
    }
}

void BrokerLink::send_request(const std::string& verb, json::Value args, Pending pending) {
    [[maybe_unused]] const Kind kind = pending.kind;
    Request request;
    request.id = requests_.ask(std::move(pending));
    request.verb = verb;
    request.args = std::move(args);
    send_text(wire::encode(request));
    MOSAIC_CRASH_POINT("request", "after", launch::to_string(kind));
    watch();
}

void BrokerLink::send_text(std::string text) {
    to_send_ += text;
    wipe(text);
    send_more();
}

void BrokerLink::send_more() {
    if (!send_op_.idle() || !control_.valid() || state_ == State::down || shut_) {
        return;
    }
    if (sent_ == sending_.size()) {
        sending_ = std::exchange(to_send_, {});
        sent_ = 0;
    }
    if (!sending_.empty()) {
        loop_.ring->send(
            send_op_, control_.get(), sending_.data() + sent_, sending_.size() - sent_);
    }
}

void BrokerLink::on_send_done() {
    const int result = send_op_.result();
    if (result < 0) {
        lose(errno_text(-result));
        restart_when_quiet();
        return;
    }
    sent_ += static_cast<size_t>(result);
    if (sent_ == sending_.size()) {
        sending_.clear();
        sent_ = 0;
    }
    send_more();
    shut_when_sent();
    restart_when_quiet();
}

void BrokerLink::on_recv_done() {
    const int result = recv_op_.result();
    if (result <= 0) {
        lose(result == 0 || stopping_ ? "" : errno_text(-result));
        restart_when_quiet();
        return;
    }
    heard_ = true;
    lines_.append({buffer_.data(), static_cast<size_t>(result)});
    explicit_bzero(buffer_.data(), static_cast<size_t>(result));
    while (auto line = lines_.next()) {
        handle_line(std::move(*line));
    }
    if (lines_.overlong()) {
        lose("a line of more than " + std::to_string(limits::kFrameBytesMax) + " bytes");
    }
    if (state_ == State::down) {
        restart_when_quiet();
        return;
    }
    loop_.ring->recv(recv_op_, control_.get(), buffer_.data(), buffer_.size());
}

void BrokerLink::handle_line(std::string line) {
    auto frame = wire::decode_frame(line);
    wipe(line);
    if (state_ == State::down) {
        return;
    }
    if (!frame) {
        lose("not a frame: " + frame.error().text);
        return;
    }
    if (const Request* request = std::get_if<Request>(&*frame)) {
        handle_request(*request);
    } else {
        handle_reply(std::get<Reply>(*frame));
    }
}

void BrokerLink::handle_reply(const Reply& reply) {
    const auto answered = requests_.take_answered(reply.id);
    if (!answered) {
        return;
    }
    const Pending& pending = *answered;
    MOSAIC_CRASH_POINT("request", "on", launch::to_string(pending.kind));
    switch (pending.kind) {
        case Kind::config:
            on_config_reply(reply);
            break;
        case Kind::bound:
            on_bound_reply(reply);
            break;
        case Kind::authorize:
            on_authorize_reply(pending, reply);
            break;
        case Kind::bind:
            on_bind_reply(pending, reply);
            break;
        case Kind::end:
        case Kind::end_leftover:
            on_end_reply(pending, reply);
            break;
        case Kind::metrics:
            on_metrics_reply(reply);
            break;
        case Kind::refuse:
            break;
    }
}

void BrokerLink::on_config_reply(const Reply& reply) {
    const bool unrecorded = !reply.ok && reply.error == to_string(BusError::storage_unavailable);
    if (unrecorded && requests_.waits(Kind::config)) {
        log_line("the broker can't record a change of the configuration: " + reply.message);
        return;  // the last one counts, and brings its own news
    }
    if (unrecorded && config_.news) {
        // The configuration counts whether or not its event can be kept.
        log_line("the broker can't record " + config_.news->event + ": " + reply.message);
        config_.news.reset();
        send_config();
        return;
    }
    if (!reply.ok) {
        lose("it refused the configuration: " + reply.error + " " + reply.message);
        return;
    }
    const bool more = requests_.waits(Kind::config);
    if (more) {
        return;  // the last one counts
    }
    config_.news.reset();
    if (state_ != State::starting) {
        return;
    }
    state_ = State::asking;
    bound_ = wire::BoundResult{};
    asked_about_ = 0;
    ask_bound();
}

// One page of names: each request and each answer must fit a frame.
void BrokerLink::ask_bound() {
    const size_t end = std::min(asked_about_ + limits::kBoundNamesMax, candidates_.size());
    wire::BoundArgs args;
    args.runs.assign(candidates_.begin() + static_cast<std::ptrdiff_t>(asked_about_),
                     candidates_.begin() + static_cast<std::ptrdiff_t>(end));
    asked_about_ = end;
    Pending pending;
    pending.kind = Kind::bound;
    send_request("bound", args.to_value(), std::move(pending));
}

void BrokerLink::on_bound_reply(const Reply& reply) {
    auto bound = wire::BoundResult::from(reply.result);
    if (!reply.ok || !bound) {
        lose("no list of bound runs: " + (reply.ok ? bound.error().text : reply.message));
        return;
    }
    bound_.bound = std::move(bound->bound);
    bound_.known.insert(bound_.known.end(), bound->known.begin(), bound->known.end());
    if (asked_about_ < candidates_.size()) {
        ask_bound();
        return;
    }
    state_ = State::ready;
    restarts_ = 0;
    BrokerNews news;
    news.kind = BrokerNews::Kind::ready;
    news.bound = std::move(bound_);
    news_.push_back(std::move(news));
    news_.insert(news_.end(),
                 std::make_move_iterator(early_.begin()),
                 std::make_move_iterator(early_.end()));
    early_.clear();
    send_ends();
}

void BrokerLink::authorize(SlotRef slot, const wire::AuthorizeLaunchArgs& args) {
    if (!ready()) {
        loop_.post(slot, Event{EventKind::refused, Refusal::broker_unavailable});
        return;
    }
    Pending pending;
    pending.kind = Kind::authorize;
    pending.slot = slot;
    send_request("authorizeLaunch", args.to_value(), std::move(pending));
}

// Asking would take a quarter of a millisecond.
void BrokerLink::authorize_human(SlotRef slot) {
    loop_.post(slot,
               ready() ? Event{EventKind::authorized}
                       : Event{EventKind::refused, Refusal::broker_unavailable});
}

void BrokerLink::on_authorize_reply(const Pending& pending, const Reply& reply) {
    if (reply.ok) {
        loop_.post(pending.slot, EventKind::authorized);
        return;
    }
    if (!reply.decision.empty()) {
        BrokerNews news;
        news.kind = BrokerNews::Kind::decision;
        news.slot = pending.slot;
        news.decision = reply.decision;
        news_.push_back(std::move(news));
    }
    const auto code = refusal_from(reply.error);
    loop_.post(pending.slot, Event{EventKind::refused, code.value_or(Refusal::broker_unavailable)});
}

void BrokerLink::bind(SlotRef slot, const wire::BindLaunchArgs& args) {
    if (!ready()) {
        loop_.post(slot, EventKind::broker_lost);
        return;
    }
    Pending pending;
    pending.kind = Kind::bind;
    pending.slot = slot;
    send_request("bindLaunch", args.to_value(), std::move(pending));
}

void BrokerLink::on_bind_reply(const Pending& pending, const Reply& reply) {
    BrokerNews news;
    news.kind = BrokerNews::Kind::bound;
    news.slot = pending.slot;
    const json::Value* cap = reply.ok ? reply.result.find("cap") : nullptr;
    if (cap == nullptr || cap->string() == nullptr) {
        news.text = reply.ok ? "no capability in the answer" : reply.error + ": " + reply.message;
        news_.push_back(std::move(news));
        loop_.post(pending.slot, EventKind::bind_refused);
        return;
    }
    news.cap = *cap->string();
    news_.push_back(std::move(news));
    loop_.post(pending.slot, EventKind::bound);
}

void BrokerLink::end(SlotRef slot, const wire::EndLaunchArgs& args) {
    Pending pending;
    pending.kind = Kind::end;
    pending.slot = slot;
    pending.end = args;
    send_end(std::move(pending));
}

void BrokerLink::end_leftover(uint32_t leftover, const wire::EndLaunchArgs& args) {
    Pending pending;
    pending.kind = Kind::end_leftover;
    pending.leftover = leftover;
    pending.end = args;
    send_end(std::move(pending));
}

void BrokerLink::send_end(Pending pending) {
    if (!ready()) {
        requests_.keep(std::move(pending));
        return;
    }
    json::Value args = pending.end.to_value();
    send_request("endLaunch", std::move(args), std::move(pending));
}

void BrokerLink::send_ends() {
    std::deque<Pending> waiting = requests_.take_kept();
    for (Pending& pending : waiting) {
        send_end(std::move(pending));
    }
}

void BrokerLink::on_end_reply(const Pending& pending, const Reply& reply) {
    auto result = wire::EndLaunchResult::from(reply.result);
    if (!reply.ok || !result) {
        // It must not be lost: a broker whose disk is full, say, is asked again, for all that wait
        // at once.
        requests_.keep(pending);
        if (!std::exchange(ends_retry_armed_, true)) {
            log_line("the broker can't record ends now; asking again: " +
                     (reply.ok ? result.error().text : reply.error + " " + reply.message));
            loop_.set_timer(TimerKind::ends_retry, 0, 0, seconds(1));
        }
        return;
    }
    BrokerNews news;
    news.end = std::move(*result);
    news.run = pending.end.run;
    if (pending.kind == Kind::end) {
        news.kind = BrokerNews::Kind::end;
        news.slot = pending.slot;
        news_.push_back(std::move(news));
        loop_.post(pending.slot, EventKind::ended);
        return;
    }
    news.kind = BrokerNews::Kind::recovered;
    news.leftover = pending.leftover;
    news_.push_back(std::move(news));
}

void BrokerLink::on_ends_retry() {
    ends_retry_armed_ = false;
    if (ready()) {
        send_ends();
    }
}

void BrokerLink::refuse(const wire::RefuseArgs& args) {
    if (ready()) {
        send_request("refuse", args.to_value(), Pending{});
    }
}

void BrokerLink::ask_metrics() {
    if (!ready()) {
        tell_measured("");
        return;
    }
    Pending pending;
    pending.kind = Kind::metrics;
    send_request("metrics", empty_object(), std::move(pending));
}

void BrokerLink::on_metrics_reply(const Reply& reply) {
    const json::Value* text = reply.ok ? reply.result.find("text") : nullptr;
    tell_measured(text != nullptr && text->string() != nullptr ? *text->string() : "");
}

void BrokerLink::tell_measured(std::string text) {
    BrokerNews news;
    news.kind = BrokerNews::Kind::measured;
    news.text = std::move(text);
    news_.push_back(std::move(news));
}

void BrokerLink::reply(const Reply& reply) {
    const auto asked = asked_.find(reply.id);
    if (asked == asked_.end()) {
        return;
    }
    Reply translated = reply;
    translated.id = asked->second;
    asked_.erase(asked);
    send_reply(translated);
}

void BrokerLink::send_reply(const Reply& reply) {
    if (state_ != State::down) {
        send_text(wire::encode(reply));
    }
}

int64_t BrokerLink::remember(int64_t brokers_id) {
    asked_.emplace(next_asked_, brokers_id);
    return next_asked_++;
}

void BrokerLink::handle_request(const Request& request) {
    if (request.verb == "claimed" || request.verb == "released") {
        const auto args = wire::RunArgs::from(request.args);
        if (args) {
            BrokerNews news;
            news.kind =
                request.verb == "claimed" ? BrokerNews::Kind::claimed : BrokerNews::Kind::released;
            news.run = args->run;
            news_.push_back(std::move(news));
        }
        send_reply(args ? wire::reply_ok(request.id, empty_object())
                        : wire::reply_error(request.id, "bad-request", args.error().text));
        return;
    }
    if (request.verb == "needed") {
        const auto args = wire::NeedArgs::from(request.args);
        if (args) {
            BrokerNews news;
            news.kind = BrokerNews::Kind::needed;
            news.need = *args;
            news_.push_back(std::move(news));
        }
        send_reply(args ? wire::reply_ok(request.id, empty_object())
                        : wire::reply_error(request.id, "bad-request", args.error().text));
        return;
    }
    auto asked = read_request(request);
    if (!asked) {
        const BusError code =
            asked.error().code == Code::missing ? BusError::unknown_verb : BusError::bad_request;
        send_reply(wire::reply_error(request.id, to_string(code), asked.error().text));
        return;
    }
    asked->request_id = remember(request.id);
    // A launch couldn't be bound yet, and would be refused though the broker is there.
    (ready() ? news_ : early_).push_back(std::move(*asked));
}

// What the host itself answers. Code::missing: there is no such verb.
Result<BrokerNews> BrokerLink::read_request(const Request& request) {
    BrokerNews news;
    if (request.verb == "launch") {
        news.kind = BrokerNews::Kind::launch;
        MOSAIC_TRY_ASSIGN(news.launch, wire::HumanLaunchArgs::from(request.args));
    } else if (request.verb == "stop") {
        news.kind = BrokerNews::Kind::stop;
        MOSAIC_TRY_ASSIGN(news.stop, wire::StopArgs::from(request.args));
    } else if (request.verb == "configChange") {
        news.kind = BrokerNews::Kind::change;
        MOSAIC_TRY_ASSIGN(news.change, wire::ConfigChangeArgs::from(request.args));
    } else if (request.verb == "checkRoutes") {
        news.kind = BrokerNews::Kind::routes;
    } else if (request.verb == "reload") {
        news.kind = BrokerNews::Kind::reload;
    } else if (request.verb == "metrics") {
        news.kind = BrokerNews::Kind::metrics;
    } else {
        return fail(Code::missing, "the host has no verb " + request.verb);
    }
    return news;
}

size_t BrokerLink::ends_waiting() const {
    return requests_.ends_waiting();
}

std::optional<BrokerNews> BrokerLink::take_news() {
    if (news_.empty()) {
        return std::nullopt;
    }
    BrokerNews news = std::move(news_.front());
    news_.pop_front();
    return news;
}

}  // namespace mosaic::host
