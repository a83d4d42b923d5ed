#include "cli/programs.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "process/spawn.h"

namespace mosaic::cli {
namespace {

struct Pipe {
    UniqueFd read;
    UniqueFd write;
};

Result<Pipe> make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return fail_sys(errno, "pipe");
    }
    return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Takes what is there; closes the pipe at its end.
void drain(UniqueFd& pipe, std::string& into) {
    std::array<char, 4096> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read fills it
    const ssize_t n = ::read(pipe.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) {
        return;
    }
    if (n <= 0) {
        pipe.reset();
        return;
    }
    const size_t room = kChildOutputBytesMax - std::min(into.size(), kChildOutputBytesMax);
    into.append(buffer.data(), std::min(room, static_cast<size_t>(n)));
}

// Reads both until the child has exited. Bytes of a grandchild that lives on are not waited for.
Result<ChildResult> collect(int pidfd, Pipe& out, Pipe& errors, Instant deadline) {
    ChildResult result;
    while (true) {
        std::array<pollfd, 3> wait = {
            {{pidfd, POLLIN, 0}, {out.read.get(), POLLIN, 0}, {errors.read.get(), POLLIN, 0}}};
        const int64_t left_ms = ((deadline - monotonic_now()).ns + 999'999) / 1'000'000;
        const int ready = ::poll(
            wait.data(), wait.size(), static_cast<int>(std::clamp<int64_t>(left_ms, 0, INT_MAX)));
        if (ready < 0 && errno != EINTR) {
            return fail_sys(errno, "poll");
        }
        if (ready == 0 && monotonic_now() >= deadline) {
            return fail(Code::unavailable, "did not end in time");
        }
        if (ready > 0 && wait[1].revents != 0) {
            drain(out.read, result.out);
        } else if (ready > 0 && wait[2].revents != 0) {
            drain(errors.read, result.errors);
        } else if (ready > 0 && wait[0].revents != 0) {
            MOSAIC_TRY_ASSIGN(result.exit, process::reap(pidfd));
            return result;
        }
    }
}

void kill_and_reap(int pidfd) {
    ignore(process::signal_pidfd(pidfd, SIGKILL), "it may have exited by now");
    pollfd wait{pidfd, POLLIN, 0};
    while (::poll(&wait, 1, -1) < 0 && errno == EINTR) {
    }
    ignore(process::reap(pidfd), "only so that no zombie stays");
}

}  // namespace

Result<ChildResult> run_child(const ChildSpec& spec) {
    MOSAIC_TRY_ASSIGN(Pipe out, make_pipe());
    MOSAIC_TRY_ASSIGN(Pipe errors, make_pipe());
    process::SpawnSpec child;
    child.path = spec.path;
    child.argv = spec.argv;
    child.env = spec.env;
    child.descriptors = spec.descriptors;
    child.descriptors.emplace_back(out.write.get(), STDOUT_FILENO);
    child.descriptors.emplace_back(errors.write.get(), STDERR_FILENO);
    child.parent_death_kill = true;
    MOSAIC_TRY_ASSIGN(process::Spawned spawned, process::spawn(child));
    const Result<void> started = spawned.wait_exec();
    if (!started) {
        kill_and_reap(spawned.pidfd());
        return tl::unexpected<Error>(started.error());
    }
    out.write.reset();
    errors.write.reset();
    auto result = collect(spawned.pidfd(), out, errors, monotonic_now() + spec.within);
    if (!result) {
        kill_and_reap(spawned.pidfd());
        return fail(result.error().code, spec.path + ": " + result.error().text);
    }
    return result;
}

}  // namespace mosaic::cli
