// What a turn's program may try beyond a shell's means:   session_probe BUS_SOCKET
// One line each, "<what> yes" when it worked and "<what> no" when it was refused. Static, and
// copied into a workspace by the test.

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace {

void say(const char* what, bool worked) {
    std::printf("%s %s\n", what, worked ? "yes" : "no");
    std::fflush(stdout);
}

// An address that isn't mapped is EFAULT; not being allowed to look is EPERM.
bool reads_memory_of(pid_t pid) {
    char byte = 0;
    iovec here{.iov_base = &byte, .iov_len = 1};
    iovec there{.iov_base = reinterpret_cast<void*>(uintptr_t{0x400000}), .iov_len = 1};
    return ::process_vm_readv(pid, &here, 1, &there, 1, 0) >= 0 || errno == EFAULT;
}

bool takes_descriptor_of(pid_t pid) {
    const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (pidfd < 0) {
        return false;
    }
    for (int fd = 0; fd < 16; ++fd) {
        if (::syscall(SYS_pidfd_getfd, pidfd, fd, 0) >= 0 || errno == EBADF) {
            return true;
        }
    }
    return false;
}

// Served: a byte came back. A connection that is closed without one isn't.
bool is_served(const char* path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
        return false;
    }
    const char line[] =
        "{\"id\":1,\"verb\":\"message.receive\",\"cap\":\"x\",\"args\":{\"wait\":false}}\n";
    ::send(fd, line, sizeof line - 1, MSG_NOSIGNAL);
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    char byte = 0;
    return ::poll(&wait, 1, 20'000) != 1 || ::recv(fd, &byte, 1, 0) > 0;
}

// In a child: a namespace that did come to be must not change what follows.
bool child_can(bool (*act)()) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(act() ? 0 : 1);
    }
    int status = 0;
    return child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

}  // namespace

int main(int argc, char** argv) {
    // First, before anything here opens one.
    say("extra-descriptors", [] {
        for (int fd = 3; fd < 256; ++fd) {
            if (::fcntl(fd, F_GETFD) >= 0) {
                return true;
            }
        }
        return false;
    }());
    say("ptrace-attach", ::ptrace(PTRACE_ATTACH, 1, nullptr, nullptr) == 0);
    say("ptrace-seize", ::ptrace(PTRACE_SEIZE, 1, nullptr, nullptr) == 0);
    say("process_vm_readv", reads_memory_of(1));
    say("pidfd_getfd", takes_descriptor_of(1));
    say("open-mem", ::open("/proc/1/mem", O_RDONLY | O_CLOEXEC) >= 0);
    say("kill-term", ::kill(1, SIGTERM) == 0);
    say("bus-served", argc > 1 && is_served(argv[1]));
    say("unshare-user", child_can([] { return ::unshare(CLONE_NEWUSER) == 0; }));
    say("unshare-mount", child_can([] { return ::unshare(CLONE_NEWNS) == 0; }));
    // The control: the same means work where they should.
    say("own-memory", [] {
        char from = 1;
        char to = 0;
        iovec there{.iov_base = &from, .iov_len = 1};
        iovec here{.iov_base = &to, .iov_len = 1};
        return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == 1 && to == 1;
    }());
    return 0;
}
