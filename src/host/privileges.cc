#include "host/privileges.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

namespace mosaic::host {
namespace {

Result<void> become(const passwd& user) {
    if (::initgroups(user.pw_name, user.pw_gid) != 0) {
        return fail_sys(errno, "initgroups");
    }
    if (::setresgid(user.pw_gid, user.pw_gid, user.pw_gid) != 0) {
        return fail_sys(errno, "setresgid");
    }
    if (::setresuid(user.pw_uid, user.pw_uid, user.pw_uid) != 0) {
        return fail_sys(errno, "setresuid");
    }
    if (::setuid(0) == 0) {
        return fail(Code::unsafe, "root's ids could be taken back after they were dropped");
    }
    return {};
}

void set_environment(const passwd& user) {
    ::setenv("HOME", user.pw_dir, 1);
    ::setenv("USER", user.pw_name, 1);
    ::setenv("LOGNAME", user.pw_name, 1);
    for (const char* name : {"XDG_CONFIG_HOME",
                             "XDG_STATE_HOME",
                             "XDG_DATA_HOME",
                             "XDG_CACHE_HOME",
                             "XDG_RUNTIME_DIR"}) {
        ::unsetenv(name);
    }
}

}  // namespace

Result<void> leave_root(const std::string& user, char** argv) {
    errno = 0;
    const passwd* entry = user.empty() ? nullptr : ::getpwnam(user.c_str());
    if (!user.empty() && entry == nullptr) {
        return fail(Code::missing, "there is no user " + user);
    }
    if (::geteuid() != 0) {
        if (entry != nullptr && entry->pw_uid != ::geteuid()) {
            return fail(Code::invalid,
                        "--user " + user + " needs root, or to be started as that user");
        }
        return {};
    }
    if (entry == nullptr) {
        return fail(Code::unsafe,
                    "started as root: sessions never run as root; name the user that they run as "
                    "with --user NAME, or with \"user\" in the system file");
    }
    if (entry->pw_uid == 0) {
        return fail(Code::unsafe, "--user " + user + " is root; name an ordinary user");
    }
    MOSAIC_TRY(become(*entry));
    set_environment(*entry);
    if (::chdir("/") != 0) {
        return fail_sys(errno, "chdir /");
    }
    ::execv("/proc/self/exe", argv);
    return fail_sys(errno, "starting again as " + user + " (can that user read this program?)");
}

}  // namespace mosaic::host
