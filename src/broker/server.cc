#include "broker/server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>

#include "base/crash_point.h"
#include "base/secret.h"
#include "base/utf8.h"
#include "wire/limits.h"

namespace mosaic::broker {
namespace {

constexpr uint64_t kControlToken = 0;
constexpr uint64_t kBusToken = 1;
constexpr uint64_t kAdminToken = 2;
constexpr uint64_t kSignalToken = 3;
constexpr uint64_t kFirstConnection = 16;

constexpr size_t kEventsPerTick = 128;
constexpr size_t kReadBytes = size_t{64} * 1024;
constexpr size_t kControlLinesPerTurn = 128;
// Out of descriptors: somebody else of the system may hold them, so waiting for a close of our own
// isn't enough.
constexpr Duration kAcceptPause = milliseconds(100);

void set_nonblocking(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    if (flags >= 0) {
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    }
}

// The id of a frame that has one but isn't well-formed otherwise, so that its sender learns of it.
int64_t id_in(std::string_view line) {
    const auto frame = json::parse(line, {limits::kWireDepthMax});
    const json::Value* id = frame ? frame->find("id") : nullptr;
    const int64_t* number = id != nullptr ? id->integer() : nullptr;
    return number != nullptr && *number > 0 ? *number : 0;
}

Asker asker_of(const Connection& connection) {
    switch (connection.caller.kind) {
        case Caller::Kind::host:
            return Asker::host;
        case Caller::Kind::human:
            return Asker::human;
        case Caller::Kind::session:
            break;
    }
    return Asker::session;
}

std::string error_line(int64_t id, BusError code, std::string message) {
    return wire::encode(wire::reply_error(id, to_string(code), std::move(message)));
}

}  // namespace

void log_line(const std::string& text) {
    ignore(std::fprintf(stderr, "mosaic-broker: %s\n", one_line(text).c_str()), "nobody to tell");
}

Server::Server(Sockets sockets, Store& store)
    : sockets_(std::move(sockets)),
      store_(store),
      core_(store),
      turns_(store, core_),
      next_connection_(kFirstConnection) {
    core_.counts().started_ms = wall_clock_ms();
}

Server::~Server() = default;

Result<int> Server::run() {
    MOSAIC_TRY(start());
    while (!stopping_) {
        MOSAIC_TRY(tick());
    }
    say_goodbye();
    return 0;
}

Result<void> Server::start() {
    MOSAIC_TRY(watches_.open());
    set_nonblocking(sockets_.control.get());
    set_nonblocking(sockets_.bus.get());
    set_nonblocking(sockets_.admin.get());
    control_.id = kControlToken;
    control_.fd = std::move(sockets_.control);
    control_.caller.kind = Caller::Kind::host;
    control_.armed = EPOLLIN;
    MOSAIC_TRY(watches_.set(control_.fd.get(), kControlToken, EPOLLIN, false));
    return watches_.set(sockets_.signals.get(), kSignalToken, EPOLLIN, false);
}

int Server::timeout_ms() const {
    if (!ready_.empty() || control_.has_lines) {
        return 0;
    }
    if (bus_pause_.on || admin_pause_.on) {
        const int64_t left = to_us(accept_again_ - monotonic_now()) / 1000 + 1;
        return static_cast<int>(std::clamp<int64_t>(left, 0, 1000));
    }
    return -1;
}

// One turn: what is readable is read, once a connection; what came is handled in one transaction;
// only then anything is sent.
Result<void> Server::tick() {
    std::array<epoll_event, kEventsPerTick> events{};
    MOSAIC_TRY_ASSIGN(const size_t count, watches_.wait(timeout_ms(), events));
    for (const epoll_event& event : std::span(events).first(count)) {
        switch (event.data.u64) {
            case kBusToken:
            case kAdminToken:
                accept_all(event.data.u64 == kAdminToken);
                break;
            case kSignalToken:
                stopping_ = true;  // this turn is finished first
                break;
            case kControlToken:
                on_event(control_, event.events);
                break;
            default:
                if (const auto it = connections_.find(event.data.u64); it != connections_.end()) {
                    on_event(*it->second, event.events);
                }
        }
    }
    core_.counts().human_connections = humans_;
    core_.counts().session_connections = connections_.size() - humans_;
    const std::vector<Done> done = turns_.run(collect(), wall_clock_ms());
    carry_out(done);
    report_store();
    report_watches();
    follow_human();
    finish_turn();
    for (const Done& one : done) {
        MOSAIC_CRASH_POINT("broker", "answered", one.request.verb);
    }
    if (control_.ended && !control_.has_lines) {
        stopping_ = true;
    }
    if (core_.configured() && !listening_) {
        MOSAIC_TRY(listen_now());
    }
    if ((bus_pause_.on || admin_pause_.on) && monotonic_now() >= accept_again_) {
        MOSAIC_TRY(resume_accepting());
    }
    return {};
}

Result<void> Server::listen_now() {
    MOSAIC_TRY(watches_.set(sockets_.bus.get(), kBusToken, EPOLLIN, false));
    MOSAIC_TRY(watches_.set(sockets_.admin.get(), kAdminToken, EPOLLIN, false));
    listening_ = true;
    return {};
}

Result<void> Server::pause_accepting(bool admin, int sys) {
    Pause& pause = admin ? admin_pause_ : bus_pause_;
    if (!std::exchange(pause.told, true)) {
        log_line("no more connections are accepted now: " + errno_text(sys) +
                 "; trying again every 100 ms");
    }
    pause.on = true;
    accept_again_ = monotonic_now() + kAcceptPause;
    return admin ? watches_.set(sockets_.admin.get(), kAdminToken, 0, true)
                 : watches_.set(sockets_.bus.get(), kBusToken, 0, true);
}

Result<void> Server::resume_accepting() {
    if (std::exchange(bus_pause_.on, false)) {
        MOSAIC_TRY(watches_.set(sockets_.bus.get(), kBusToken, EPOLLIN, true));
    }
    if (std::exchange(admin_pause_.on, false)) {
        MOSAIC_TRY(watches_.set(sockets_.admin.get(), kAdminToken, EPOLLIN, true));
    }
    return {};
}

void Server::on_event(Connection& connection, uint32_t events) {
    touched_.insert(connection.id);
    if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
        connection.hung_up = true;
    }
    // What is buffered is handled first: a peer that only writes fills one buffer, not memory.
    if ((events & EPOLLIN) != 0 && !connection.has_lines && !connection.ended) {
        read_some(connection);
    }
}

void Server::read_some(Connection& connection) {
    static std::array<char, kReadBytes> buffer;
    const ssize_t got = recv(connection.fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) {
        const auto size = static_cast<size_t>(got);
        connection.in.append({buffer.data(), size});
        explicit_bzero(buffer.data(), size);
        queue(connection);
    } else if (got == 0) {
        connection.ended = true;
    } else if (errno != EAGAIN && errno != EINTR) {
        connection.ended = true;
        connection.hung_up = true;
    }
}

void Server::queue(Connection& connection) {
    connection.has_lines = true;
    if (connection.id != kControlToken && !connection.queued) {
        connection.queued = true;
        ready_.push_back(connection.id);
    }
}

std::vector<Item> Server::collect() {
    std::vector<Item> items;
    if (control_.has_lines) {
        take_lines(control_, kControlLinesPerTurn, items);
    }
    const size_t own = items.size();
    for (size_t left = ready_.size(); left > 0; --left) {
        if (items.size() - own >= limits::kTurnLinesMax) {
            break;  // the rest is first in the next turn
        }
        const uint64_t id = ready_.front();
        ready_.pop_front();
        const auto found = connections_.find(id);
        if (found == connections_.end()) {
            continue;
        }
        Connection& connection = *found->second;
        connection.queued = false;
        touched_.insert(id);
        take_lines(connection, limits::kTurnLinesPerConnectionMax, items);
    }
    return items;
}

void Server::take_lines(Connection& connection, size_t lines_max, std::vector<Item>& items) {
    for (size_t taken = 0; taken < lines_max && !connection.closing; ++taken) {
        const bool full = connection.outstanding() + taken >= limits::kBusOutstandingMax;
        if (full && connection.id != kControlToken) {
            return;
        }
        auto line = connection.in.next();
        if (!line) {
            connection.has_lines = false;
            if (connection.in.overlong()) {
                push(connection,
                     error_line(0,
                                BusError::too_large,
                                "a line of more than " + std::to_string(limits::kFrameBytesMax) +
                                    " bytes"));
                connection.closing = true;
                connection.in.wipe_all();
            }
            return;
        }
        take_line(connection, std::move(*line), items);
    }
}

void Server::take_line(Connection& connection, std::string line, std::vector<Item>& items) {
    auto frame = wire::decode_frame(line);
    if (!frame) {
        push(connection, error_line(id_in(line), BusError::bad_request, frame.error().text));
    } else if (auto* request = std::get_if<wire::Request>(&*frame)) {
        core_.counts().request(asker_of(connection), request->verb);
        items.push_back({&connection, std::move(*request)});
    } else if (connection.id == kControlToken) {
        relay(std::move(std::get<wire::Reply>(*frame)));
    } else {
        push(connection, error_line(0, BusError::bad_request, "expected a request, found a reply"));
    }
    wipe(line);
}

// The host's answer to a human's request; answers to notifications tell nothing.
void Server::relay(wire::Reply reply) {
    const auto forward = forwards_.find(reply.id);
    if (forward == forwards_.end()) {
        return;
    }
    const Forward to = forward->second;
    forwards_.erase(forward);
    if (!reply.ok && to.allowance != 0) {
        give_back(to.allowance);
    }
    const auto found = connections_.find(to.connection);
    if (found == connections_.end()) {
        return;
    }
    reply.id = to.request;
    --found->second->forwards;
    push(*found->second, wire::encode(reply));
}

// Before the refusal is told, so that who asks again then passes. When the store can't be written
// the human has to allow it once more.
void Server::give_back(int64_t allowance) {
    const auto given = [&]() -> Result<void> {
        MOSAIC_TRY(store_.begin());
        MOSAIC_TRY(core_.give_back(allowance, wall_clock_ms()));
        return store_.commit();
    }();
    if (!given) {
        store_.rollback();
        log_line("decision d" + std::to_string(allowance) +
                 " counts as used, although the host refused the call: " + given.error().text);
    }
}

void Server::carry_out(const std::vector<Done>& done) {
    for (const Done& one : done) {
        if (one.outcome.kind == Outcome::Kind::forward) {
            forward(*one.to, one.request.id, one.outcome);
        } else {
            if (!one.outcome.reply.ok) {
                core_.counts().refused[static_cast<size_t>(asker_of(*one.to))].add();
            }
            std::string line = wire::encode(one.outcome.reply);
            push(*one.to, line);
            wipe(line);  // bindLaunch's has a capability
        }
        if (one.outcome.note) {
            ask_host(one.outcome.note->verb, one.outcome.note->args);
        }
    }
    for (const Done& one : done) {
        const auto run = by_run_.find(one.outcome.ended_run);
        if (run != by_run_.end()) {
            connections_.at(run->second)->closing = true;
            touched_.insert(run->second);
        }
    }
}

void Server::forward(Connection& from, int64_t request, const Outcome& outcome) {
    forwards_[next_host_request_] = {from.id, request, outcome.allowance};
    ++from.forwards;
    touched_.insert(from.id);
    ask_host(outcome.ask.verb, outcome.ask.args);
}

void Server::ask_host(const std::string& verb, json::Value args) {
    wire::Request request;
    request.id = next_host_request_++;
    request.verb = verb;
    request.args = std::move(args);
    push(control_, wire::encode(request));
}

// Once when it begins and once when it is over, not for each turn of a full disk.
void Server::report_store() {
    const bool failed = !turns_.problem().empty();
    if (failed && !store_failed_) {
        log_line(turns_.problem() +
                 "; answering storage-unavailable until it can be written again");
    } else if (!failed && store_failed_) {
        log_line("the store can be written again");
    }
    store_failed_ = failed;
}

// Once: it may come and go with each connection.
void Server::report_watches() {
    if (watches_.polled() > 0 && !std::exchange(watches_told_, true)) {
        log_line(
            "this user has no epoll watches left (fs.epoll.max_user_watches): what comes now is "
            "polled");
    }
}

void Server::follow_human() {
    if (human_ == core_.config().human) {
        return;
    }
    human_ = core_.config().human;
    for (const auto& [id, connection] : connections_) {
        if (connection->caller.kind == Caller::Kind::human) {
            // Who changed the name with a request of his own still hears what came of it.
            connection->former = true;
            touched_.insert(id);
        }
    }
}

void Server::push(Connection& connection, const std::string& bytes) {
    touched_.insert(connection.id);
    connection.out += bytes;
}

void Server::flush(Connection& connection) {
    while (connection.unsent() > 0) {
        const ssize_t wrote = send(connection.fd.get(),
                                   connection.out.data() + connection.sent,
                                   connection.unsent(),
                                   MSG_NOSIGNAL | MSG_DONTWAIT);
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote < 0) {
            if (errno != EAGAIN) {
                // Nobody reads any more; what was asked before is still handled.
                connection.hung_up = true;
                connection.sent = connection.out.size();
            }
            break;
        }
        explicit_bzero(connection.out.data() + connection.sent, static_cast<size_t>(wrote));
        connection.sent += static_cast<size_t>(wrote);
    }
    if (connection.unsent() == 0) {
        connection.out.clear();
        connection.sent = 0;
    } else if (connection.sent > limits::kFrameBytesMax) {
        connection.out.erase(0, connection.sent);
        connection.sent = 0;
    }
}

bool Server::is_over(const Connection& connection) const {
    if (connection.closing || connection.unsent() > limits::kUnreadBytesMax) {
        return true;
    }
    if (connection.former) {
        return connection.hung_up || (connection.forwards == 0 && connection.unsent() == 0);
    }
    if (connection.has_lines && connection.may_ask_more()) {
        return false;  // what it asked before it went still counts
    }
    if (connection.hung_up && (connection.ended || !connection.may_ask_more())) {
        return true;
    }
    return connection.ended && connection.outstanding() == 0 && connection.unsent() == 0;
}

void Server::finish_turn() {
    const std::set<uint64_t> touched = std::exchange(touched_, {});
    for (const uint64_t id : touched) {
        const auto found = connections_.find(id);
        const bool control = id == kControlToken;
        if (!control && found == connections_.end()) {
            continue;
        }
        Connection& connection = control ? control_ : *found->second;
        flush(connection);
        if (control && connection.closing) {
            log_line("the host sent a line that is too long");
            connection.ended = true;  // without its host the broker ends
        }
        if (!control && is_over(connection)) {
            close_connection(id);
            continue;
        }
        if (connection.has_lines && connection.may_ask_more()) {
            queue(connection);
        }
        const bool reads = !connection.ended && connection.may_ask_more();
        const uint32_t wanted =
            (reads ? uint32_t{EPOLLIN} : 0U) | (connection.unsent() > 0 ? uint32_t{EPOLLOUT} : 0U);
        if (wanted == connection.armed) {
            continue;
        }
        connection.armed = wanted;
        if (!watches_.set(connection.fd.get(), id, wanted, true) && !control) {
            close_connection(id);
        }
    }
}

void Server::close_connection(uint64_t id) {
    const auto found = connections_.find(id);
    Connection& connection = *found->second;
    turns_.forget(connection);
    if (connection.caller.kind == Caller::Kind::human) {
        --humans_;
    } else if (const auto run = by_run_.find(connection.caller.run);
               run != by_run_.end() && run->second == id) {
        by_run_.erase(run);
    }
    watches_.remove(connection.fd.get());
    connections_.erase(found);
    accept_again_ = monotonic_now();  // there is a descriptor now
}

void Server::say_goodbye() {
    for (const auto& [id, forward] : forwards_) {
        const auto found = connections_.find(forward.connection);
        if (found != connections_.end()) {
            found->second->out += error_line(
                forward.request, BusError::host_unavailable, "the host ended before it answered");
            flush(*found->second);
        }
    }
}

}  // namespace mosaic::broker
