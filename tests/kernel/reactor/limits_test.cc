// Queues smaller than the work, deadlines, threads and descriptors.

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "fixture.h"

using namespace reactor_test;

namespace {

size_t count_descriptors() {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
        ++count;
    }
    return count;
}

UniqueFd make_event() {
    UniqueFd event(::eventfd(0, EFD_CLOEXEC));
    REQUIRE(event.valid());
    return event;
}

// Whether `act` stops the program: a broken promise to the ring must not go unseen.
template <class Act>
bool aborts(Act act) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::signal(SIGABRT, SIG_DFL);
        const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
        ::dup2(nowhere.get(), STDERR_FILENO);
        act();
        ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

void raise_event(const UniqueFd& event) {
    const uint64_t one = 1;
    REQUIRE(::write(event.get(), &one, sizeof(one)) == sizeof(one));
}

}  // namespace

TEST_CASE("200 ops pass through a submission queue of 4") {
    const auto ring = make_ring({.entries = 4, .operations_max = 256});
    if (ring == nullptr) {
        return;
    }
    CHECK(ring->facts().submission_entries == 4);
    const UniqueFd event = make_event();
    std::vector<Op> ops(200);
    for (Op& op : ops) {
        ring->poll(op, event.get(), POLLIN);
    }
    CHECK(ring->in_flight() == 200);
    CHECK(tick_now(*ring).empty());
    raise_event(event);
    const std::vector<Op*> done = drain(*ring);
    CHECK(std::set<Op*>(done.begin(), done.end()).size() == 200);
    CHECK(done.size() == 200);
    for (const Op& op : ops) {
        CHECK(op.result() == POLLIN);
    }
}

TEST_CASE("completions far past one tick's share all come, in later ticks, without waiting") {
    const auto ring = make_ring({.entries = 64, .operations_max = 4096});
    if (ring == nullptr) {
        return;
    }
    const UniqueFd event = make_event();
    std::vector<Op> ops(2000);
    for (Op& op : ops) {
        ring->poll(op, event.get(), POLLIN);
    }
    CHECK(tick_now(*ring).empty());
    raise_event(event);
    std::set<Op*> seen;
    std::vector<Op*> done;
    size_t ticks = 0;
    while (seen.size() < ops.size()) {
        REQUIRE(ring->tick(Ring::kForever, done).has_value());
        take_all(done);
        CHECK(!done.empty());
        CHECK(done.size() <= Ring::kDoneMax);
        seen.insert(done.begin(), done.end());
        ++ticks;
    }
    CHECK(ticks >= 2000 / Ring::kDoneMax);
    CHECK(ring->in_flight() == 0);
    CHECK(ring->facts().overflows == 0);
}

TEST_CASE("the completion queue holds every op and every cancel at once") {
    const auto ring = make_ring({.entries = 4, .operations_max = 512});
    if (ring == nullptr) {
        return;
    }
    CHECK(ring->facts().completion_entries >= 1024);
    const UniqueFd event = make_event();
    std::vector<Op> ops(512);
    for (Op& op : ops) {
        ring->poll(op, event.get(), POLLIN);
    }
    CHECK(tick_now(*ring).empty());
    for (Op& op : ops) {
        ring->cancel(op);
    }
    CHECK(ring->in_flight() == 1024);
    CHECK(drain(*ring).size() == 512);
    CHECK(ring->facts().overflows == 0);
}

TEST_CASE("queues larger than the kernel's are refused by name") {
    if (make_ring() == nullptr) {
        return;
    }
    const auto ring = Ring::create({.entries = 8, .operations_max = 1U << 20});
    REQUIRE_FALSE(ring.has_value());
    CHECK(ring.error().code == mosaic::Code::invalid);
    CHECK(ring.error().text.find("operations_max") == 0);
}

TEST_CASE("a tick whose deadline has passed returns what is ready and waits for nothing") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    const UniqueFd event = make_event();
    const UniqueFd other = make_event();
    Op ready;
    Op waiting;
    ring->poll(ready, event.get(), POLLIN);
    ring->poll(waiting, other.get(), POLLIN);
    CHECK(tick_now(*ring).empty());
    raise_event(event);
    CHECK(tick_now(*ring) == std::vector<Op*>{&ready});
    CHECK(tick_now(*ring).empty());
    CHECK(waiting.phase() == OpPhase::in_flight);
    ring->cancel(waiting);
    drain(*ring);
}

TEST_CASE("an op that is done is idle when its owner has taken it and not before") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    const UniqueFd event = make_event();
    raise_event(event);
    Op first;
    Op second;
    ring->poll(first, event.get(), POLLIN);
    ring->poll(second, event.get(), POLLIN);
    std::vector<Op*> done;
    REQUIRE(ring->tick(Ring::kForever, done).has_value());
    REQUIRE(done == std::vector<Op*>{&first, &second});
    CHECK(ring->in_flight() == 0);
    first.take();
    CHECK(first.idle());
    CHECK_FALSE(second.idle());
    CHECK(second.result() == POLLIN);
    // What its owner has yet to see can't be called off.
    ring->cancel(second);
    CHECK(second.phase() == OpPhase::done);
    ring->poll(first, event.get(), POLLIN);
    second.take();
    CHECK(second.idle());
    CHECK(finish(*ring, first) == POLLIN);
}

TEST_CASE("a tick never returns before its deadline with nothing done") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    const UniqueFd event = make_event();
    Op op;
    ring->poll(op, event.get(), POLLIN);
    std::vector<Op*> done;
    const Instant deadline = mosaic::monotonic_now() + mosaic::milliseconds(20);
    REQUIRE(ring->tick(deadline, done).has_value());
    take_all(done);
    CHECK(done.empty());
    CHECK(mosaic::monotonic_now() >= deadline);
    // Nothing in flight at all is no reason to return early either.
    ring->cancel(op);
    drain(*ring);
    const Instant later = mosaic::monotonic_now() + mosaic::milliseconds(5);
    REQUIRE(ring->tick(later, done).has_value());
    take_all(done);
    CHECK(mosaic::monotonic_now() >= later);
}

TEST_CASE("a signal does not end a wait") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    static int signals = 0;

    struct sigaction action {};

    action.sa_handler = [](int) { ++signals; };

    struct sigaction before {};

    REQUIRE(::sigaction(SIGUSR1, &action, &before) == 0);
    const UniqueFd event = make_event();
    Op op;
    ring->poll(op, event.get(), POLLIN);
    const pthread_t waiter = ::pthread_self();
    std::thread other([&] {
        ::pthread_kill(waiter, SIGUSR1);
        const uint64_t one = 1;
        static_cast<void>(::write(event.get(), &one, sizeof(one)));
    });
    std::vector<Op*> done;
    REQUIRE(ring->tick(Ring::kForever, done).has_value());
    take_all(done);
    other.join();
    CHECK(done == std::vector<Op*>{&op});
    CHECK(signals == 1);
    ::sigaction(SIGUSR1, &before, nullptr);
}

TEST_CASE("ready completions are handed out without entering the kernel") {
    const auto ring = make_ring({.entries = 1024, .operations_max = 2048});
    if (ring == nullptr) {
        return;
    }
    std::vector<Op> ops(600);
    const UniqueFd event = make_event();
    raise_event(event);
    for (Op& op : ops) {
        ring->poll(op, event.get(), POLLIN);
    }
    std::vector<Op*> done;
    REQUIRE(ring->tick(Ring::kForever, done).has_value());
    take_all(done);
    const uint64_t enters = ring->facts().enters;
    size_t total = done.size();
    while (total < ops.size()) {
        REQUIRE(ring->tick(Ring::kForever, done).has_value());
        take_all(done);
        total += done.size();
    }
    // All 600 completed at their submission.
    CHECK(ring->facts().enters == enters);
}

TEST_CASE("deferred completions are found by a tick alone, and by no other thread's") {
    const auto ring = make_ring();
    if (ring == nullptr) {
        return;
    }
    if (!ring->facts().defer_taskrun) {
        MESSAGE("skipped: the kernel has no DEFER_TASKRUN");
        return;
    }
    CHECK(ring->facts().single_issuer);
    const UniqueFd event = make_event();
    Op op;
    ring->poll(op, event.get(), POLLIN);
    CHECK(tick_now(*ring).empty());
    raise_event(event);
    int sys = 0;
    std::thread other([&] {
        std::vector<Op*> done;
        const auto ticked = ring->tick(Instant{0}, done);
        sys = ticked.has_value() ? 0 : ticked.error().sys;
    });
    other.join();
    CHECK(sys == EEXIST);
    CHECK(op.phase() == OpPhase::in_flight);
    CHECK(tick_now(*ring) == std::vector<Op*>{&op});
}

TEST_CASE("10,000 ops leave no descriptor behind") {
    const auto ring = make_ring({.entries = 64, .operations_max = 256});
    if (ring == nullptr) {
        return;
    }
    const Ends pipe = make_pipe();
    std::vector<Op> ops(100);
    std::array<char, 1> byte{};
    // The kernel's workers and the first use of everything come before the count.
    size_t before = 0;
    for (int round = 0; round < 100; ++round) {
        for (size_t i = 0; i < ops.size(); ++i) {
            if (i % 3 == 0) {
                ring->openat(ops[i], AT_FDCWD, "/proc/self/stat", O_RDONLY, 0);
            } else if (i % 3 == 1) {
                ring->poll(ops[i], pipe.a.get(), POLLIN);
                ring->cancel(ops[i]);
            } else {
                ring->read(ops[i], -1, byte.data(), byte.size());
            }
        }
        drain(*ring);
        for (size_t i = 0; i < ops.size(); i += 3) {
            REQUIRE(ops[i].result() >= 0);
            ring->close(ops[i], ops[i].result());
        }
        drain(*ring);
        if (round == 0) {
            before = count_descriptors();
        }
    }
    CHECK(count_descriptors() == before);
}

TEST_CASE("a ring leaves no descriptor behind, and its own is close-on-exec") {
    if (make_ring() == nullptr) {
        return;
    }
    const size_t before = count_descriptors();
    {
        const auto ring = make_ring();
        size_t rings = 0;
        for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
            std::error_code gone;
            const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
            if (target.find("io_uring") != std::string::npos) {
                ++rings;
                const int fd = std::stoi(entry.path().filename().string());
                CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
            }
        }
        CHECK(rings == 1);
    }
    CHECK(count_descriptors() == before);
}

TEST_CASE("kernel workers stay few, however many opens and syncs wait") {
    const auto ring = make_ring({.entries = 64, .operations_max = 256});
    if (ring == nullptr) {
        return;
    }
    const std::string path =
        std::string(MOSAIC_BUILD_DIR "/reactor-workers-") + std::to_string(::getpid());
    const UniqueFd file(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    REQUIRE(file.valid());
    ::unlink(path.c_str());
    std::vector<Op> ops(100);
    for (Op& op : ops) {
        ring->fsync(op, file.get());
    }
    size_t workers_max = 0;
    std::vector<Op*> done;
    while (ring->in_flight() > 0) {
        REQUIRE(ring->tick(Ring::kForever, done).has_value());
        take_all(done);
        size_t workers = 0;
        for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
            std::ifstream comm(entry.path() / "comm");
            std::string name;
            std::getline(comm, name);
            workers += name.compare(0, 7, "iou-wrk") == 0 ? 1U : 0U;
        }
        workers_max = std::max(workers_max, workers);
    }
    CHECK(workers_max > 0);
    CHECK(workers_max <= 6);
    for (const Op& op : ops) {
        CHECK(op.result() == 0);
    }
}

TEST_CASE("using the ring against its rules is an assertion") {
    if (make_ring() == nullptr) {
        return;
    }
    const Ends pipe = make_pipe();
    const int fd = pipe.a.get();
    CHECK(aborts([fd] {  // an op that the kernel still has is destroyed
        const auto ring = make_ring();
        Op op;
        ring->poll(op, fd, POLLIN);
    }));
    CHECK(aborts([fd] {  // armed twice
        Op op;
        const auto ring = make_ring();
        ring->poll(op, fd, POLLIN);
        ring->poll(op, fd, POLLIN);
    }));
    CHECK(aborts([fd] {  // more in flight than was said
        std::vector<Op> ops(3);
        const auto ring = make_ring({.entries = 4, .operations_max = 2});
        for (Op& op : ops) {
            ring->poll(op, fd, POLLIN);
        }
    }));
    CHECK(aborts([] {  // another tick before the last one's were taken
        const UniqueFd event = make_event();
        raise_event(event);
        Op op;
        const auto ring = make_ring();
        ring->poll(op, event.get(), POLLIN);
        std::vector<Op*> done;
        static_cast<void>(ring->tick(Ring::kForever, done));
        static_cast<void>(ring->tick(Instant{0}, done));
    }));
    CHECK(aborts([] {  // nothing can ever end this wait
        const auto ring = make_ring();
        std::vector<Op*> done;
        static_cast<void>(ring->tick(Ring::kForever, done));
    }));
    CHECK_FALSE(aborts([fd] {  // by the rules
        Op op;
        const auto ring = make_ring();
        ring->poll(op, fd, POLLIN);
        static_cast<void>(tick_now(*ring));
    }));
}
