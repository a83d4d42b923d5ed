#include "support.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "process/proc.h"
#include "registry/layout.h"

namespace mosaic::test {
namespace {

struct Pipe {
    UniqueFd read;
    UniqueFd write;
};

Pipe make_pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

bool readable(int fd, int timeout_ms) {
    pollfd wait{fd, POLLIN, 0};
    return ::poll(&wait, 1, timeout_ms) > 0;
}

// False at the end.
bool read_some(int fd, std::string& into) {
    std::array<char, 4096> buffer{};
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    into.append(buffer.data(), static_cast<size_t>(std::max<ssize_t>(n, 0)));
    return n > 0;
}

}  // namespace

Scratch::Scratch(const std::string& parent) : path_(parent + "/cli-test-XXXXXX") {
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
}

Scratch::~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

void Scratch::write(std::string_view name, std::string_view content) const {
    std::filesystem::create_directories(std::filesystem::path(*this / name).parent_path());
    std::ofstream(*this / name, std::ios::binary) << content;
}

void Scratch::make_directory(std::string_view name) const {
    std::filesystem::create_directories(*this / name);
}

std::string Scratch::read(std::string_view name) const {
    std::ostringstream out;
    out << std::ifstream(*this / name, std::ios::binary).rdbuf();
    return out.str();
}

json::Value Finished::json() const {
    CAPTURE(out);
    CAPTURE(err);
    auto value = json::parse(out, {.depth_max = 16});
    REQUIRE_MESSAGE(value.has_value(), (value ? "" : value.error().text));
    return *value;
}

Running::Running(const std::string& path,
                 std::vector<std::string> argv,
                 std::vector<std::string> env,
                 int standard_input) {
    Pipe out = make_pipe();
    Pipe err = make_pipe();
    process::SpawnSpec spec;
    spec.path = path;
    spec.argv = std::move(argv);
    spec.env = std::move(env);
    spec.descriptors = {{out.write.get(), 1}, {err.write.get(), 2}};
    if (standard_input >= 0) {
        spec.descriptors.emplace_back(standard_input, 0);
    }
    spec.parent_death_kill = true;
    auto spawned = process::spawn(spec);
    REQUIRE_MESSAGE(spawned.has_value(), (spawned ? "" : spawned.error().text));
    spawned_.emplace(std::move(*spawned));
    const auto started = spawned_->wait_exec();
    REQUIRE_MESSAGE(started.has_value(), (started ? "" : started.error().text));
    out_ = std::move(out.read);
    err_ = std::move(err.read);
}

Running::~Running() {
    if (!reaped_) {
        ignore(process::signal_pidfd(spawned_->pidfd(), SIGKILL), "it may have exited");
        readable(spawned_->pidfd(), 20'000);
        ignore(process::reap(spawned_->pidfd()), "only so that no zombie stays");
    }
}

std::string Running::line() {
    while (true) {
        if (auto line = lines_.next()) {
            return *line;
        }
        REQUIRE(readable(out_.get(), 20'000));
        std::string bytes;
        REQUIRE(read_some(out_.get(), bytes));
        lines_.append(bytes);
    }
}

Finished Running::finish() {
    Finished out;
    while (out_.valid() || err_.valid()) {
        std::array<pollfd, 2> wait = {{{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}}};
        REQUIRE(::poll(wait.data(), wait.size(), 60'000) > 0);
        if (wait[0].revents != 0 && !read_some(out_.get(), out.out)) {
            out_.reset();
        }
        if (wait[1].revents != 0 && !read_some(err_.get(), out.err)) {
            err_.reset();
        }
    }
    const process::Exit exit = wait_exit();
    CHECK_MESSAGE(exit.signal == 0, out.err);
    out.exit_code = exit.exit_code;
    return out;
}

process::Exit Running::wait_exit() {
    REQUIRE(readable(spawned_->pidfd(), 60'000));
    const auto exit = process::reap(spawned_->pidfd());
    REQUIRE(exit.has_value());
    reaped_ = true;
    return *exit;
}

bool Running::alive() const {
    return !process::has_exited(spawned_->pidfd());
}

std::vector<std::string> mosaic_argv(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), MOSAIC_PROGRAM);
    return arguments;
}

std::vector<std::string> small_environment(const std::string& home) {
    return {"HOME=" + home, "PATH=/usr/bin:/bin", "USER=tester"};
}

Finished run_mosaic(const Scratch& scratch,
                    std::vector<std::string> arguments,
                    int standard_input) {
    Running running(MOSAIC_PROGRAM,
                    mosaic_argv(std::move(arguments)),
                    small_environment(scratch / "home"),
                    standard_input);
    return running.finish();
}

std::unique_ptr<Running> puppet(const std::string& name, const std::string& run_dir, int terms) {
    auto out =
        std::make_unique<Running>(MOSAIC_PUPPET,
                                  std::vector<std::string>{name, run_dir, std::to_string(terms)},
                                  std::vector<std::string>{});
    REQUIRE(out->line() == "ready");
    return out;
}

registry::SessionEntry entry_of(const std::string& run_dir, pid_t runner, pid_t outer) {
    const auto start_time = [](pid_t pid) {
        const auto stat = process::read_stat(pid);
        return stat ? stat->start_time : std::string("1");
    };
    registry::SessionEntry out;
    out.business = "acme";
    out.seat = {"coder", ""};
    out.run = "r0123456789ab";
    out.run_dir = run_dir;
    out.process = {outer, start_time(outer), runner, start_time(runner)};
    out.launched_by = "pm";
    out.harness = "script";
    out.provider = "local";
    out.model = "shell";
    out.at = "2026-01-31T12:34:56.789Z";
    return out;
}

void write_sessions(const Scratch& scratch, const std::vector<registry::SessionEntry>& entries) {
    scratch.write("data/bus-host/sessions.json",
                  registry::dump_sessions({process::boot_id(), entries}));
}

Server::Server(const Scratch& scratch, std::vector<Exchange> script) : script_(std::move(script)) {
    scratch.make_directory("data/bus-host");
    const std::string path = registry::admin_socket_path(scratch / "data");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(path.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, path.data(), path.size());
    listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_.get(), 4) == 0);
    thread_ = std::thread([this, fd = listener_.get()] { serve(fd); });
}

Server::~Server() {
    if (thread_.joinable()) {
        ::shutdown(listener_.get(), SHUT_RDWR);
        thread_.join();
    }
}

std::vector<wire::Request> Server::requests() {
    thread_.join();
    return requests_;
}

// Runs on the thread: no doctest here, what is wrong shows in what the client gets.
void Server::serve(int listener) {
    const UniqueFd client(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));

    // Before the connection closes nobody can connect again: the host is gone.
    struct Gone {
        int listener;

        ~Gone() { ::shutdown(listener, SHUT_RDWR); }
    };

    const Gone gone{listener};
    wire::LineBuffer lines(size_t{1} << 20U);
    size_t at = 0;
    while (client.valid() && at < script_.size()) {
        std::optional<std::string> line = lines.next();
        if (!line) {
            std::string bytes;
            if (!read_some(client.get(), bytes)) {
                return;
            }
            lines.append(bytes);
            continue;
        }
        auto frame = wire::decode_frame(*line);
        const auto* request = frame ? std::get_if<wire::Request>(&*frame) : nullptr;
        if (request == nullptr) {
            return;
        }
        requests_.push_back(*request);
        const Exchange& now = script_[at++];
        if (now.verb != request->verb) {
            return;
        }
        if (now.silent) {
            std::string rest;
            while (read_some(client.get(), rest)) {
            }
            return;
        }
        const int64_t id = now.anonymous ? 0 : request->id;
        const std::string reply = now.result
                                      ? wire::encode(wire::reply_ok(id, *now.result))
                                      : wire::encode(wire::reply_error(id, now.error, now.message));
        // In two pieces: a reply may come so.
        const size_t half = reply.size() / 2;
        ::send(client.get(), reply.data(), half, MSG_NOSIGNAL);
        ::send(client.get(), reply.data() + half, reply.size() - half, MSG_NOSIGNAL);
    }
    // Until the client goes; a request that the script doesn't have is recorded and ends it.
    while (client.valid() && !(at > 0 && script_[at - 1].closes)) {
        if (auto line = lines.next()) {
            auto frame = wire::decode_frame(*line);
            if (frame && std::get_if<wire::Request>(&*frame) != nullptr) {
                requests_.push_back(std::get<wire::Request>(*frame));
            }
            return;
        }
        std::string bytes;
        if (!read_some(client.get(), bytes)) {
            return;
        }
        lines.append(bytes);
    }
}

json::Value parsed(std::string_view text) {
    auto value = json::parse(text);
    REQUIRE(value.has_value());
    return *value;
}

}  // namespace mosaic::test
