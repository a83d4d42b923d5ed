// A stand-in for mosaic-runner, for tests of what host and broker do with a runner that misbehaves.
// It is pid 1 of a real sandbox, reads the capability line like the real one, and then does what
// the test at the other end of <workspace>/puppet.sock says, one line each:
//
//   capability          reads the capability line from stdin and answers it (or "eof")
//   connect PATH        connects to a socket and answers "connected" with the connection as a
//   passed
//                       descriptor: to the peer it stays a connection of this process
//   exit N              exits so, without an answer, and says so on standard error
//   deaf                ignores SIGTERM from now on
//   outlive             doesn't die with the outer process by itself any more
//   environment         its environment, one line
//
// It answers "hello <run>" first. When <workspace>/puppet.mode exists, its text decides before
// anything else: "exit N", or "close-stdin".
//
// Static, and without anything of the product: it must not share its faults.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::string read_file(const std::string& path) {
    std::string text;
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return text;
    }
    std::array<char, 4096> buffer{};
    for (ssize_t n = 0; (n = ::read(fd, buffer.data(), buffer.size())) > 0;) {
        text.append(buffer.data(), static_cast<size_t>(n));
    }
    ::close(fd);
    return text;
}

// The string value of a top-level key; enough for the host's own session.json.
std::string value_of(const std::string& json, const std::string& key) {
    size_t at = json.find("\"" + key + "\"");
    if (at == std::string::npos) {
        return "";
    }
    at = json.find('"', json.find(':', at));
    const size_t end = json.find('"', at + 1);
    return at == std::string::npos || end == std::string::npos ? ""
                                                               : json.substr(at + 1, end - at - 1);
}

int connect_to(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        return -1;
    }
    std::memcpy(address.sun_path, path.c_str(), path.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
        return fd;
    }
    ::close(fd);
    return -1;
}

void answer(int control, const std::string& text, int passed = -1) {
    std::string line = text + "\n";
    iovec io{.iov_base = line.data(), .iov_len = line.size()};
    msghdr message{};
    message.msg_iov = &io;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
    if (passed >= 0) {
        message.msg_control = space.data();
        message.msg_controllen = space.size();
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(header), &passed, sizeof passed);
    }
    if (::sendmsg(control, &message, MSG_NOSIGNAL) < 0) {
        ::_exit(99);
    }
}

// One byte at a time: what follows the line belongs to the next read.
bool read_line(int fd, std::string& line) {
    line.clear();
    for (char c = 0; ::read(fd, &c, 1) == 1;) {
        if (c == '\n') {
            return true;
        }
        line.push_back(c);
    }
    return false;
}

int obey(int control, const std::string& command, char** environment) {
    if (command == "capability") {
        std::string line;
        answer(control, read_line(STDIN_FILENO, line) ? line : "eof");
    } else if (command.rfind("connect ", 0) == 0) {
        const int fd = connect_to(command.substr(8));
        answer(control, fd >= 0 ? "connected" : "refused", fd);
        ::close(fd);
    } else if (command.rfind("exit ", 0) == 0) {
        return std::atoi(command.c_str() + 5);
    } else if (command == "deaf") {
        ::signal(SIGTERM, SIG_IGN);
        answer(control, "deaf");
    } else if (command == "outlive") {
        ::prctl(PR_SET_PDEATHSIG, 0);
        answer(control, "outlive");
    } else if (command == "environment") {
        std::string all;
        for (char** variable = environment; *variable != nullptr; ++variable) {
            all += std::string(*variable) + " ";
        }
        answer(control, all);
    } else {
        answer(control, "what?");
    }
    return -1;
}

void leave_on_sigterm(int /*number*/) {
    ::_exit(0);
}

}  // namespace

int main(int argc, char** argv, char** environment) {
    if (argc == 2 && std::strcmp(argv[1], "self-test") == 0) {
        return 0;
    }
    if (argc != 2) {
        return 98;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::prctl(PR_SET_DUMPABLE, 0);
    ::signal(SIGTERM, leave_on_sigterm);
    const std::string session = read_file(std::string(argv[1]) + "/session.json");
    const std::string workspace = value_of(session, "workspace");
    const std::string mode = read_file(workspace + "/puppet.mode");
    if (mode.rfind("exit ", 0) == 0) {
        return std::atoi(mode.c_str() + 5);
    }
    if (mode == "close-stdin") {
        ::close(STDIN_FILENO);
        ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    const int control = connect_to(workspace + "/puppet.sock");
    if (control < 0) {
        return 97;
    }
    answer(control, "hello " + value_of(session, "run"));
    for (std::string command; read_line(control, command);) {
        const int exit_code = obey(control, command, environment);
        if (exit_code >= 0) {
            std::fprintf(stderr, "puppet: told to exit with %d\n", exit_code);
            return exit_code;
        }
    }
    // The test closed its end and doesn't care any more.
    while (true) {
        ::pause();
    }
}
