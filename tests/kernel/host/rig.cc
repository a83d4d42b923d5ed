#include "rig.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "process/pidfd.h"

namespace mosaic::test {

using host::Owner;
using host::TimerKind;

void skip_unless_root(const std::string& why) {
    if (::geteuid() == 0) {
        skip(why);
    } else {
        MESSAGE("left to a run by root: ", why);
    }
}

void skip(const std::string& why) {
    const char* must = std::getenv("MOSAIC_MUST_WORK");
    if (must != nullptr && std::string(must) == "1") {
        FAIL(why);
    }
    MESSAGE("skipped: ", why);
}

Rig::Rig() {
    // As the host does (TRAP-07).
    ::signal(SIGPIPE, SIG_IGN);
    auto ring = reactor::Ring::create({.entries = 64, .operations_max = 1024});
    if (!ring) {
        skip(ring.error().text);
        return;
    }
    loop.ring = std::move(*ring);
    loop.now = monotonic_now();
    host::own(wait_op_, Owner::none, 0);
}

Rig::~Rig() {
    loop.ring.reset();
}

void Rig::tick() {
    // Never longer than the patience of run_until, which then fails the test.
    const Instant limit = monotonic_now() + milliseconds(kPatienceMs);
    const auto timer = loop.timers.next();
    run_tick(timer ? std::min(limit, Instant{timer->ns - passed_.ns}) : limit);
}

void Rig::tick_now() {
    run_tick(Instant{0});
}

void Rig::run_tick(Instant deadline) {
    std::vector<reactor::Op*> done;
    const auto ticked = loop.ring->tick(deadline, done);
    REQUIRE(ticked.has_value());
    loop.now = monotonic_now() + passed_;
    const auto brings = [&](Owner owner) {
        return std::any_of(done.begin(), done.end(), [&](const reactor::Op* op) {
            return static_cast<Owner>(op->owner_kind()) == owner;
        });
    };
    both_ways += brings(Owner::control_recv) && brings(Owner::control_send) ? 1U : 0U;
    if (last_first) {
        std::reverse(done.begin(), done.end());
    }
    for (reactor::Op* op : done) {
        op->take();
        dispatch(*op);
    }
    dispatch_timers();
    collect();
    if (clients) {
        clients->recycle();
    }
    if (metrics) {
        metrics->recycle();
    }
    after_tick();
}

void Rig::pass(Duration time) {
    passed_.ns += time.ns;
    tick_now();
}

void Rig::dispatch(const reactor::Op& op) {
    switch (static_cast<Owner>(op.owner_kind())) {
        case Owner::client_recv:
            return clients->on_recv_done(op.owner());
        case Owner::client_send:
            return clients->on_send_done(op.owner());
        case Owner::control_recv:
            return broker->on_recv_done();
        case Owner::control_send:
            return broker->on_send_done();
        case Owner::broker_exit:
            return broker->on_exit();
        case Owner::broker_exec:
            return broker->on_exec();
        case Owner::store:
            return store->on_completion();
        case Owner::store_close:
            return store->on_close_done();
        case Owner::log_write:
            return log->on_write_done();
        case Owner::leftover_process:
            return recovery->on_process_gone(op.owner());
        case Owner::child_exit:
            return children->on_exit(op.owner());
        case Owner::child_output:
            return children->on_output(op.owner());
        case Owner::metrics_accept:
            return metrics->on_accept();
        case Owner::metrics_recv:
            return metrics->on_recv_done(op.owner());
        case Owner::metrics_send:
            return metrics->on_send_done(op.owner());
        case Owner::none:
        case Owner::signals:
        case Owner::accept:
        case Owner::run_files:
        case Owner::run_exec:
        case Owner::run_exit:
        case Owner::run_status:
        case Owner::run_stdin:
            return;
    }
}

void Rig::dispatch_timers() {
    while (const auto timer = loop.timers.take_due(loop.now)) {
        switch (static_cast<TimerKind>(timer->kind)) {
            case TimerKind::leftover_deadline:
                recovery->on_deadline(timer->owner, timer->generation);
                break;
            case TimerKind::broker_restart:
                broker->on_restart(timer->generation);
                break;
            case TimerKind::broker_watch:
                broker->on_watch(timer->generation);
                break;
            case TimerKind::ends_retry:
                broker->on_ends_retry();
                break;
            case TimerKind::store_retry:
                store->on_retry();
                break;
            case TimerKind::log_retry:
                log->on_retry();
                break;
            case TimerKind::child_deadline:
                children->on_deadline(timer->owner, timer->generation);
                break;
            case TimerKind::metrics_client:
                metrics->on_client_timer(timer->owner, timer->generation);
                break;
            case TimerKind::metrics_listen:
                metrics->on_listen_timer();
                break;
            case TimerKind::metrics_broker:
            case TimerKind::run_deadline:
            case TimerKind::run_term:
            case TimerKind::accept_retry:
            case TimerKind::bad_request_summary:
            case TimerKind::disk_check:
            case TimerKind::tidy_up:
            case TimerKind::group_retry:
            case TimerKind::warm_retry:
            case TimerKind::stop_all:
                FAIL("a timer of no part here");
        }
    }
}

void Rig::collect() {
    while (clients) {
        auto request = clients->take_request();
        if (!request) {
            break;
        }
        requests.push_back(std::move(*request));
    }
    while (children) {
        auto result = children->take_result();
        if (!result) {
            break;
        }
        results.push_back(std::move(*result));
    }
    // News before the events that they go with, as in the host.
    while (true) {
        while (broker) {
            auto next = broker->take_news();
            if (!next) {
                break;
            }
            if (next->kind == host::BrokerNews::Kind::recovered && recovery) {
                recovery->on_ended(next->leftover, next->end);
            }
            news.push_back(std::move(*next));
        }
        if (loop.leftover_events.empty()) {
            break;
        }
        const host::LeftoverNews event = loop.leftover_events.front();
        loop.leftover_events.pop_front();
        leftover_events.push_back(event);
        if (recovery) {
            recovery->step(event);
        }
    }
    run_events.insert(run_events.end(), loop.run_events.begin(), loop.run_events.end());
    loop.run_events.clear();
}

int32_t Rig::finish(const reactor::Op& op) {
    run_until([&] { return op.idle(); });
    return op.result();
}

void Rig::wait_readable(int fd) {
    loop.ring->poll(wait_op_, fd, POLLIN);
    finish(wait_op_);
}

size_t Rig::count(SlotRef run, launch::EventKind kind) const {
    return static_cast<size_t>(
        std::count_if(run_events.begin(), run_events.end(), [&](const host::RunEvent& event) {
            return event.run == run && event.event.kind == kind;
        }));
}

Scratch::Scratch() : path_("/var/tmp/mosaic-host-XXXXXX") {
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
    fd_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(fd_.valid());
}

Scratch::~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

SmallDisk::SmallDisk(size_t pages) : pages_(pages) {
    const UniqueFd made(::fsopen("tmpfs", FSOPEN_CLOEXEC));
    const std::string size = std::to_string(pages * kPage);
    if (!made.valid() ||
        ::fsconfig(made.get(), FSCONFIG_SET_STRING, "size", size.c_str(), 0) != 0 ||
        ::fsconfig(made.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
        skip_unless_root("a tmpfs can't be made: " + errno_text(errno));
        return;
    }
    const UniqueFd mount(::fsmount(made.get(), FSMOUNT_CLOEXEC, 0));
    if (!mount.valid()) {
        skip_unless_root("a tmpfs can't be mounted: " + errno_text(errno));
        return;
    }
    fd_.reset(::openat(mount.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(fd_.valid());
}

void SmallDisk::leave_free(size_t pages) const {
    constexpr const char* kFiller = "filler";
    ::unlinkat(fd_.get(), kFiller, 0);
    const UniqueFd file(
        ::openat(fd_.get(), kFiller, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0600));
    REQUIRE(file.valid());
    const std::string page(kPage, 'f');
    size_t taken = 0;
    while (::write(file.get(), page.data(), page.size()) == static_cast<ssize_t>(page.size())) {
        ++taken;
        REQUIRE(taken <= pages_);
    }
    REQUIRE(errno == ENOSPC);
    const size_t keep = taken > pages ? taken - pages : 0;
    REQUIRE(::ftruncate(file.get(), static_cast<off_t>(keep * kPage)) == 0);
}

StderrCapture::StderrCapture()
    : saved_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)),
      file_(::open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) {
    REQUIRE(saved_.valid());
    REQUIRE(file_.valid());
    REQUIRE(::dup2(file_.get(), STDERR_FILENO) == STDERR_FILENO);
}

StderrCapture::~StderrCapture() {
    ::dup2(saved_.get(), STDERR_FILENO);
}

std::string StderrCapture::text() const {
    std::string text;
    std::array<char, 4096> buffer{};
    for (;;) {
        const ssize_t n =
            ::pread(file_.get(), buffer.data(), buffer.size(), static_cast<off_t>(text.size()));
        if (n <= 0) {
            return text;
        }
        text.append(buffer.data(), static_cast<size_t>(n));
    }
}

size_t times(const std::string& text, const std::string& part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
        ++found;
    }
    return found;
}

std::optional<std::string> content(int directory, const std::string& name) {
    const UniqueFd file(::openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid()) {
        return std::nullopt;
    }
    std::string text;
    std::array<char, 65536> buffer{};
    for (;;) {
        const ssize_t n = ::read(file.get(), buffer.data(), buffer.size());
        if (n <= 0) {
            return text;
        }
        text.append(buffer.data(), static_cast<size_t>(n));
    }
}

std::optional<unsigned> mode_of(int directory, const std::string& name) {
    struct stat facts {};

    if (::fstatat(directory, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) {
        return std::nullopt;
    }
    return facts.st_mode & 07777U;
}

void put(int directory, const std::string& name, const std::string& text) {
    const UniqueFd file(
        ::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    REQUIRE(file.valid());
    REQUIRE(::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

bool exits_within(int pidfd, int ms) {
    pollfd wait{pidfd, POLLIN, 0};
    return ::poll(&wait, 1, ms) == 1;
}

Ends make_pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Ends make_socketpair() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace mosaic::test
