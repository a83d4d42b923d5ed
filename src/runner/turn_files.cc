#include "runner/turn_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace mosaic::runner {
namespace {

// Numbers that a session may have planted files at before a turn gives up.
constexpr uint32_t kPlantedMax = 256;

UniqueFd create(int directory, const std::string& name) {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    return UniqueFd(::openat(directory, name.c_str(), kFlags, 0600));
}

// The three of one number, or errno.
int create_three(int directory, TurnFiles& files) {
    const std::array<std::string, 3> names = {
        files.number + ".request", files.number + ".reply", files.number + ".stderr"};
    const std::array<UniqueFd*, 3> places = {&files.request, &files.reply, &files.error};
    for (size_t i = 0; i < names.size(); ++i) {
        *places[i] = create(directory, names[i]);
        if (!places[i]->valid()) {
            const int why = errno;
            while (i > 0) {
                --i;
                ::unlinkat(directory, names[i].c_str(), 0);
            }
            return why;
        }
    }
    return 0;
}

}  // namespace

Result<TurnFiles> make_turn_files(int directory, uint32_t& next) {
    for (uint32_t tried = 0; tried < kPlantedMax; ++tried) {
        TurnFiles files;
        std::array<char, 16> number{};
        ignore(::snprintf(number.data(), number.size(), "%04u", next), "there is room for any");
        ++next;
        files.number = number.data();
        const int why = create_three(directory, files);
        if (why == 0) {
            return files;
        }
        if (why != EEXIST) {
            return fail_sys(why, "rw/turns/" + files.number);
        }
    }
    return fail(Code::unsafe, "rw/turns: files stand where the runner makes its own");
}

Result<void> TurnMarker::watch(int io, std::string name) {
    io_ = io;
    name_ = std::move(name);
    UniqueFd notify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (!notify.valid()) {
        return fail_sys(errno, "inotify");
    }
    // By descriptor: the directory's path belongs to the session.
    const std::string path = "/proc/self/fd/" + std::to_string(io);
    if (::inotify_add_watch(notify.get(), path.c_str(), IN_CREATE | IN_MOVED_TO) < 0) {
        return fail_sys(errno, "watching rw/io");
    }
    notify_ = std::move(notify);
    return {};
}

Result<void> TurnMarker::clear() {
    if (::unlinkat(io_, name_.c_str(), 0) == 0 || errno == ENOENT) {
        return {};
    }
    // A directory, perhaps a full one: out of the way is enough.
    const std::string aside = name_ + ".old-" + std::to_string(++cleared_);
    if (::renameat(io_, name_.c_str(), io_, aside.c_str()) != 0) {
        return fail_sys(errno, "taking away an old " + name_);
    }
    return {};
}

void TurnMarker::drain() const {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): read fills it
    std::array<char, 4096> events;
    ignore(::read(notify_.get(), events.data(), events.size()), "only there() counts");
}

bool TurnMarker::there() const {
    struct stat info {};

    return ::fstatat(io_, name_.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
}

}  // namespace mosaic::runner
