#include "host/clients.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/secret.h"
#include "wire/limits.h"
#include "wire/messages.h"

namespace mosaic::host {

Clients::Clients(Loop& loop) : loop_(loop) {}

Clients::Client* Clients::find(SlotRef ref) {
    if (ref.index >= clients_.size()) {
        return nullptr;
    }
    Client* client = clients_[ref.index].get();
    return client->in_use && client->generation == ref.generation ? client : nullptr;
}

void Clients::add(UniqueFd socket, SlotRef run) {
    size_t free = clients_.size();
    for (size_t i = 0; i < clients_.size(); ++i) {
        Client& other = *clients_[i];
        if (other.in_use && other.run == run) {
            break_off(other);
        }
        if (!other.in_use) {
            free = std::min(free, i);
        }
    }
    if (free == limits::kLaunchClientsMax) {
        // The answer to whatever it asks first. It fits into any socket's buffer.
        const std::string busy = wire::encode_launch_refusal(Refusal::busy, "", "");
        const ssize_t sent =
            ::send(socket.get(), busy.data(), busy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        ignore(sent, "a peer that has gone hears nothing");
        return;
    }
    if (free == clients_.size()) {
        clients_.push_back(std::make_unique<Client>());
    }
    Client& client = *clients_[free];
    client.in_use = true;
    client.input_over = false;
    client.broken = false;
    client.run = run;
    client.socket = std::move(socket);
    client.lines = wire::LineBuffer(limits::kLaunchLineBytesMax);
    client.next_number = 0;
    const auto index = static_cast<uint32_t>(free);
    own(client.recv_op, Owner::client_recv, index);
    own(client.send_op, Owner::client_send, index);
    read_more(index);
}

void Clients::end_of_run(SlotRef run) {
    for (const auto& client : clients_) {
        if (client->in_use && client->run == run) {
            client->input_over = true;
            ::shutdown(client->socket.get(), SHUT_RD);
        }
    }
}

void Clients::break_off(Client& client) {
    client.broken = true;
    client.input_over = true;
    client.waiting.clear();
    ::shutdown(client.socket.get(), SHUT_RDWR);
}

void Clients::read_more(uint32_t index) {
    Client& client = *clients_[index];
    const bool full = client.waiting.size() >= limits::kLaunchOutstandingMax;
    if (!client.input_over && !full && client.recv_op.idle()) {
        loop_.ring->recv(
            client.recv_op, client.socket.get(), client.buffer.data(), client.buffer.size());
    }
}

void Clients::on_recv_done(uint32_t index) {
    Client& client = *clients_[index];
    const int result = client.recv_op.result();
    // After the connection or its run ended nothing counts any more that was still under way.
    if (result > 0 && !client.input_over) {
        client.lines.append({client.buffer.data(), static_cast<size_t>(result)});
    }
    if (result > 0) {
        explicit_bzero(client.buffer.data(), static_cast<size_t>(result));
    }
    if (client.input_over) {
        return;
    }
    if (result <= 0) {
        client.input_over = true;
        if (!client.lines.empty() && !client.lines.overlong()) {
            client.lines.append("\n");  // a last line without its newline is a request too
        }
    }
    take_lines(index);
    read_more(index);
}

void Clients::take_lines(uint32_t index) {
    Client& client = *clients_[index];
    while (client.waiting.size() < limits::kLaunchOutstandingMax) {
        auto line = client.lines.next();
        const bool overlong = !line && client.lines.overlong();
        if (!line && !overlong) {
            break;
        }
        const uint64_t number = client.next_number++;
        client.waiting.push_back({number, std::nullopt});
        requests_.push_back({{index, client.generation},
                             number,
                             client.run,
                             line ? std::move(*line) : std::string(),
                             overlong});
        if (overlong) {
            client.lines.wipe_all();
            client.input_over = true;
            break;
        }
    }
}

std::optional<ClientRequest> Clients::take_request() {
    if (requests_.empty()) {
        return std::nullopt;
    }
    ClientRequest request = std::move(requests_.front());
    requests_.pop_front();
    return request;
}

void Clients::answer(SlotRef ref, uint64_t number, std::string reply) {
    Client* client = find(ref);
    if (client == nullptr || client->broken) {
        return;
    }
    const auto waiting = std::find_if(client->waiting.begin(),
                                      client->waiting.end(),
                                      [&](const Waiting& w) { return w.number == number; });
    if (waiting != client->waiting.end()) {
        waiting->reply = std::move(reply);
        send_more(ref.index);
    }
}

void Clients::send_more(uint32_t index) {
    Client& client = *clients_[index];
    if (!client.send_op.idle() || client.broken) {
        return;
    }
    if (client.sent == client.sending.size()) {
        client.sending.clear();
        client.sent = 0;
        while (!client.waiting.empty() && client.waiting.front().reply) {
            client.sending += *client.waiting.front().reply;
            client.waiting.pop_front();
        }
    }
    if (!client.sending.empty()) {
        loop_.ring->send(client.send_op,
                         client.socket.get(),
                         client.sending.data() + client.sent,
                         client.sending.size() - client.sent);
    }
}

void Clients::on_send_done(uint32_t index) {
    Client& client = *clients_[index];
    const int result = client.send_op.result();
    if (result < 0) {
        if (!client.broken) {
            break_off(client);
        }
        return;
    }
    client.sent += static_cast<size_t>(result);
    send_more(index);
    take_lines(index);
    read_more(index);
}

size_t Clients::open_connections() const {
    return static_cast<size_t>(std::count_if(
        clients_.begin(), clients_.end(), [](const auto& client) { return client->in_use; }));
}

void Clients::recycle() {
    for (const auto& client : clients_) {
        const bool quiet = client->recv_op.idle() && client->send_op.idle();
        const bool nothing_to_send = client->broken || client->waiting.empty();
        if (client->in_use && client->input_over && quiet && nothing_to_send &&
            (client->broken || client->sent == client->sending.size())) {
            client->in_use = false;
            ++client->generation;
            client->socket.reset();
            client->lines.wipe_all();
            client->sending.clear();
            client->sent = 0;
        }
    }
}

}  // namespace mosaic::host
