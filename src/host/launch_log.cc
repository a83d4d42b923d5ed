#include "host/launch_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/file_time.h"
#include "base/instant.h"
#include "host/log.h"
#include "registry/launch_log.h"

namespace mosaic::host {

namespace {

bool is_same_file(const struct stat& facts, int fd) {
    struct stat other {};

    return ::fstat(fd, &other) == 0 && other.st_dev == facts.st_dev && other.st_ino == facts.st_ino;
}

// As in a line; empty when the file system doesn't keep it.
std::string birth_of(int fd) {
    struct statx facts {};

    if (::statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &facts) != 0 ||
        (facts.stx_mask & STATX_BTIME) == 0) {
        return {};
    }
    return iso8601(file_time_ns(facts.stx_btime.tv_sec, facts.stx_btime.tv_nsec) / 1'000'000);
}

}  // namespace

LoggedEnds logged_ends(int launches_directory, const std::string& name) {
    constexpr off_t kTailBytes = off_t{4} * 1024 * 1024;
    LoggedEnds ends;
    const UniqueFd file(
        ::openat(launches_directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));

    struct stat facts {};

    if (!file.valid() || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
        return ends;
    }
    const off_t start = std::max<off_t>(0, facts.st_size - kTailBytes);
    std::string tail(static_cast<size_t>(facts.st_size - start), '\0');
    const ssize_t got = ::pread(file.get(), tail.data(), tail.size(), start);
    std::string_view rest(tail.data(), got > 0 ? static_cast<size_t>(got) : 0);
    const std::string birth = start == 0 ? birth_of(file.get()) : std::string();
    if (!birth.empty()) {
        ends.since = birth;
    }
    while (!rest.empty()) {
        const size_t end = std::min(rest.find('\n'), rest.size());
        const auto record = registry::parse_log_line(rest.substr(0, end));
        if (record && record->event == "end") {
            ends.runs.insert(record->run);
        }
        if (record && birth.empty() && !record->at.empty()) {
            ends.since = std::min(ends.since, record->at);
        }
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return ends;
}

LaunchLog::LaunchLog(Loop& loop) : loop_(loop) {
    own(op_, Owner::log_write, 0);
}

Result<void> LaunchLog::open(int launches_directory, const std::string& name) {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    UniqueFd file(::openat(launches_directory, name.c_str(), kFlags, 0600));
    if (!file.valid()) {
        return fail_sys(errno, name);
    }

    struct stat facts {};

    if (::fstat(file.get(), &facts) != 0) {
        return fail_sys(errno, name);
    }
    if (!S_ISREG(facts.st_mode)) {
        return fail(Code::unsafe, name + " isn't a regular file");
    }
    const bool moved = file_.valid() && !is_same_file(facts, file_.get());
    if (op_.idle()) {
        file_ = std::move(file);
        if (moved) {
            begin_line_again();
        }
        return {};
    }
    moved_ = moved_ || moved;
    // The write under way keeps its descriptor, however often it is reopened meanwhile.
    if (old_file_.valid()) {
        file_ = std::move(file);
    } else {
        old_file_ = std::exchange(file_, std::move(file));
    }
    return {};
}

// What comes next belongs to another file than the bytes before it.
void LaunchLog::begin_line_again() {
    if (written_ > 0) {
        written_ = under_way_.rfind('\n', written_ - 1) + 1;  // npos + 1 is 0
    }
}

void LaunchLog::append(const std::string& line) {
    if (waiting_.size() + line.size() > kBufferBytesMax) {
        ++dropped_;
        return;
    }
    waiting_ += line;
    write_more();
}

void LaunchLog::write_more() {
    if (!op_.idle() || failing_) {
        return;
    }
    if (written_ == under_way_.size()) {
        under_way_ = std::exchange(waiting_, {});
        written_ = 0;
    }
    if (!under_way_.empty()) {
        loop_.ring->write(
            op_, file_.get(), under_way_.data() + written_, under_way_.size() - written_);
    }
}

void LaunchLog::on_write_done() {
    old_file_.reset();
    const int result = op_.result();
    if (result > 0) {
        written_ += static_cast<size_t>(result);
    }
    if (std::exchange(moved_, false)) {
        begin_line_again();
    }
    if (result <= 0) {
        if (!complained_) {
            log_line("the launch log can't be written (" + errno_text(result == 0 ? EIO : -result) +
                     "); trying again every second");
        }
        complained_ = true;
        failing_ = true;
        loop_.set_timer(TimerKind::log_retry, 0, 0, seconds(1));
        return;
    }
    if (written_ == under_way_.size()) {
        under_way_.clear();
        written_ = 0;
        say_it_is_over();
    }
    write_more();
}

void LaunchLog::on_retry() {
    failing_ = false;
    write_more();
}

void LaunchLog::say_it_is_over() {
    if (complained_) {
        log_line("the launch log is written again");
        complained_ = false;
    }
    if (dropped_ > 0) {
        log_line(std::to_string(dropped_) + " launch log lines were lost: the buffer was full");
        dropped_ = 0;
    }
}

}  // namespace mosaic::host
