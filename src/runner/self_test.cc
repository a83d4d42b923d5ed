#include "runner/self_test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "runner/log.h"

namespace mosaic::runner {
namespace {

Result<void> need(int fd, const char* what) {
    if (fd < 0) {
        return fail_sys(errno, what);
    }
    return {};
}

Result<void> check_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    const UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC));
    return need(fd.get(), "signalfd");
}

// What a session uses, from the shell of its turns to /proc/self/fd, which leads to its sockets.
Result<void> check_all() {
    MOSAIC_TRY(need(::access("/bin/sh", X_OK), "/bin/sh"));
    MOSAIC_TRY(need(::access("/tmp", W_OK | X_OK), "/tmp"));
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    MOSAIC_TRY(need(null.get(), "/dev/null"));
    const std::string own = "/proc/self/fd/" + std::to_string(null.get());
    MOSAIC_TRY(need(::access(own.c_str(), F_OK), "/proc/self/fd"));
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    MOSAIC_TRY(need(socket.get(), "a Unix socket"));
    const UniqueFd memory(::memfd_create("self-test", MFD_CLOEXEC));
    MOSAIC_TRY(need(memory.get(), "memfd_create"));
    // Other sessions of this user may have all that there are; this one would do without.
    const UniqueFd notify(::inotify_init1(IN_CLOEXEC));
    if (!notify.valid() && errno != EMFILE) {
        return fail_sys(errno, "inotify");
    }
    return check_signals();
}

}  // namespace

int self_test() {
    if (auto checked = check_all(); !checked) {
        log_line("mosaic-runner can't run here: " + checked.error().text);
        return 1;
    }
    print_line("mosaic-runner can run here");
    return 0;
}

}  // namespace mosaic::runner
