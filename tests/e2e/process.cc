#include "e2e/process.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace mosaic::e2e {
namespace {

std::vector<char*> pointers(std::vector<std::string>& strings) {
    std::vector<char*> out;
    for (std::string& s : strings) {
        out.push_back(s.data());
    }
    out.push_back(nullptr);
    return out;
}

bool wait_readable(int fd, int timeout_ms) {
    pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
    int n = 0;
    do {
        n = ::poll(&p, 1, timeout_ms);
    } while (n < 0 && errno == EINTR);
    return n > 0;
}

}  // namespace

int64_t now_ms() {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}

json::Value Finished::json() const {
    const auto value = json::parse(out, {.depth_max = 16});
    REQUIRE_MESSAGE(value.has_value(), "not one JSON document: " << out << "\nstderr: " << err);
    return *value;
}

std::vector<json::Value> Finished::json_lines() const {
    std::vector<json::Value> values;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
        const auto value = json::parse(line, {.depth_max = 16});
        REQUIRE_MESSAGE(value.has_value(), "not a line of JSON: " << line << "\nstderr: " << err);
        values.push_back(*value);
    }
    return values;
}

Child Child::start(const std::vector<std::string>& argv,
                   const Environment& env,
                   const Streams& streams) {
    std::vector<std::string> arguments = argv;
    std::vector<std::string> variables;
    for (const auto& [name, value] : env) {
        variables.push_back(name + "=" + value);
    }
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    const auto give = [&](int ours, int theirs) {
        if (ours < 0) {
            ::posix_spawn_file_actions_addopen(&actions, theirs, "/dev/null", O_WRONLY, 0);
        } else {
            ::posix_spawn_file_actions_adddup2(&actions, ours, theirs);
        }
    };
    give(streams.out, 1);
    give(streams.err, 2);
    for (const int fd : streams.extra) {
        // Onto itself: this clears close-on-exec (posix_spawn_file_actions_adddup2(3), glibc 2.29).
        ::posix_spawn_file_actions_adddup2(&actions, fd, fd);
    }
    Child child;
    pid_t pid = 0;
    const int error = ::posix_spawn(&pid,
                                    arguments[0].c_str(),
                                    &actions,
                                    nullptr,
                                    pointers(arguments).data(),
                                    pointers(variables).data());
    ::posix_spawn_file_actions_destroy(&actions);
    REQUIRE_MESSAGE(error == 0, arguments[0] << ": " << std::strerror(error));
    child.pid_ = pid;
    child.pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    REQUIRE(child.pidfd_.valid());
    return child;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), pidfd_(std::move(other.pidfd_)) {}

Child& Child::operator=(Child&& other) noexcept {
    if (this != &other) {
        end();
        pid_ = std::exchange(other.pid_, 0);
        pidfd_ = std::move(other.pidfd_);
    }
    return *this;
}

Child::~Child() {
    end();
}

void Child::end() {
    if (pid_ > 0) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }
}

void Child::signal(int number) const {
    REQUIRE(pid_ > 0);
    ::kill(pid_, number);
}

std::optional<Exit> Child::wait(int timeout_ms) {
    if (pid_ <= 0 || !wait_readable(pidfd_.get(), timeout_ms)) {
        return std::nullopt;
    }
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    Exit exit;
    if (WIFSIGNALED(status)) {
        exit.signal = WTERMSIG(status);
    } else {
        exit.code = WEXITSTATUS(status);
    }
    return exit;
}

namespace {

struct Pipe {
    UniqueFd read;
    UniqueFd write;

    Pipe() {
        std::array<int, 2> fds{};
        REQUIRE(::pipe2(fds.data(), O_CLOEXEC) == 0);
        read.reset(fds[0]);
        write.reset(fds[1]);
    }
};

// Appends what is there; false at the end of the stream.
bool drain(int fd, std::string& into) {
    std::array<char, 65536> buffer{};
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n > 0) {
        into.append(buffer.data(), static_cast<size_t>(n));
    }
    return n > 0 || (n < 0 && errno == EINTR);
}

}  // namespace

Finished run(const std::vector<std::string>& argv, const Environment& env, int timeout_ms) {
    Pipe out;
    Pipe err;
    Child child =
        Child::start(argv, env, {.out = out.write.get(), .err = err.write.get(), .extra = {}});
    out.write.reset();
    err.write.reset();
    Finished finished;
    const int64_t deadline = now_ms() + timeout_ms;
    std::array<pollfd, 2> polls{pollfd{.fd = out.read.get(), .events = POLLIN, .revents = 0},
                                pollfd{.fd = err.read.get(), .events = POLLIN, .revents = 0}};
    const std::array<std::string*, 2> sinks{&finished.out, &finished.err};
    while (polls[0].fd >= 0 || polls[1].fd >= 0) {
        const int64_t left = deadline - now_ms();
        if (left <= 0 || ::poll(polls.data(), polls.size(), static_cast<int>(left)) == 0) {
            finished.timed_out = true;
            break;
        }
        for (size_t i = 0; i < polls.size(); ++i) {
            if (polls[i].fd >= 0 && polls[i].revents != 0 && !drain(polls[i].fd, *sinks[i])) {
                polls[i].fd = -1;
            }
        }
    }
    if (finished.timed_out) {
        child.signal(SIGKILL);
    }
    const auto exit = child.wait();
    REQUIRE(exit.has_value());
    finished.exit = *exit;
    return finished;
}

LineStream LineStream::connect(const std::string& path) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(fd.valid());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(path.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
        return LineStream();
    }
    return LineStream(std::move(fd));
}

bool LineStream::send(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
}

void LineStream::finish_sending() {
    ::shutdown(fd_.get(), SHUT_WR);
}

bool LineStream::fill(int timeout_ms) {
    if (ended_ || !wait_readable(fd_.get(), timeout_ms)) {
        return false;
    }
    if (!drain(fd_.get(), buffer_)) {
        ended_ = true;
        return false;
    }
    return true;
}

std::optional<std::string> LineStream::line(int timeout_ms) {
    const int64_t deadline = now_ms() + timeout_ms;
    while (true) {
        const size_t newline = buffer_.find('\n');
        if (newline != std::string::npos) {
            std::string line = buffer_.substr(0, newline);
            buffer_.erase(0, newline + 1);
            return line;
        }
        const int64_t left = std::max<int64_t>(0, deadline - now_ms());
        if (!fill(static_cast<int>(left))) {
            return std::nullopt;
        }
    }
}

bool LineStream::closed(int timeout_ms) {
    const int64_t deadline = now_ms() + timeout_ms;
    while (fill(static_cast<int>(std::max<int64_t>(0, deadline - now_ms())))) {
        buffer_.clear();
    }
    return ended_;
}

bool LineStream::quiet(int timeout_ms) {
    return buffer_.empty() && !ended_ && !wait_readable(fd_.get(), timeout_ms);
}

int64_t LineStream::ask(std::string_view verb, json::Value args, std::string_view cap) {
    json::Value request{json::Object{}};
    const int64_t id = next_id_++;
    request.set("id", id);
    request.set("verb", verb);
    if (!cap.empty()) {
        request.set("cap", cap);
    }
    request.set("args", std::move(args));
    // The other end may have closed; reply() says so.
    send(json::dump(request) + "\n");
    return id;
}

json::Value LineStream::reply(int64_t id) {
    for (auto it = early_.begin(); it != early_.end(); ++it) {
        if (it->find("id") != nullptr && *it->find("id") == json::Value(id)) {
            json::Value found = *it;
            early_.erase(it);
            return found;
        }
    }
    while (true) {
        const auto text = line();
        REQUIRE_MESSAGE(
            text.has_value(),
            "no reply to request " << id << std::string(ended_ ? ": closed" : ": silence"));
        const auto value = json::parse(*text, {.depth_max = 16});
        REQUIRE_MESSAGE(value.has_value(), "not JSON: " << *text);
        if (value->find("id") != nullptr && *value->find("id") == json::Value(id)) {
            return *value;
        }
        early_.push_back(*value);
    }
}

json::Value LineStream::request(std::string_view verb, json::Value args, std::string_view cap) {
    return reply(ask(verb, std::move(args), cap));
}

Watch::Watch(const std::vector<std::string>& directories)
    : inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    REQUIRE(inotify_.valid());
    for (const std::string& directory : directories) {
        const int watch = ::inotify_add_watch(
            inotify_.get(), directory.c_str(), IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_DELETE);
        REQUIRE_MESSAGE(watch >= 0, directory << ": " << std::strerror(errno));
    }
}

bool Watch::next(int timeout_ms) {
    if (!wait_readable(inotify_.get(), timeout_ms)) {
        return false;
    }
    std::array<char, 16384> buffer{};
    while (::read(inotify_.get(), buffer.data(), buffer.size()) > 0) {
    }
    return true;
}

std::string read_text(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

void write_text(const std::string& path, std::string_view text, mode_t mode) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
    REQUIRE_MESSAGE(fd.valid(), path << ": " << std::strerror(errno));
    REQUIRE(::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    REQUIRE(::fchmod(fd.get(), mode) == 0);
}

mode_t mode_of(const std::string& path) {
    struct stat st {};

    return ::lstat(path.c_str(), &st) == 0 ? st.st_mode & 07777U : 0;
}

bool exists(const std::string& path) {
    struct stat st {};

    return ::lstat(path.c_str(), &st) == 0;
}

std::vector<std::string> names_in(const std::string& path) {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
        names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::string start_time_of(pid_t pid) {
    const std::string stat = read_text("/proc/" + std::to_string(pid) + "/stat");
    const size_t comm_end = stat.rfind(')');
    if (comm_end == std::string::npos) {
        return "";
    }
    std::istringstream fields(stat.substr(comm_end + 1));
    std::string field;
    fields >> field;  // field 3, the state
    if (field == "Z" || field == "X") {
        return "";
    }
    for (int i = 4; i <= 22; ++i) {
        fields >> field;
    }
    return field;
}

bool wait_gone(pid_t pid, int timeout_ms) {
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    return !pidfd.valid() || wait_readable(pidfd.get(), timeout_ms);
}

}  // namespace mosaic::e2e
