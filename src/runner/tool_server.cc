#include "runner/tool_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "runner/socket_path.h"

namespace mosaic::runner {
namespace {

constexpr const char* kSocketName = "tools.sock";
constexpr size_t kReadBytes = size_t{4} * 1024;

}  // namespace

Result<void> ToolServer::listen(int directory) {
    MOSAIC_TRY_ASSIGN(listener_,
                      listen_in(directory, kSocketName, static_cast<int>(limits::kToolClientsMax)));
    return {};
}

void ToolServer::add_to(PollSet& polls) const {
    if (clients_.size() < limits::kToolClientsMax) {
        polls.add(listener_.get(), POLLIN);
    }
    for (const auto& client : clients_) {
        short events = 0;
        if (client->token == 0 && client->out.empty() && !client->ended) {
            events |= POLLIN;
        }
        if (!client->out.empty()) {
            events |= POLLOUT;
        }
        polls.add(client->fd.get(), events);
    }
}

std::vector<ToolServer::Pending> ToolServer::work(const PollSet& polls) {
    std::vector<Pending> calls;
    pending_ = false;
    for (const auto& client : clients_) {
        work_on(*client, polls.ready(client->fd.get()), calls);
    }
    std::erase_if(clients_, [](const auto& client) { return !client->fd.valid(); });
    // Last, so that nobody is looked at with what poll(2) said of an earlier holder of its number.
    if (polls.ready(listener_.get()) != 0) {
        accept_clients();
    }
    return calls;
}

void ToolServer::answer(uint64_t token, std::string line) {
    for (const auto& client : clients_) {
        if (token != 0 && client->token == token) {
            client->token = 0;
            client->out = std::move(line);
            flush(*client);
            pending_ = true;
            return;
        }
    }
}

bool ToolServer::waits(uint64_t token) const {
    return std::any_of(clients_.begin(), clients_.end(), [&](const auto& client) {
        return token != 0 && client->token == token;
    });
}

void ToolServer::accept_clients() {
    while (clients_.size() < limits::kToolClientsMax) {
        UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!fd.valid()) {
            return;
        }
        clients_.push_back(std::make_unique<Client>(std::move(fd)));
    }
}

void ToolServer::work_on(Client& client, short ready, std::vector<Pending>& calls) {
    const bool gone = (ready & (POLLHUP | POLLERR)) != 0;
    if (gone && (client.token != 0 || client.ended || !client.out.empty())) {
        client.fd.reset();
        return;
    }
    if ((ready & POLLOUT) != 0) {
        flush(client);
    }
    if ((ready & (POLLIN | POLLHUP | POLLERR)) != 0 && client.fd.valid()) {
        read_from(client);
    }
    take_lines(client, calls);
    if (client.ended && client.token == 0 && client.out.empty()) {
        client.fd.reset();
    }
}

void ToolServer::read_from(Client& client) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): recv fills it
    std::array<char, kReadBytes> bytes;
    const ssize_t n = ::recv(client.fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n > 0) {
        client.in.append({bytes.data(), static_cast<size_t>(n)});
    } else if (n == 0) {
        client.ended = true;
    } else if (errno != EAGAIN && errno != EINTR) {
        client.fd.reset();
    }
}

void ToolServer::take_lines(Client& client, std::vector<Pending>& calls) {
    while (client.fd.valid() && client.token == 0 && client.out.empty()) {
        const auto line = client.in.next();
        if (!line) {
            break;
        }
        auto call = decode_tool_call(*line, granted_);
        if (call) {
            client.token = next_token_++;
            calls.push_back({client.token, std::move(*call)});
        } else {
            client.out = encode_tool_error(call.error().text);
            flush(client);
        }
    }
    if (client.fd.valid() && client.token == 0 && client.out.empty() && client.in.overlong()) {
        client.in.wipe_all();
        client.ended = true;
        client.out = encode_tool_error("bad-request");
        flush(client);
    }
}

void ToolServer::flush(Client& client) {
    while (!client.out.empty()) {
        const ssize_t n = ::send(
            client.fd.get(), client.out.data(), client.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (errno != EAGAIN && errno != EINTR) {
                client.fd.reset();
                client.out.clear();
            }
            return;
        }
        client.out.erase(0, static_cast<size_t>(n));
    }
}

}  // namespace mosaic::runner
