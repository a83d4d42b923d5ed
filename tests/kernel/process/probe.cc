// The program that the spawn tests start: it says on standard output what it was given. Plain libc,
// no sanitizer, so that nothing but the kernel and the spawn decides what it sees.
//   probe fds            one line a descriptor: number, what it is, "cloexec" when set
//   probe env            the environment, one variable a line
//   probe argv ...       the arguments, one a line
//   probe status         the signal lines of /proc/self/status
//   probe session        session id, process group, pid
//   probe keyring        the serial number of the session keyring
//   probe cwd            the working directory
//   probe cat            copies standard input to standard output
//   probe wait           blocks until standard input ends
//   probe connect PATH   connects to a Unix socket, says "connected", then as wait
//   probe connect-child PATH   the same from a child that exits at once; says "connected" then
//   probe exit N         ends with N
//   probe abstract NAME  connects to an abstract socket: prints 0 or the errno
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

extern char** environ;

namespace {

int say_fds() {
    DIR* directory = opendir("/proc/self/fd");
    while (const dirent* entry = readdir(directory)) {
        const int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd == dirfd(directory)) {
            continue;
        }
        char target[4096] = {};
        const std::string link = std::string("/proc/self/fd/") + entry->d_name;
        if (readlink(link.c_str(), target, sizeof(target) - 1) < 0) {
            return 1;
        }
        const bool cloexec = (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
        printf("%d %s%s\n", fd, target, cloexec ? " cloexec" : "");
    }
    closedir(directory);
    return 0;
}

int say_signals() {
    FILE* status = fopen("/proc/self/status", "re");
    char line[512] = {};
    while (fgets(line, sizeof(line), status) != nullptr) {
        if (strncmp(line, "Sig", 3) == 0 && strncmp(line, "SigQ", 4) != 0) {
            fputs(line, stdout);
        }
    }
    fclose(status);
    return 0;
}

int copy_input(bool print) {
    char buffer[4096];
    for (;;) {
        const ssize_t got = read(0, buffer, sizeof(buffer));
        if (got <= 0) {
            return got < 0 ? 1 : 0;
        }
        if (print) {
            fwrite(buffer, 1, static_cast<size_t>(got), stdout);
        }
    }
}

int connect_to(const char* name, bool abstract) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const size_t offset = abstract ? 1 : 0;
    memcpy(address.sun_path + offset, name, strlen(name));
    const socklen_t length =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + offset + strlen(name));
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 ? fd : -errno;
}

int stay_connected(const char* path, bool by_child) {
    if (by_child) {
        const pid_t child = fork();
        if (child == 0) {
            _exit(connect_to(path, false) >= 0 ? 0 : 1);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (status != 0) {
            return 1;
        }
    } else if (connect_to(path, false) < 0) {
        return 1;
    }
    puts("connected");
    fflush(stdout);
    return copy_input(false);
}

}  // namespace

int main(int count, char** arguments) {
    const std::string what = count > 1 ? arguments[1] : "";
    const char* first = count > 2 ? arguments[2] : "";
    if (what == "fds") {
        return say_fds();
    }
    if (what == "env") {
        for (char** variable = environ; *variable != nullptr; ++variable) {
            puts(*variable);
        }
        return 0;
    }
    if (what == "argv") {
        for (int i = 0; i < count; ++i) {
            puts(arguments[i]);
        }
        return 0;
    }
    if (what == "status") {
        return say_signals();
    }
    if (what == "session") {
        printf("%d %d %d\n", getsid(0), getpgid(0), getpid());
        return 0;
    }
    if (what == "keyring") {
        printf("%ld\n", syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
        return 0;
    }
    if (what == "cwd") {
        char directory[4096] = {};
        puts(getcwd(directory, sizeof(directory)));
        return 0;
    }
    if (what == "cat" || what == "wait") {
        return copy_input(what == "cat");
    }
    if (what == "connect" || what == "connect-child") {
        return stay_connected(first, what == "connect-child");
    }
    if (what == "abstract") {
        const int fd = connect_to(first, true);
        printf("%d\n", fd < 0 ? -fd : 0);
        return 0;
    }
    if (what == "exit") {
        return atoi(first);
    }
    return 99;
}
