#include "bench/host_process.h"

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "process/files.h"
#include "process/proc.h"

namespace mosaic::bench {
namespace {

constexpr Duration kStarts = seconds(120);
constexpr Duration kStops = seconds(120);
constexpr size_t kLogEnd = 2000;
constexpr uint64_t kLogBytesMax = uint64_t{64} * 1024 * 1024;

Result<UniqueFd> notify_socket(const std::string& path) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) {
        return fail(Code::too_large, path + ": too long for a socket");
    }
    std::memcpy(address.sun_path, path.c_str(), path.size());
    ::unlink(path.c_str());
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        return fail_sys(errno, path);
    }
    return fd;
}

std::vector<std::string> environment_of(const Scratch& scratch, const std::string& notify) {
    std::vector<std::string> env = {"HOME=" + scratch.home(),
                                    "PATH=/usr/local/bin:/usr/bin:/bin",
                                    "LANG=C.UTF-8",
                                    "XDG_STATE_HOME=" + scratch.root() + "/state",
                                    "XDG_CONFIG_HOME=" + scratch.root() + "/xdg",
                                    "NOTIFY_SOCKET=" + notify};
    if (const passwd* user = ::getpwuid(::getuid()); user != nullptr) {
        env.push_back(std::string("USER=") + user->pw_name);
        env.push_back(std::string("LOGNAME=") + user->pw_name);
    }
    return env;
}

}  // namespace

HostProcess::HostProcess(const Scratch& scratch, Waiter& waiter, std::string prefix)
    : scratch_(scratch), waiter_(waiter), prefix_(std::move(prefix)) {}

HostProcess::~HostProcess() {
    if (child_) {
        waiter_.forget_signal();
        ignore(stop(), "the caller has an error of its own to tell");
    }
}

Result<void> HostProcess::start() {
    const std::string notify_path = scratch_.root() + "/notify.sock";
    MOSAIC_TRY_ASSIGN(const UniqueFd notify, notify_socket(notify_path));
    const UniqueFd log(
        ::open(scratch_.host_log().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!log.valid()) {
        return fail_sys(errno, scratch_.host_log());
    }
    process::SpawnSpec spec;
    spec.path = prefix_ + "/bin/mosaic-host";
    spec.argv = {spec.path,
                 "--business",
                 scratch_.business_file(),
                 "--config",
                 scratch_.system_file(),
                 "--data",
                 scratch_.data()};
    spec.env = environment_of(scratch_, notify_path);
    spec.descriptors = {{log.get(), 1}, {log.get(), 2}};
    MOSAIC_TRY_ASSIGN(process::Spawned child, process::spawn(spec));
    child_.emplace(std::move(child));
    MOSAIC_TRY(child_->wait_exec());
    return await_ready(notify.get());
}

Result<void> HostProcess::await_ready(int notify) {
    const Instant deadline = monotonic_now() + kStarts;
    while (true) {
        std::vector<pollfd> polls = {{notify, POLLIN, 0}, {child_->pidfd(), POLLIN, 0}};
        MOSAIC_TRY(waiter_.wait(polls, deadline, "the host's start"));
        if (polls[1].revents != 0) {
            ignore(process::reap(child_->pidfd()), "its log says more");
            child_.reset();
            return fail(Code::unavailable, "mosaic-host doesn't start:\n" + log_end());
        }
        std::array<char, 4096> buffer{};
        const ssize_t n = ::recv(notify, buffer.data(), buffer.size(), 0);
        const std::string_view text(buffer.data(), n > 0 ? static_cast<size_t>(n) : 0);
        if (text.find("READY=1") != std::string_view::npos) {
            return {};
        }
    }
}

Result<process::Exit> HostProcess::await_exit() {
    std::vector<pollfd> polls = {{child_->pidfd(), POLLIN, 0}};
    MOSAIC_TRY(waiter_.wait(polls, monotonic_now() + kStops, "the host's end"));
    return process::reap(child_->pidfd());
}

Result<void> HostProcess::stop() {
    ignore(process::signal_pidfd(child_->pidfd(), SIGTERM), "gone is what is wanted");
    auto exit = await_exit();
    if (!exit) {
        ignore(process::signal_pidfd(child_->pidfd(), SIGKILL), "gone is what is wanted");
        ignore(await_exit(), "the first error is told");
    }
    child_.reset();
    if (!exit) {
        return tl::unexpected<Error>(std::move(exit.error()));
    }
    if (exit->signal != 0 || exit->exit_code != 0) {
        return fail(Code::unavailable, "mosaic-host ended badly:\n" + log_end());
    }
    return {};
}

Result<void> HostProcess::kill() {
    MOSAIC_TRY(process::signal_pidfd(child_->pidfd(), SIGKILL));
    MOSAIC_TRY(await_exit());
    child_.reset();
    return {};
}

pid_t HostProcess::broker() const {
    for (const pid_t pid : process::list_pids()) {
        const auto stat = process::read_stat(pid);
        if (stat && stat->parent == this->pid() && stat->comm.starts_with("mosaic-broker")) {
            return pid;
        }
    }
    return 0;
}

std::string HostProcess::log_end() const {
    const auto text = process::read_file(scratch_.host_log(), kLogBytesMax);
    return text ? text->substr(text->size() - std::min(text->size(), kLogEnd)) : "(no log)";
}

}  // namespace mosaic::bench
