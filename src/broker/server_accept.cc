// Who may connect. Decided by what the kernel says of the peer, before a byte of it is read.

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

#include "broker/server.h"
#include "process/descriptors.h"
#include "wire/limits.h"

namespace mosaic::broker {
namespace {

constexpr int kAcceptsPerTick = 32;

void send_once(int fd, const std::string& line) {
    // A peer that can't take this one line learns it from the end of the stream.
    const ssize_t sent = send(fd, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    ignore(sent, "see above");
}

void refuse(int fd, BusError code, std::string message) {
    send_once(fd, wire::encode(wire::reply_error(0, to_string(code), std::move(message))));
}

}  // namespace

void Server::accept_all(bool admin) {
    for (int i = 0; i < kAcceptsPerTick; ++i) {
        if (!accept_one(admin)) {
            return;
        }
    }
}

bool Server::accept_one(bool admin) {
    const int listener = admin ? sockets_.admin.get() : sockets_.bus.get();
    // A run that can't claim is lost, so its connections may use what the human's may not, and the
    // store's own files come last of all.
    const size_t reserve =
        admin ? limits::kDescriptorsInReserve : limits::kDescriptorsKeptFromRunners;
    if (!process::descriptors_left(listener, reserve)) {
        ignore(pause_accepting(admin, EMFILE), "changing what a watched descriptor is watched for");
        return false;
    }
    UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
        if (errno == EINTR || errno == ECONNABORTED) {
            return true;
        }
        if (errno == EAGAIN) {
            // Nobody waits any more: the next time is news.
            (admin ? admin_pause_ : bus_pause_).told = false;
        } else {
            ignore(pause_accepting(admin, errno),
                   "changing what a watched descriptor is watched for");
        }
        return false;
    }
    if (admin) {
        admit_human(std::move(fd));
    } else {
        admit_runner(std::move(fd));
    }
    return true;
}

void Server::admit_runner(UniqueFd fd) {
    const auto peer = process::peer_of(fd.get());
    if (!peer) {
        core_.counts().bus_strangers.add();
        return;
    }
    const auto run = store_.live_run_by({int64_t{peer->pid}, peer->start_time});
    if (!run) {
        log_line(run.error().text);
        return;
    }
    if (!*run) {
        core_.counts().bus_strangers.add();
        return;
    }
    if (const auto old = by_run_.find((*run)->run); old != by_run_.end()) {
        close_connection(old->second);
    }
    Caller caller;
    caller.kind = Caller::Kind::session;
    caller.run = (*run)->run;
    const Connection* connection = add_connection(std::move(fd), caller, (*run)->seat);
    if (connection != nullptr) {
        by_run_[(*run)->run] = connection->id;
    }
}

void Server::admit_human(UniqueFd fd) {
    const auto peer = process::peer_of(fd.get());
    if (!peer) {
        core_.counts().admin_strangers.add();
        refuse(fd.get(), BusError::not_human, peer.error().text);
        return;
    }
    const auto live = store_.live_runs();
    if (!live) {
        log_line(live.error().text);
        refuse(fd.get(), BusError::storage_unavailable, "the broker's store can't be read");
        return;
    }
    std::vector<pid_t> sessions;
    for (const Run& run : *live) {
        sessions.push_back(static_cast<pid_t>(run.process.pid));
        sessions.push_back(static_cast<pid_t>(run.process.runner_pid));
    }
    if (const auto human = process::check_human(*peer, sessions); !human) {
        core_.counts().admin_strangers.add();
        refuse(fd.get(), BusError::not_human, human.error().text);
        return;
    }
    if (humans_ >= limits::kAdminClientsMax) {
        refuse(fd.get(),
               BusError::quota_exceeded,
               std::to_string(humans_) + " connections are open already");
        return;
    }
    Caller caller;
    caller.kind = Caller::Kind::human;
    if (add_connection(std::move(fd), caller, {core_.config().human, ""}) != nullptr) {
        ++humans_;
    }
}

Connection* Server::add_connection(UniqueFd fd, Caller caller, Seat mailbox) {
    auto connection = std::make_unique<Connection>();
    connection->id = next_connection_++;
    connection->fd = std::move(fd);
    connection->caller = std::move(caller);
    connection->mailbox = std::move(mailbox);
    connection->armed = EPOLLIN;
    if (const auto watched = watches_.set(connection->fd.get(), connection->id, EPOLLIN, false);
        !watched) {
        log_line(watched.error().text);
        return nullptr;
    }
    Connection* out = connection.get();
    connections_[out->id] = std::move(connection);
    return out;
}

}  // namespace mosaic::broker
