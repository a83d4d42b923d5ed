#include "host/privileges.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "config/config.h"

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

// The program finds what root named after it has left root's directory, too.
Result<void> set_config(const std::string& path) {
    MOSAIC_TRY_ASSIGN(const std::string absolute, config::absolute_path(path));
    if (::setenv("MOSAIC_CONFIG", absolute.c_str(), 1) != 0) {
        return fail_sys(errno, "setting MOSAIC_CONFIG");
    }
    return {};
}

Result<void> make_absolute(std::string_view option, std::string& path) {
    // An empty path is none; an id is looked up beside the system file.
    if (path.empty() || (option == "--business" && !config::is_business_path(path))) {
        return {};
    }
    MOSAIC_TRY_ASSIGN(path, config::absolute_path(path));
    return {};
}

std::vector<std::string> words_of(char** argv) {
    std::vector<std::string> out;
    for (; *argv != nullptr; ++argv) {
        out.emplace_back(*argv);
    }
    return out;
}

// As execv takes them; they point into `words`.
std::vector<char*> pointers_to(std::vector<std::string>& words) {
    std::vector<char*> out;
    out.reserve(words.size() + 1);
    for (std::string& word : words) {
        out.push_back(word.data());
    }
    out.push_back(nullptr);
    return out;
}

bool takes_path(std::string_view option) {
    return option == "--config" || option == "--data" || option == "--business";
}

}  // namespace

Result<std::vector<std::string>> absolute_arguments(std::vector<std::string> words) {
    for (size_t i = 1; i < words.size(); ++i) {
        std::string& word = words[i];
        const size_t equals = word.find('=');
        const std::string option = word.substr(0, equals);
        if (!takes_path(option)) {
            continue;
        }
        if (equals != std::string::npos) {
            std::string path = word.substr(equals + 1);
            MOSAIC_TRY(make_absolute(option, path));
            word = option + "=" + path;
        } else if (i + 1 < words.size()) {
            MOSAIC_TRY(make_absolute(option, words[++i]));
        }
    }
    return words;
}

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
    // As root, who may ask where a directory is that the user can't enter.
    MOSAIC_TRY_ASSIGN(std::vector<std::string> words, absolute_arguments(words_of(argv)));
    if (const char* config = std::getenv("MOSAIC_CONFIG"); config != nullptr && *config != '\0') {
        MOSAIC_TRY(set_config(config));
    }
    MOSAIC_TRY(become(*entry));
    set_environment(*entry);
    if (::chdir("/") != 0) {
        return fail_sys(errno, "chdir /");
    }
    ::execv("/proc/self/exe", pointers_to(words).data());
    return fail_sys(errno, "starting again as " + user + " (can that user read this program?)");
}

}  // namespace mosaic::host
