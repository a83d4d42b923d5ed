#include "e2e/puppet.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

namespace mosaic::e2e {
namespace {

bool wait_readable(int fd, int timeout_ms) {
    pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&p, 1, timeout_ms) > 0;
}

}  // namespace

PuppetMaster::PuppetMaster(const World& world, std::string_view instance)
    : world_(world), instance_(instance), workspace_(world.workspace(instance)) {
    const std::string path = workspace_ + "/puppet.sock";
    ::unlink(path.c_str());
    listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(path.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, path.c_str(), path.size());
    REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_.get(), 64) == 0);
}

void PuppetMaster::set_mode(std::string_view mode) const {
    write_text(workspace_ + "/puppet.mode", mode);
}

Puppet PuppetMaster::launch(LineStream& admin, int64_t& id) const {
    const int64_t deadline = now_ms() + kWaitMs;
    while (true) {
        id = admin.ask("launch", object({{"instance", instance_}}));
        std::array<pollfd, 2> wait{pollfd{.fd = listener_.get(), .events = POLLIN, .revents = 0},
                                   pollfd{.fd = admin.fd(), .events = POLLIN, .revents = 0}};
        ::poll(wait.data(), wait.size(), kWaitMs);
        if (wait[1].revents == 0) {
            return accept();
        }
        const json::Value reply = admin.reply(id);
        REQUIRE_MESSAGE(text(reply, "error") == "instance-running", json::dump(reply));
        REQUIRE(now_ms() < deadline);
    }
}

Puppet PuppetMaster::accept() const {
    REQUIRE_MESSAGE(wait_readable(listener_.get(), kWaitMs),
                    "no runner came; the host's log:\n"
                        << world_.host_log());
    LineStream control(UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    REQUIRE(control.valid());
    const auto hello = control.line();
    REQUIRE(hello.has_value());
    REQUIRE(hello->rfind("hello ", 0) == 0);
    return Puppet(world_, std::move(control), hello->substr(6));
}

bool PuppetMaster::none_starts(int timeout_ms) const {
    return !wait_readable(listener_.get(), timeout_ms);
}

Puppet::Puppet(const World& world, LineStream control, std::string run)
    : world_(world), control_(std::move(control)), run_(std::move(run)) {}

std::string Puppet::command(std::string_view line) {
    REQUIRE(control_.send(std::string(line) + "\n"));
    const auto answer = control_.line();
    REQUIRE_MESSAGE(answer.has_value(), "the runner is gone: " << line);
    return *answer;
}

std::string Puppet::capability_line() {
    return command("capability");
}

std::string Puppet::capability() {
    const std::string line = capability_line();
    const auto value = json::parse(line);
    REQUIRE_MESSAGE(value.has_value(), "not a capability line: " << line);
    return text(*value, "cap");
}

LineStream Puppet::connect(const std::string& path) {
    REQUIRE(control_.send("connect " + path + "\n"));
    // One recvmsg for the answer and the descriptor: they travel together.
    std::array<char, 64> bytes{};
    iovec io{.iov_base = bytes.data(), .iov_len = bytes.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
    msghdr message{};
    message.msg_iov = &io;
    message.msg_iovlen = 1;
    message.msg_control = space.data();
    message.msg_controllen = space.size();
    REQUIRE(wait_readable(control_.fd(), kWaitMs));
    REQUIRE(::recvmsg(control_.fd(), &message, MSG_CMSG_CLOEXEC) > 0);
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_type != SCM_RIGHTS) {
        return LineStream();
    }
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return LineStream(UniqueFd(fd));
}

LineStream Puppet::claim(const std::string& capability) {
    LineStream bus = connect(world_.bus_host() + "/bus.sock");
    REQUIRE(bus.valid());
    const json::Value reply = bus.request("role.claim", object({{"run", run_}}), capability);
    REQUIRE_MESSAGE(*reply.find("ok") == json::Value(true), json::dump(reply));
    return bus;
}

void Puppet::exit(int code) {
    REQUIRE(control_.send("exit " + std::to_string(code) + "\n"));
}

void Puppet::make_deaf() {
    REQUIRE(command("deaf") == "deaf");
}

void Puppet::let_outlive() {
    REQUIRE(command("outlive") == "outlive");
}

std::string Puppet::environment() {
    return command("environment");
}

}  // namespace mosaic::e2e
