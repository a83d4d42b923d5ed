#include "fixture.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "process/pidfd.h"
#include "process/proc.h"

namespace mosaic::broker::test {
namespace {

constexpr int kPatienceMs = 20'000;

sockaddr_un address_of(const std::string& path) {
    sockaddr_un out{};
    out.sun_family = AF_UNIX;
    REQUIRE(path.size() < sizeof out.sun_path);
    std::memcpy(out.sun_path, path.c_str(), path.size());
    return out;
}

UniqueFd listen_on(const std::string& path) {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = address_of(path);
    REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(listen(fd.get(), 128) == 0);
    return fd;
}

bool readable(int fd) {
    pollfd wait{fd, POLLIN, 0};
    const int ready = poll(&wait, 1, kPatienceMs);
    REQUIRE_MESSAGE(ready == 1, "nothing came");
    return true;
}

// The runner process's life: each byte on the channel asks for one more connection to the path that
// follows it. Only system calls: it is a fork of a test.
[[noreturn]] void serve_connections(int channel) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::array<char, 256> path{};
    while (true) {
        const ssize_t got = recv(channel, path.data(), path.size() - 1, 0);
        if (got <= 0) {
            _exit(0);
        }
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path, path.data(), static_cast<size_t>(got));
        const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
            _exit(1);
        }
        char byte = 'c';
        iovec data{&byte, 1};
        alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
        sendmsg(channel, &message, MSG_NOSIGNAL);
        ::close(fd);
    }
}

}  // namespace

void Line::send_bytes(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
        const ssize_t wrote =
            ::send(fd_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        REQUIRE(wrote > 0);
        sent += static_cast<size_t>(wrote);
    }
}

int64_t Line::post(const std::string& verb, json::Value args, const std::string& cap) {
    const int64_t id = next_++;
    send_bytes(wire::encode(wire::Request{id, verb, cap, std::move(args)}));
    return id;
}

bool Line::read_more() {
    readable(fd_.get());
    std::array<char, 65536> buffer{};
    const ssize_t got = recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) {
        return false;
    }
    in_.append({buffer.data(), static_cast<size_t>(got)});
    take_frames();
    return true;
}

void Line::take_frames() {
    while (const auto line = in_.next()) {
        auto frame = wire::decode_frame(*line);
        REQUIRE(frame);
        if (auto* reply = std::get_if<wire::Reply>(&*frame)) {
            replies_[reply->id] = std::move(*reply);
        } else {
            requests_.push_back(std::get<wire::Request>(std::move(*frame)));
        }
    }
    REQUIRE_FALSE(in_.overlong());
}

wire::Reply Line::wait_reply(int64_t id) {
    while (!replies_.contains(id)) {
        REQUIRE_MESSAGE(read_more(), "the stream ended");
    }
    wire::Reply out = std::move(replies_[id]);
    replies_.erase(id);
    return out;
}

wire::Request Line::wait_request() {
    while (requests_.empty()) {
        REQUIRE_MESSAGE(read_more(), "the stream ended");
    }
    wire::Request out = std::move(requests_.front());
    requests_.pop_front();
    return out;
}

bool Line::closed() {
    while (read_more()) {
    }
    return true;
}

Runner::Runner() {
    std::array<int, 2> pair{};
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
        // Nothing of the test's stays open in it, the control pair above all.
        constexpr int kChannel = 3;
        dup2(pair[1], kChannel);
        close_range(kChannel + 1, ~0U, 0);
        serve_connections(kChannel);
    }
    ::close(pair[1]);
    channel_.reset(pair[0]);
    const auto stat = process::read_stat(pid_);
    REQUIRE(stat);
    start_time_ = stat->start_time;
}

Runner::~Runner() {
    kill();
}

void Runner::kill() {
    if (pid_ > 0) {
        ::kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
}

UniqueFd Runner::connect(const std::string& path) {
    REQUIRE(::send(channel_.get(), path.data(), path.size(), MSG_NOSIGNAL) > 0);
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    REQUIRE(recvmsg(channel_.get(), &message, MSG_CMSG_CLOEXEC) == 1);
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return UniqueFd(fd);
}

wire::ProcessIdentity Runner::identity() const {
    return {pid_, start_time_, pid_, start_time_};
}

UniqueFd connect_to(const std::string& path) {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = address_of(path);
    REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    return fd;
}

World::World() : directory(MOSAIC_BUILD_DIR "/broker-XXXXXX") {
    REQUIRE(mkdtemp(directory.data()) != nullptr);
    store = directory + "/broker.sqlite";
    bus_path = directory + "/bus.sock";
    admin_path = directory + "/admin.sock";
    bus_ = listen_on(bus_path);
    admin_ = listen_on(admin_path);
}

World::~World() {
    if (process_) {
        ignore(process::signal_pidfd(process_->pidfd(), SIGKILL), "it may have ended");
        static_cast<void>(wait_end());
    }
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
}

void World::start() {
    std::array<int, 2> pair{};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0);
    UniqueFd theirs(pair[1]);
    host = std::make_unique<Line>(UniqueFd(pair[0]));
    log_.reset(::open((directory + "/log").c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600));
    process::SpawnSpec spec;
    spec.path = MOSAIC_BROKER;
    spec.argv = {
        "mosaic-broker", "--store", store, "--control-fd", "3", "--bus-fd", "4", "--admin-fd", "5"};
    spec.descriptors = {{log_.get(), 2}, {theirs.get(), 3}, {bus_.get(), 4}, {admin_.get(), 5}};
    spec.parent_death_kill = true;
    auto spawned = process::spawn(spec);
    REQUIRE(spawned);
    process_.emplace(std::move(*spawned));
    REQUIRE(process_->wait_exec());
}

void World::start_configured() {
    start();
    REQUIRE(host->ask("config", acme().to_value()).ok);
}

Ended World::stop() {
    host.reset();
    return wait_end();
}

void World::send_signal(int signal) const {
    REQUIRE(process::signal_pidfd(process_->pidfd(), signal));
}

Ended World::wait_end() {
    readable(process_->pidfd());
    const auto exit = process::reap(process_->pidfd());
    REQUIRE(exit);
    process_.reset();
    Ended out{exit->exit_code, exit->signal, ""};
    out.log.resize(65536);
    const ssize_t got = pread(log_.get(), out.log.data(), out.log.size(), 0);
    out.log.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return out;
}

std::string World::bind(const Runner& runner, const Seat& seat, const std::string& run) {
    wire::BindLaunchArgs args;
    args.seat = seat;
    args.run = run;
    args.harness = "script";
    args.provider = "none";
    args.model = "echo";
    args.launched_by = "jordan";
    args.process = runner.identity();
    const auto reply = host->ask("bindLaunch", args.to_value());
    REQUIRE_MESSAGE(reply.ok, reply.message);
    return text_of(reply.result, "cap");
}

World::Session World::session(const Seat& seat, const std::string& run) {
    Session out;
    out.runner = std::make_unique<Runner>();
    out.seat = seat;
    out.run = run;
    out.cap = bind(*out.runner, seat, run);
    out.line = std::make_unique<Line>(out.runner->connect(bus_path));
    claim(out);
    return out;
}

void World::claim(const Session& session) {
    const auto reply = session.ask("role.claim", wire::ClaimArgs{session.run}.to_value());
    REQUIRE_MESSAGE(reply.ok, reply.message);
    const auto note = host->wait_request();
    REQUIRE(note.verb == "claimed");
    host->answer(wire::reply_ok(note.id, kNothing));
}

std::vector<json::Value> World::all_events() const {
    const auto human = admin();
    std::vector<json::Value> out;
    while (true) {
        wire::EventsArgs args;
        args.since = static_cast<int64_t>(out.size());
        const auto reply = human->ask("events", args.to_value());
        REQUIRE(reply.ok);
        const json::Array& page = *reply.result.find("events")->array();
        if (page.empty()) {
            return out;
        }
        out.insert(out.end(), page.begin(), page.end());
    }
}

wire::BrokerConfig acme() {
    wire::BrokerConfig out;
    out.business = "acme";
    out.human = "jordan";
    out.roles = {{"pm", {"message.send", "role.launch"}, {}, {}},
                 {"coder", {"message.send"}, {}, {}}};
    out.launch_by = "pm";
    out.launch_instances = {"coder"};
    out.modules = {"script"};
    return out;
}

std::string text_of(const json::Value& object, const char* key) {
    const json::Value* value = object.find(key);
    return value != nullptr && value->string() != nullptr ? *value->string() : "(none)";
}

wire::MessageSendArgs letter(const Seat& to, const std::string& body) {
    wire::MessageSendArgs out;
    out.to = to;
    out.body = body;
    return out;
}

}  // namespace mosaic::broker::test
