// Plays the programs at the other end of the host's parts:
//
//   mosaic-broker --store PATH ...   a broker whose words are the test's: what comes in on
//                                    descriptor 3 goes to the socket that listens at PATH and back.
//                                    "!exit N" as a line from there ends it.
//   mosaic-broker --store exit:N     one that ends at once
//   mosaic-broker --store hang       one that looks at nothing any more
//   mosaic-runner ...                waits for ever, like a runner without a message
//   puppet lock PATH                 holds the fcntl lock on PATH until its standard input ends
//   puppet wait ...                  waits for ever; the other arguments are for who looks at it

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kControl = 3;

bool write_all(int fd, const char* bytes, size_t size) {
    while (size > 0) {
        const ssize_t n = ::write(fd, bytes, size);
        if (n <= 0) {
            return false;
        }
        bytes += n;
        size -= static_cast<size_t>(n);
    }
    return true;
}

// Copies what is there; false at the end.
bool relay(int from, int to) {
    char buffer[65536];
    const ssize_t n = ::read(from, buffer, sizeof(buffer));
    return n > 0 && write_all(to, buffer, static_cast<size_t>(n));
}

// Commands come in writes of their own, so that the first byte tells.
bool obey(int test) {
    char buffer[65536];
    const ssize_t n = ::read(test, buffer, sizeof(buffer) - 1);
    if (n <= 0) {
        return false;
    }
    buffer[n] = '\0';
    if (std::strncmp(buffer, "!exit ", 6) == 0) {
        ::_exit(std::atoi(buffer + 6));
    }
    return write_all(kControl, buffer, static_cast<size_t>(n));
}

int wait_for_ever() {
    for (;;) {
        ::pause();
    }
}

int broker(const std::string& store) {
    if (store.compare(0, 5, "exit:") == 0) {
        return std::atoi(store.c_str() + 5);
    }
    if (store == "hang") {
        return wait_for_ever();
    }
    const int test = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, store.data(), store.size());
    if (::connect(test, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        std::perror("connect");
        return 1;
    }
    pollfd wait[2] = {{kControl, POLLIN, 0}, {test, POLLIN, 0}};
    for (;;) {
        if (::poll(wait, 2, -1) < 0) {
            return 1;
        }
        if (wait[0].revents != 0 && !relay(kControl, test)) {
            return 0;
        }
        if (wait[1].revents != 0 && !obey(test)) {
            return 0;
        }
    }
}

int hold_lock(const char* path) {
    const int lock = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    struct flock whole {};

    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    const std::string pid = std::to_string(::getpid()) + "\n";
    if (lock < 0 || ::fcntl(lock, F_SETLK, &whole) != 0 ||
        !write_all(lock, pid.data(), pid.size()) || !write_all(STDOUT_FILENO, "locked\n", 7)) {
        return 1;
    }
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string path = argc > 0 ? argv[0] : "";
    const std::string name = path.substr(path.rfind('/') + 1);
    if (name == "mosaic-broker" && argc > 2) {
        return broker(argv[2]);
    }
    if (name == "mosaic-runner") {
        return wait_for_ever();
    }
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "lock" && argc > 2) {
        return hold_lock(argv[2]);
    }
    return what == "wait" ? wait_for_ever() : 64;
}
