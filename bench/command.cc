#include "bench/command.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/unique_fd.h"
#include "process/pidfd.h"
#include "process/spawn.h"

namespace mosaic::bench {

Finished run_command(std::vector<std::string> argv) {
    Finished out;
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) {
        return out;
    }
    const UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    process::SpawnSpec spec;
    spec.path = argv.front();
    spec.argv = std::move(argv);
    spec.env = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8"};
    spec.descriptors = {{write_end.get(), 1}, {write_end.get(), 2}};
    auto child = process::spawn(spec);
    write_end.reset();
    if (!child) {
        return out;
    }
    std::array<char, 4096> buffer{};
    ssize_t n = 0;
    while ((n = ::read(read_end.get(), buffer.data(), buffer.size())) > 0) {
        out.out.append(buffer.data(), static_cast<size_t>(n));
    }
    pollfd exited{child->pidfd(), POLLIN, 0};
    while (::poll(&exited, 1, -1) < 0 && errno == EINTR) {
    }
    const auto exit = process::reap(child->pidfd());
    out.fine = exit && exit->signal == 0 && exit->exit_code == 0;
    return out;
}

}  // namespace mosaic::bench
