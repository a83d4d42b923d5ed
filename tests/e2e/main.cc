// The tests' main: leaves root (the product never runs sessions as root), and says why it can't
// test where a sandbox can't be made. Exit status 77 is a skip for ctest.

#define DOCTEST_CONFIG_IMPLEMENT
#include <grp.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "no_test_ran.h"

namespace {

bool only_lists(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        if (std::strstr(argv[i], "list-test-cases") != nullptr ||
            std::strcmp(argv[i], "-ltc") == 0 || std::strcmp(argv[i], "--help") == 0 ||
            std::strcmp(argv[i], "--version") == 0) {
            return true;
        }
    }
    return false;
}

// Becomes the user of tools/test, or nobody. A process that has changed its ids isn't dumpable, and
// its /proc entries belong to root (proc(5)): the broker couldn't look at such a caller and would
// refuse it. With MOSAIC_E2E_ROOT_HOST=1 the way back stays open, for the host to be started by
// root (see RootHost in harness.cc); programs that are started otherwise don't get it, an exec
// closes it.
bool leave_root() {
    if (::geteuid() != 0) {
        return true;
    }
    const passwd* user = ::getpwnam("mosaic");
    if (user == nullptr) {
        user = ::getpwnam("nobody");
    }
    if (user == nullptr || user->pw_uid == 0) {
        return false;
    }
    const char* root_host = std::getenv("MOSAIC_E2E_ROOT_HOST");
    const bool back = root_host != nullptr && std::strcmp(root_host, "1") == 0;
    return ::setgroups(0, nullptr) == 0 &&
           ::setresgid(user->pw_gid, user->pw_gid, user->pw_gid) == 0 &&
           ::setresuid(user->pw_uid, user->pw_uid, back ? 0 : user->pw_uid) == 0 &&
           ::prctl(PR_SET_DUMPABLE, 1) == 0;
}

// Asks the machine, not the product. What bwrap says about it goes to our own stderr.
bool bwrap_works() {
    std::array<std::string, 7> words = {
        "/usr/bin/bwrap", "--unshare-all", "--as-pid-1", "--ro-bind", "/", "/", "/bin/true"};
    std::array<char*, 8> argv{};
    std::transform(
        words.begin(), words.end(), argv.begin(), [](std::string& w) { return w.data(); });
    pid_t pid = 0;
    int status = 0;
    return ::posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), environ) == 0 &&
           ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int skip(const std::string& why) {
    const char* must = std::getenv("MOSAIC_MUST_WORK");
    const bool fails = must != nullptr && std::strcmp(must, "1") == 0;
    std::fprintf(
        stderr, "%s: %s\n", fails ? "this must work here, and doesn't" : "skipped", why.c_str());
    return fails ? 1 : 77;
}

}  // namespace

int main(int argc, char** argv) {
    doctest::Context context(argc, argv);
    if (only_lists(argc, argv)) {
        return context.run();
    }
    ::umask(022);
    if (!leave_root()) {
        return skip("started as root, and there is no user to become");
    }
    if (::access("/usr/bin/bwrap", X_OK) != 0) {
        return skip("/usr/bin/bwrap is missing");
    }
    if (!bwrap_works()) {
        return skip("bwrap can't make a sandbox here; see above");
    }
    return mosaic::test::RanCount::exit_code(context.run());
}
