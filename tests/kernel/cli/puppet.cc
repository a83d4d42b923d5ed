// Stands for a session's runner or its bubblewrap:  NAME RUN-DIRECTORY TERMS
// Says "ready" on standard output, then takes SIGTERM quietly TERMS times and exits at the next
// one.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

int main(int argc, char** argv) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    int left = argc > 2 ? std::atoi(argv[2]) : 0;
    if (write(STDOUT_FILENO, "ready\n", 6) != 6) {
        return 1;
    }
    while (true) {
        int signal = 0;
        sigwait(&set, &signal);
        if (left == 0) {
            return 0;
        }
        --left;
    }
}
