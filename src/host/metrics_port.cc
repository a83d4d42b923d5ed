#include "host/metrics_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "host/log.h"
#include "process/descriptors.h"
#include "wire/limits.h"

namespace mosaic::host {
namespace {

using metrics::HttpAsk;

constexpr Duration kListenAgain = seconds(10);
constexpr Duration kAcceptAgain = milliseconds(100);
constexpr int kBacklog = 16;
// What a client may send past its request. Nobody has a reason to send any.
constexpr size_t kDroppedBytesMax = size_t{64} * 1024;

Result<UniqueFd> listen_on_loopback(int64_t port) {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.valid()) {
        return fail_sys(errno, "socket");
    }
    // Connections of an earlier host that the kernel still remembers don't hold the port.
    const int on = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the socket API's own cast
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return fail_sys(errno, "bind");
    }
    if (::listen(socket.get(), kBacklog) != 0) {
        return fail_sys(errno, "listen");
    }
    return socket;
}

}  // namespace

MetricsPort::MetricsPort(Loop& loop) : loop_(loop) {
    own(accept_op_, Owner::metrics_accept, 0);
    for (size_t i = 0; i < clients_.size(); ++i) {
        own(clients_[i].recv_op, Owner::metrics_recv, static_cast<uint32_t>(i));
        own(clients_[i].send_op, Owner::metrics_send, static_cast<uint32_t>(i));
    }
}

void MetricsPort::serve(int64_t port) {
    if (port == port_) {
        return;
    }
    port_ = port;
    complained_ = false;
    if (!listener_.valid()) {
        listen();
        return;
    }
    // TRAP-15: a descriptor that is waited on is closed only after that wait is over.
    closing_ = true;
    loop_.ring->cancel(accept_op_);
    if (accept_op_.idle()) {
        listen();
    }
}

void MetricsPort::listen() {
    closing_ = false;
    listener_.reset();
    if (port_ == 0) {
        return;
    }
    auto listener = listen_on_loopback(port_);
    if (!listener) {
        if (!std::exchange(complained_, true)) {
            log_line("metrics can't be served on 127.0.0.1:" + std::to_string(port_) + " (" +
                     listener.error().text + "); trying again every 10 s");
        }
        try_again(kListenAgain);
        return;
    }
    listener_ = std::move(*listener);
    complained_ = false;
    log_line("serving metrics at http://127.0.0.1:" + std::to_string(port_) + "/metrics");
    accept_more();
}

void MetricsPort::try_again(Duration after) {
    if (!std::exchange(timer_, true)) {
        loop_.set_timer(TimerKind::metrics_listen, 0, 0, after);
    }
}

void MetricsPort::on_listen_timer() {
    timer_ = false;
    if (!listener_.valid()) {
        listen();
    } else {
        accept_more();
    }
}

void MetricsPort::accept_more() {
    const bool room = std::any_of(clients_.begin(), clients_.end(), [](const Client& client) {
        return client.phase == Phase::free;
    });
    if (!listener_.valid() || closing_ || !accept_op_.idle() || !room) {
        return;
    }
    // The last descriptors are for launches and ends.
    if (!process::descriptors_left(listener_.get(), limits::kDescriptorsInReserve)) {
        try_again(kAcceptAgain);
        return;
    }
    loop_.ring->accept(accept_op_, listener_.get());
}

void MetricsPort::on_accept() {
    const int result = accept_op_.result();
    if (result >= 0) {
        add(UniqueFd(result));
    }
    if (closing_) {
        listen();
    } else if (result < 0) {
        try_again(kAcceptAgain);
    } else {
        accept_more();
    }
}

void MetricsPort::add(UniqueFd socket) {
    auto* const free = std::find_if(clients_.begin(), clients_.end(), [](const Client& client) {
        return client.phase == Phase::free;
    });
    if (free == clients_.end()) {
        return;  // the socket closes
    }
    Client& client = *free;
    client.phase = Phase::reading;
    client.number = next_number_++;
    client.socket = std::move(socket);
    client.head.clear();
    client.response.clear();
    client.sent = 0;
    client.dropped = 0;
    loop_.set_timer(TimerKind::metrics_client,
                    static_cast<uint32_t>(free - clients_.begin()),
                    client.generation,
                    milliseconds(kMetricsClientMs));
    read_more(client);
    make_room();
}

// When the last slot was taken the oldest connection goes, so that one is free again at once.
void MetricsPort::make_room() {
    Client* oldest = nullptr;
    for (Client& client : clients_) {
        if (client.phase == Phase::free || client.phase == Phase::broken) {
            return;
        }
        if (oldest == nullptr || client.number < oldest->number) {
            oldest = &client;
        }
    }
    MOSAIC_ASSERT(oldest != nullptr);
    break_off(*oldest);
}

void MetricsPort::break_off(Client& client) {
    client.phase = Phase::broken;
    ::shutdown(client.socket.get(), SHUT_RDWR);
}

void MetricsPort::read_more(Client& client) {
    loop_.ring->recv(
        client.recv_op, client.socket.get(), client.buffer.data(), client.buffer.size());
}

void MetricsPort::on_recv_done(uint32_t index) {
    Client& client = clients_[index];
    const int result = client.recv_op.result();
    if (client.phase == Phase::broken) {
        return;
    }
    if (result <= 0) {
        // Who has said what it wants may say that this is all, and still waits for its answer.
        const bool may_wait = result == 0 && client.phase != Phase::draining;
        if (client.phase == Phase::reading || !may_wait) {
            break_off(client);
        }
        return;
    }
    if (client.phase == Phase::reading) {
        client.head.append(client.buffer.data(), static_cast<size_t>(result));
        judge(client);
    } else {
        client.dropped += static_cast<size_t>(result);
    }
    // What follows a request is read and dropped: a close with something unread would be a reset,
    // and could take the answer with it.
    if (client.dropped <= kDroppedBytesMax) {
        read_more(client);
    } else {
        break_off(client);
    }
}

void MetricsPort::judge(Client& client) {
    const HttpAsk ask = metrics::judge_request(client.head);
    if (ask == HttpAsk::incomplete) {
        return;
    }
    client.head.clear();
    if (ask == HttpAsk::metrics) {
        client.phase = Phase::waiting;
        question_ = true;
    } else {
        respond(client, ask, "");
    }
}

bool MetricsPort::take_question() {
    return std::exchange(question_, false);
}

void MetricsPort::answer(const std::string& text) {
    for (Client& client : clients_) {
        if (client.phase == Phase::waiting) {
            respond(client, HttpAsk::metrics, text);
        }
    }
}

void MetricsPort::respond(Client& client, HttpAsk ask, const std::string& body) {
    client.phase = Phase::sending;
    client.response = metrics::http_response(ask, body);
    send_more(client);
}

void MetricsPort::send_more(Client& client) {
    loop_.ring->send(client.send_op,
                     client.socket.get(),
                     client.response.data() + client.sent,
                     client.response.size() - client.sent);
}

void MetricsPort::on_send_done(uint32_t index) {
    Client& client = clients_[index];
    const int result = client.send_op.result();
    if (client.phase == Phase::broken) {
        return;
    }
    if (result <= 0) {
        break_off(client);
        return;
    }
    client.sent += static_cast<size_t>(result);
    if (client.sent < client.response.size()) {
        send_more(client);
        return;
    }
    client.phase = Phase::draining;
    ::shutdown(client.socket.get(), SHUT_WR);
    // Its side is closed when nothing is read any more; a read that waits in this tick isn't idle.
    if (client.recv_op.idle()) {
        break_off(client);
    }
}

void MetricsPort::on_client_timer(uint32_t index, uint32_t generation) {
    Client& client = clients_[index];
    if (client.generation == generation && client.phase != Phase::free) {
        break_off(client);
    }
}

size_t MetricsPort::open_connections() const {
    return static_cast<size_t>(
        std::count_if(clients_.begin(), clients_.end(), [](const Client& client) {
            return client.phase != Phase::free;
        }));
}

void MetricsPort::recycle() {
    for (Client& client : clients_) {
        if (client.phase == Phase::broken && client.recv_op.idle() && client.send_op.idle()) {
            client.phase = Phase::free;
            ++client.generation;
            client.socket.reset();
            client.response = {};
            accept_more();
        }
    }
}

}  // namespace mosaic::host
