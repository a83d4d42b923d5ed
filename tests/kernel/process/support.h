#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "process/pidfd.h"
#include "process/spawn.h"

// Starting the probe program (probe.cc) and hearing what it says.

namespace mosaic::test {

struct Pipe {
    UniqueFd read;
    UniqueFd write;
};

inline Pipe make_pipe() {
    int ends[2] = {-1, -1};
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

inline std::string read_to_end(int fd) {
    std::string text;
    char buffer[4096];
    for (;;) {
        const ssize_t got = ::read(fd, buffer, sizeof(buffer));
        if (got <= 0) {
            return text;
        }
        text.append(buffer, static_cast<size_t>(got));
    }
}

inline std::string read_line(int fd) {
    std::string line;
    char c = 0;
    while (::read(fd, &c, 1) == 1 && c != '\n') {
        line += c;
    }
    return line;
}

inline process::Exit wait_exit(int pidfd) {
    pollfd wait{pidfd, POLLIN, 0};
    while (::poll(&wait, 1, -1) < 0) {
    }
    const auto exit = process::reap(pidfd);
    REQUIRE(exit.has_value());
    return *exit;
}

inline process::SpawnSpec probe(std::vector<std::string> arguments) {
    process::SpawnSpec spec;
    spec.path = MOSAIC_PROCESS_PROBE;
    spec.argv = {"probe"};
    spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
    return spec;
}

// Runs it to its end with standard output read; it must end with 0.
inline std::string output_of(process::SpawnSpec spec) {
    Pipe out = make_pipe();
    spec.descriptors.emplace_back(out.write.get(), 1);
    auto child = process::spawn(spec);
    REQUIRE(child.has_value());
    out.write.reset();
    const auto started = child->wait_exec();
    if (!started) {
        FAIL(started.error().text);
    }
    const std::string text = read_to_end(out.read.get());
    const process::Exit exit = wait_exit(child->pidfd());
    CHECK(exit.exit_code == 0);
    CHECK(exit.signal == 0);
    return text;
}

inline std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        lines.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

}  // namespace mosaic::test
