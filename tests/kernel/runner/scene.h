#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/instant.h"
#include "process/pidfd.h"
#include "process/spawn.h"
#include "wire/limits.h"
#include "wire/lines.h"
#include "wire/messages.h"
#include "wire/session_file.h"

// A runner with everything around it played by the test: the host (run directory, capability line)
// and the broker (a listening bus.sock). Every wait is for an event, with an end that fails the
// test.

namespace scene {

using namespace mosaic;

constexpr int kPatienceMs = 20'000;
constexpr const char* kCapability = "c4nary-capability-0123456789abcdef0123456789abcdef";
constexpr uid_t kNobody = 65534;
constexpr const char* kRun = "r0123456789ab";

inline void wait_readable(int fd) {
    pollfd poll_fd{fd, POLLIN, 0};
    REQUIRE(::poll(&poll_fd, 1, kPatienceMs) == 1);
}

inline std::string read_text(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

inline void write_text(const std::string& path, std::string_view text) {
    std::ofstream(path) << text;
}

// One end of a line protocol, blocking with patience.
class Peer {
  public:
    explicit Peer(UniqueFd fd) : fd_(std::move(fd)), lines_(limits::kFrameBytesMax) {}

    // Nothing: the other side has closed.
    std::optional<std::string> line() {
        for (;;) {
            if (auto line = lines_.next()) {
                return line;
            }
            wait_readable(fd_.get());
            char bytes[16384];
            const ssize_t n = ::recv(fd_.get(), bytes, sizeof(bytes), 0);
            if (n <= 0) {
                return std::nullopt;
            }
            lines_.append({bytes, static_cast<size_t>(n)});
        }
    }

    void send(std::string_view text) {
        REQUIRE(::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(text.size()));
    }

    // The next request, which must be of this verb and carry the capability.
    wire::Request expect(const std::string& verb) {
        const auto text = line();
        REQUIRE(text.has_value());
        auto frame = wire::decode_frame(*text);
        REQUIRE_MESSAGE(frame.has_value(), *text);
        REQUIRE(std::holds_alternative<wire::Request>(*frame));
        auto request = std::get<wire::Request>(*frame);
        REQUIRE(request.verb == verb);
        CHECK(request.cap == kCapability);
        return request;
    }

    void ok(const wire::Request& request, json::Value result = json::Value(json::Object{})) {
        send(wire::encode(wire::reply_ok(request.id, std::move(result))));
    }

    void refuse(const wire::Request& request, std::string_view code) {
        send(wire::encode(wire::reply_error(request.id, code, "")));
    }

    void close() { fd_.reset(); }

    void half_close() { ::shutdown(fd_.get(), SHUT_WR); }

    [[nodiscard]] int fd() const { return fd_.get(); }

  private:
    UniqueFd fd_;
    wire::LineBuffer lines_;
};

// A message as the broker hands it out.
inline json::Value delivery(const std::string& id,
                            const std::string& body,
                            wire::MessageClass message_class = wire::MessageClass::request) {
    wire::MessageReceiveResult out;
    out.message = wire::Message{id, "pm", "", message_class, body, "2026-01-31T12:00:00.000Z", ""};
    out.state = {"2026-01-31T12:34:56.789Z", true, "", 0};
    return out.to_value();
}

struct StartOptions {
    std::vector<std::string> prefix;  // what runs the runner: bwrap and its arguments
    std::vector<std::string> env;     // added to PATH
    bool capability = true;           // send the line
};

class Scene {
  public:
    Scene() {
        std::string name = std::string(MOSAIC_BUILD_DIR) + "/runner-XXXXXX";
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        root = name;
        run_directory = root + "/run";
        for (const char* one : {"/run",
                                "/run/bundle",
                                "/run/rw",
                                "/run/rw/turns",
                                "/run/rw/io",
                                "/run/rw/session",
                                "/work"}) {
            REQUIRE(::mkdir((root + one).c_str(), 0700) == 0);
        }
        write_text(run_directory + "/bundle/policy.json", "{\"typed\":[]}");
        session.business = "acme";
        session.seat = {"coder", ""};
        session.run = kRun;
        session.human = "jordan";
        session.harness = "script";
        session.provider = "p";
        session.model = "m-1";
        session.thinking = "high";
        session.broker_socket = root + "/bus.sock";
        session.workspace = root + "/work";
        session.session_dir = run_directory + "/rw/session";
        session.adapter = root + "/adapter.sh";
        session.bundle_prompt = run_directory + "/bundle/prompt.md";
        session.bundle_policy = run_directory + "/bundle/policy.json";
        session.bundle_tools = run_directory + "/bundle/tools.json";
        session.tool_socket = run_directory + "/rw/io/tools.sock";
        session.turn_marker = run_directory + "/rw/io/turn.done";
        session.typed = {"launch", "message_send"};
        session.limits.turn_seconds = 60;
        session.limits.turn_grace_ms = 200;
        session.limits.broker_retries = 30;
        bus_ = listen(session.broker_socket);
    }

    ~Scene() {
        if (runner_) {
            ignore(process::signal_pidfd(runner_->pidfd(), SIGKILL), "it may be gone");
            wait_readable(runner_->pidfd());
            ignore(process::reap(runner_->pidfd()), "it may be reaped");
        }
        std::filesystem::remove_all(root);
    }

    Scene(const Scene&) = delete;
    Scene& operator=(const Scene&) = delete;

    static UniqueFd listen(const std::string& path) {
        UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        REQUIRE(path.size() < sizeof(address.sun_path));
        path.copy(address.sun_path, path.size());
        REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
        REQUIRE(::listen(fd.get(), 64) == 0);
        return fd;
    }

    static Peer accept(const UniqueFd& listener) {
        wait_readable(listener.get());
        return Peer(UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    }

    void adapter(const std::string& script) { write_text(session.adapter, script); }

    // As root: the session is to run as an ordinary user, which is how the product runs it.
    void hand_over(StartOptions& options) {
        if (::geteuid() != 0) {
            return;
        }
        write_session();
        REQUIRE(::chown(root.c_str(), kNobody, kNobody) == 0);
        for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
            REQUIRE(::lchown(entry.path().c_str(), kNobody, kNobody) == 0);
        }
        const auto as_nobody = nobody();
        options.prefix.insert(options.prefix.begin(), as_nobody.begin(), as_nobody.end());
    }

    // What runs a command as that user.
    static std::vector<std::string> nobody() {
        return {"/usr/bin/setpriv",
                "--reuid=" + std::to_string(kNobody),
                "--regid=" + std::to_string(kNobody),
                "--clear-groups",
                "--"};
    }

    void write_session() {
        if (!std::filesystem::exists(run_directory + "/session.json")) {
            write_text(run_directory + "/session.json", json::dump(session.to_value()));
        }
    }

    void start(const StartOptions& options = {}) {
        write_session();
        int ends[2];
        REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
        const UniqueFd input(ends[0]);
        host_end.reset(ends[1]);
        const UniqueFd out(::open((root + "/out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        const UniqueFd err(::open((root + "/err").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        process::SpawnSpec spec;
        spec.argv = options.prefix;
        spec.argv.insert(spec.argv.end(), {MOSAIC_RUNNER, run_directory});
        spec.path = spec.argv[0];
        spec.env = options.env;
        spec.env.emplace_back("PATH=/usr/bin:/bin");
        spec.descriptors = {{input.get(), 0}, {out.get(), 1}, {err.get(), 2}};
        spec.directory = run_directory;
        auto spawned = process::spawn(spec);
        REQUIRE(spawned.has_value());
        REQUIRE(spawned->wait_exec().has_value());
        runner_.emplace(std::move(*spawned));
        if (options.capability) {
            give(wire::encode(wire::CapabilityLine{kCapability, "pm"}));
        }
    }

    void give(std::string_view bytes) {
        REQUIRE(::write(host_end.get(), bytes.data(), bytes.size()) ==
                static_cast<ssize_t>(bytes.size()));
    }

    Peer broker() { return accept(bus_); }

    // A broker that has accepted the claim and has been asked for the first message.
    std::pair<Peer, wire::Request> claimed() {
        Peer peer = broker();
        peer.ok(peer.expect("role.claim"));
        auto receive = peer.expect("message.receive");
        return {std::move(peer), std::move(receive)};
    }

    process::Exit exit() {
        wait_readable(runner_->pidfd());
        auto how = process::reap(runner_->pidfd());
        REQUIRE(how.has_value());
        runner_.reset();
        return *how;
    }

    // Waits until the runner has written this to its standard error; false: it ended without.
    [[nodiscard]] bool wait_err(std::string_view text) const {
        const UniqueFd notify(::inotify_init1(IN_CLOEXEC));
        REQUIRE(::inotify_add_watch(notify.get(), root.c_str(), IN_MODIFY) >= 0);
        while (err().find(text) == std::string::npos) {
            pollfd what[] = {{notify.get(), POLLIN, 0}, {runner_->pidfd(), POLLIN, 0}};
            REQUIRE(::poll(what, 2, kPatienceMs) > 0);
            if (what[1].revents != 0) {
                return err().find(text) != std::string::npos;
            }
            char events[4096];
            REQUIRE(::read(notify.get(), events, sizeof(events)) > 0);
        }
        return true;
    }

    // bus.sock's queue, from now on.
    void set_backlog(int connections) { REQUIRE(::listen(bus_.get(), connections) == 0); }

    void terminate() { REQUIRE(process::signal_pidfd(runner_->pidfd(), SIGTERM).has_value()); }

    [[nodiscard]] pid_t pid() const { return runner_->pid(); }

    [[nodiscard]] std::string out() const { return read_text(root + "/out"); }

    [[nodiscard]] std::string err() const { return read_text(root + "/err"); }

    Peer tools() const {
        UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        REQUIRE(session.tool_socket.size() < sizeof(address.sun_path));
        session.tool_socket.copy(address.sun_path, session.tool_socket.size());
        REQUIRE(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
        return Peer(std::move(fd));
    }

    // Runs one whole turn with this body and returns the reply that was sent.
    wire::MessageSendArgs turn(Peer& peer, wire::Request& receive, const std::string& body) {
        const std::string id = "m" + std::to_string(++turns_);
        peer.ok(receive, delivery(id, body));
        const auto send = peer.expect("message.send");
        peer.ok(send, json::Value(json::Object{{"id", "answer"}}));
        const auto ack = peer.expect("message.ack");
        CHECK(*ack.args.find("id")->string() == id);
        peer.ok(ack);
        receive = peer.expect("message.receive");
        auto args = wire::MessageSendArgs::from(send.args);
        REQUIRE(args.has_value());
        CHECK(args->in_reply_to == id);
        CHECK(args->message_class == wire::MessageClass::reply);
        CHECK(args->to == Seat{"pm", ""});
        return *args;
    }

    std::string root;
    std::string run_directory;
    wire::SessionFile session;
    UniqueFd host_end;

  private:
    UniqueFd bus_;
    std::optional<process::Spawned> runner_;
    int turns_ = 0;
};

}  // namespace scene
