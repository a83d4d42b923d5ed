#include "sandboxed.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <thread>

#include "process/pidfd.h"
#include "process/proc.h"

namespace mosaic::test {

std::vector<std::string> bwrap_argv(const std::vector<std::string>& binds,
                                    const std::vector<std::string>& command) {
    std::vector<std::string> argv{"/usr/bin/bwrap",
                                  "--unshare-user",
                                  "--unshare-pid",
                                  "--unshare-ipc",
                                  "--unshare-uts",
                                  "--unshare-cgroup",
                                  "--as-pid-1",
                                  "--cap-drop",
                                  "ALL",
                                  "--disable-userns",
                                  "--json-status-fd",
                                  "3",
                                  "--ro-bind",
                                  "/",
                                  "/",
                                  "--dev",
                                  "/dev",
                                  "--proc",
                                  "/proc"};
    argv.insert(argv.end(), binds.begin(), binds.end());
    argv.emplace_back("--");
    argv.insert(argv.end(), command.begin(), command.end());
    return argv;
}

bool bwrap_works() {
    static const bool works = [] {
        Started probe(bwrap_argv({}, {"/bin/true"}));
        REQUIRE(exits_within(probe.pidfd(), static_cast<int>(kPatienceMs)));
        const auto exit = process::reap(probe.pidfd());
        return exit && exit->signal == 0 && exit->exit_code == 0;
    }();
    if (!works) {
        skip("bwrap doesn't work here");
    }
    return works;
}

Started::Started(const std::vector<std::string>& argv,
                 const std::vector<std::pair<int, int>>& descriptors) {
    Ends pipe = make_pipe();
    process::SpawnSpec spec;
    spec.path = argv.front();
    spec.argv = argv;
    spec.env = {"PATH=/usr/bin:/bin"};
    spec.descriptors = descriptors;
    spec.descriptors.emplace_back(pipe.b.get(), 3);
    auto child = process::spawn(spec);
    if (!child) {
        FAIL(child.error().text);
    }
    child_.emplace(std::move(*child));
    const auto started = child_->wait_exec();
    if (!started) {
        FAIL(started.error().text);
    }
    status_pipe_ = std::move(pipe.a);
}

Started::~Started() {
    if (!finished_) {
        ::kill(-child_->pid(), SIGKILL);
        finish();
    }
}

void Started::finish() {
    CHECK(exits_within(child_->pidfd(), static_cast<int>(kPatienceMs)));
    ignore(process::reap(child_->pidfd()), "a test may have reaped it");
    finished_ = true;
}

bool Started::read_status() {
    std::array<char, 512> buffer{};
    const ssize_t n = ::read(status_pipe_.get(), buffer.data(), buffer.size());
    if (n > 0) {
        CHECK(status_.feed({buffer.data(), static_cast<size_t>(n)}).has_value());
    }
    return n > 0;
}

void Started::wait_for_inner(const std::string& comm) {
    while (!inner()) {
        REQUIRE(read_status());
    }
    // The exec of the program inside has no event of its own.
    const Instant limit = monotonic_now() + milliseconds(kPatienceMs);
    for (;;) {
        const auto stat = process::read_stat(*inner());
        REQUIRE(stat.has_value());
        // The name comes before the arguments, by which a host knows it.
        if (stat->comm == comm && !process::read_cmdline(*inner()).empty()) {
            return;
        }
        REQUIRE(monotonic_now() < limit);
        std::this_thread::yield();
    }
}

}  // namespace mosaic::test
