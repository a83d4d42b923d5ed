#include "scripted_broker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "wire/limits.h"

namespace mosaic::test {

wire::AuthorizeLaunchArgs authorize_args() {
    wire::AuthorizeLaunchArgs args;
    args.caller = {"pm", ""};
    args.caller_run = "raaaaaaaaaaaa";
    args.target = {"coder", ""};
    return args;
}

json::Value empty_object() {
    return json::Value(json::Object{});
}

BrokerRig::BrokerRig() : lines_(limits::kFrameBytesMax) {
    if (!ok()) {
        return;
    }
    const std::string path = scratch / "script.sock";
    listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    REQUIRE(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
            0);
    REQUIRE(::listen(listener_.get(), 16) == 0);
    bus_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    admin_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    broker = std::make_unique<host::BrokerLink>(
        loop, host::BrokerPrograms{MOSAIC_PUPPET, path}, bus_.get(), admin_.get());
    wire::BrokerConfig config;
    config.business = "acme";
    config.human = "jordan";
    broker->set_config(config);
}

// No broker outlives its test: one that lost us sees the end of its socket.
BrokerRig::~BrokerRig() {
    if (ok()) {
        broker->shut_down();
        broker_end_.reset();
        run_until([&] { return broker->broker_gone(); });
    }
}

void BrokerRig::accept_broker() {
    wait_readable(listener_.get());
    broker_end_.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    REQUIRE(broker_end_.valid());
    lines_ = wire::LineBuffer(limits::kFrameBytesMax);
}

std::variant<wire::Request, wire::Reply> BrokerRig::next_frame() {
    for (;;) {
        if (const auto line = lines_.next()) {
            auto frame = wire::decode_frame(*line);
            if (!frame) {
                FAIL(frame.error().text);
            }
            return *frame;
        }
        wait_readable(broker_end_.get());
        std::array<char, 65536> buffer{};
        const ssize_t n = ::recv(broker_end_.get(), buffer.data(), buffer.size(), 0);
        REQUIRE_MESSAGE(n > 0, "the broker is gone");
        lines_.append({buffer.data(), static_cast<size_t>(n)});
    }
}

wire::Request BrokerRig::next_request(const std::string& verb) {
    auto frame = next_frame();
    auto* request = std::get_if<wire::Request>(&frame);
    REQUIRE(request != nullptr);
    REQUIRE(request->verb == verb);
    return std::move(*request);
}

wire::Reply BrokerRig::next_reply() {
    auto frame = next_frame();
    auto* reply = std::get_if<wire::Reply>(&frame);
    REQUIRE(reply != nullptr);
    return std::move(*reply);
}

void BrokerRig::say(const std::string& bytes) {
    constexpr size_t kPiece = 32768;
    for (size_t at = 0; at < bytes.size(); at += kPiece) {
        const size_t size = std::min(kPiece, bytes.size() - at);
        // A broker that was killed meanwhile hears no more.
        if (::send(broker_end_.get(), bytes.data() + at, size, MSG_NOSIGNAL) < 0) {
            return;
        }
        tick_now();
    }
}

void BrokerRig::say_unread(const wire::Request& request) {
    // The link's end of its socketpair: no other stream of this domain is open here.
    std::vector<pollfd> ends;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        const int fd = std::stoi(entry.path().filename());
        int domain = 0;
        int type = 0;
        socklen_t size = sizeof(domain);
        if (fd > STDERR_FILENO && ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
            domain == AF_UNIX && ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
            type == SOCK_STREAM) {
            ends.push_back({fd, POLLIN, 0});
        }
    }
    REQUIRE(ends.size() == 1);
    const std::string bytes = wire::encode(request);
    REQUIRE(::send(broker_end_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
    REQUIRE(::poll(ends.data(), ends.size(), static_cast<int>(kPatienceMs)) == 1);
}

void BrokerRig::serve_start(const wire::BoundResult& bound) {
    const wire::Request config = next_request("config");
    CHECK(wire::BrokerConfig::from(config.args)->business == "acme");
    say(wire::reply_ok(config.id, empty_object()));
    say(wire::reply_ok(next_request("bound").id, bound.to_value()));
    run_until([&] { return broker->ready(); });
}

void BrokerRig::expect_dead() {
    for (;;) {
        wait_readable(broker_end_.get());
        std::array<char, 65536> buffer{};
        if (::recv(broker_end_.get(), buffer.data(), buffer.size(), 0) <= 0) {
            return;
        }
    }
}

void BrokerRig::exit_with(int code) {
    say("!exit " + std::to_string(code));
    expect_dead();
}

host::BrokerNews BrokerRig::next_news(host::BrokerNews::Kind kind) {
    for (;;) {
        run_until([&] { return !news.empty(); });
        host::BrokerNews next = std::move(news.front());
        news.pop_front();
        if (next.kind == kind) {
            return next;
        }
    }
}

}  // namespace mosaic::test
