// Goal: whichever operation on a file fails in the host, and whether the disk works again at once
// or after a while: a launch refuses or fails with the reason and leaves nothing behind, sessions
// run on, ends are recorded as soon as there is space again, and no file is ever cut. Method: the
// host is built so that a test can fail its n-th operation below the data root. One launch, one
// end, one recovery and one first start are counted on a disk that works, and then played once for
// each operation.

#include "crash/disk_error.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "crash/ledger.h"
#include "crash/stage.h"
#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::crash;
using namespace mosaic::e2e;

namespace {

// What a disk does from one operation on.
struct Trouble {
    const char* name;
    int sys;
    uint32_t operations;  // so many fail
};

constexpr std::array<Trouble, 2> kTroubles = {{
    {"one I/O error", EIO, 1},
    {"a full disk", ENOSPC, 3},
}};

// A business on the host with disk errors, and the file that it shares with us.
class Disk {
  public:
    Disk() : ledger_(world_), path_(world_.root + "/disk-errors") {
        const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        REQUIRE(fd >= 0);
        REQUIRE(::ftruncate(fd, sizeof(DiskErrors)) == 0);
        void* const page =
            ::mmap(nullptr, sizeof(DiskErrors), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        REQUIRE(page != MAP_FAILED);
        ::close(fd);
        errors_ = static_cast<DiskErrors*>(page);
        REQUIRE(world_.data.size() < errors_->root.size());
        std::memcpy(errors_->root.data(), world_.data.c_str(), world_.data.size());
        world_.set_prefix(crash_prefix());
        world_.system.set("limits", object({{"runsKept", 1'000'000}}));
        options_.more_env["MOSAIC_DISK_ERRORS"] = path_;
    }

    Disk(const Disk&) = delete;
    Disk& operator=(const Disk&) = delete;

    ~Disk() {
        work_again();
        ::munmap(errors_, sizeof(DiskErrors));
    }

    [[nodiscard]] World& world() { return world_; }

    [[nodiscard]] Ledger& ledger() { return ledger_; }

    void start() { world_.start(options_); }

    [[nodiscard]] bool try_start() { return world_.try_start(options_); }

    // From now on operations are counted from 1.
    void count() {
        work_again();
        errors_->failed = 0;
        errors_->passed = 0;
    }

    // How many there were.
    [[nodiscard]] uint32_t passed_and_shown() const {
        const uint32_t passed = errors_->passed;
        for (uint32_t i = 0; i < std::min(passed, DiskErrors::kNamed); ++i) {
            std::printf("%3u %s\n", i + 1, errors_->names[i].data());
        }
        return passed;
    }

    [[nodiscard]] uint32_t failed() const { return errors_->failed; }

    void fail(uint32_t operation, const Trouble& trouble) {
        count();
        errors_->sys = trouble.sys;
        errors_->fail_count = trouble.operations;
        errors_->fail_from = operation;
    }

    // Waits until an operation has failed; false at the deadline.
    [[nodiscard]] bool await_failure() const {
        const int64_t deadline = now_ms() + kWaitMs;
        while (errors_->failed == 0 && now_ms() < deadline) {
            ::poll(nullptr, 0, 5);
        }
        return errors_->failed > 0;
    }

    void work_again() { errors_->fail_from = 0; }

  private:
    World world_;
    Ledger ledger_;
    std::string path_;
    StartOptions options_;
    DiskErrors* errors_ = nullptr;
};

void check_reason(const std::string& what, int sys) {
    CHECK_MESSAGE(contains(what, std::strerror(sys)), "no reason in: " << what);
}

// A start that gave up: 3, or 1 when it had recovered already and could not serve.
void check_refusal(const Exit& exit, const std::string& log, const Trouble& trouble) {
    CHECK((exit.code == 3 || exit.code == 1));
    check_reason(log, trouble.sys);
}

// Those that the broker knows: what else has a directory was left behind.
std::set<std::string> bound_runs(const World& world) {
    std::set<std::string> runs;
    for (const json::Value& event : world.events()) {
        if (text(event, "type") == "session.bound") {
            runs.insert(text(event, "run"));
        }
    }
    return runs;
}

void check_nothing_left(const World& world) {
    const std::set<std::string> known = bound_runs(world);
    const std::string runs = world.data + "/launches/acme";
    const bool clean = wait_for_change({runs}, [&] {
        const auto names = names_in(runs);
        return std::all_of(
            names.begin(), names.end(), [&](const auto& n) { return known.contains(n); });
    });
    CHECK_MESSAGE(clean, "the directory of a launch that failed is left");
    for (const std::string& run : known) {
        CHECK_MESSAGE(exists(world.run_directory(run)), run << " has lost its directory");
    }
}

// One for each run that ended, in the log and at the broker.
void check_ends(World& world, size_t ended) {
    const auto lines = world.wait_log_count("end", ended);
    std::set<std::string> runs;
    for (const json::Value& line : lines) {
        CHECK_MESSAGE(runs.insert(text(line, "run")).second, "two end lines: " << json::dump(line));
    }
    size_t events = 0;
    for (const json::Value& event : world.events()) {
        events += text(event, "type") == "session.ended" ? 1U : 0U;
    }
    CHECK(lines.size() == ended);
    CHECK(events == ended);
}

// A session that knows of nothing.
class Witness {
  public:
    explicit Witness(World& world) : world_(world) {
        world.launch("reviewer");
        entry_ = *world.session_of("reviewer");
    }

    void check() {
        CHECK(trim(world_.ask("reviewer", "echo here")) == "here");
        REQUIRE(world_.session_of("reviewer").has_value());
        CHECK(*world_.session_of("reviewer") == entry_);
    }

  private:
    World& world_;
    json::Value entry_;
};

struct Answer {
    bool granted = false;
    std::string error;
    std::string message;
};

// Of a thread run, whose store is made, too.
Answer launch(const World& world, const std::string& thread) {
    LineStream admin = world.admin();
    const json::Value reply =
        admin.request("launch", object({{"instance", "coder"}, {"thread", thread}}));
    Answer out;
    out.granted = *reply.find("ok") == json::Value(true);
    if (!out.granted) {
        out.error = text(reply, "error");
        out.message = text(reply, "message");
    }
    return out;
}

std::optional<json::Value> session_of_thread(const World& world, const std::string& thread) {
    for (const json::Value& entry : world.sessions()) {
        const json::Value* found = entry.find("thread");
        if (found != nullptr && *found == json::Value(thread)) {
            return entry;
        }
    }
    return std::nullopt;
}

void end_thread(World& world, const std::string& thread) {
    LineStream admin = world.admin();
    const json::Value reply = admin.request(
        "stop", object({{"target", "coder"}, {"thread", thread}, {"timeoutMs", 10'000}}));
    CHECK_MESSAGE(*reply.find("ok") == json::Value(true), json::dump(reply));
}

// Plays `scene` once for each operation and trouble, with the operation failing.
void for_each_failure(Disk& disk,
                      uint32_t operations,
                      const std::function<void(const Trouble&)>& scene) {
    for (const Trouble& trouble : kTroubles) {
        uint32_t failures = 0;
        for (uint32_t operation = 1; operation <= operations; ++operation) {
            INFO(trouble.name << " at operation " << operation);
            disk.fail(operation, trouble);
            scene(trouble);
            failures += disk.failed() > 0 ? 1U : 0U;
            CHECK_MESSAGE(disk.failed() > 0, "the operation wasn't reached");
        }
        std::printf("%s at each of %u operations: %u failed\n", trouble.name, operations, failures);
        std::fflush(stdout);
    }
}

}  // namespace

TEST_CASE("a disk error at any operation of a launch leaves nothing behind") {
    Disk disk;
    World& world = disk.world();
    disk.start();
    Witness witness(world);
    int threads = 0;
    size_t ended = 0;
    const auto next_thread = [&] { return "t" + std::to_string(++threads); };
    disk.count();
    const std::string clean = next_thread();
    REQUIRE(launch(world, clean).granted);
    world.wait_log_count("launch", 2);
    const uint32_t operations = disk.passed_and_shown();
    REQUIRE(operations > 20);
    end_thread(world, clean);
    ++ended;
    size_t granted = 0;
    size_t refused = 0;
    for_each_failure(disk, operations, [&](const Trouble& trouble) {
        const std::string thread = next_thread();
        const Answer answer = launch(world, thread);
        disk.work_again();
        if (answer.granted) {
            // What failed could be repeated in time: it is a session like any other.
            ++granted;
            CHECK(session_of_thread(world, thread).has_value());
            end_thread(world, thread);
        } else {
            ++refused;
            const bool known = answer.error == "storage-unavailable";
            CHECK_MESSAGE(known, answer.error << ": " << answer.message);
            check_reason(answer.message, trouble.sys);
        }
        // Each has its one line, of its end or of its refusal, before the next one is asked for.
        const size_t cases = granted + refused;
        const bool told = wait_for_change({world.data + "/launches"}, [&] {
            return world.log("end").size() + world.log("refused").size() == cases + ended;
        });
        CHECK(told);
        CHECK_FALSE(session_of_thread(world, thread).has_value());
        CHECK_FALSE(exists(world.bus_host() + "/sessions.json.tmp"));
        witness.check();
    });
    std::printf("%zu launches were granted, %zu refused\n", granted, refused);
    CHECK(refused > 0);
    check_nothing_left(world);
    // Each launch that was bound has its end, each that wasn't its refusal.
    const size_t bound = bound_runs(world).size() - 1;
    check_ends(world, bound);
    world.wait_log_count("refused", refused - (bound - ended - granted));
    CHECK(launch(world, next_thread()).granted);
}

TEST_CASE("a disk error at any operation of an end is made good when the disk works again") {
    Disk disk;
    World& world = disk.world();
    disk.start();
    Witness witness(world);
    size_t ended = 0;
    // A session that is stopped, or one that dies. Stopped first: that is answered when all is
    // done.
    bool by_signal = true;
    const auto end = [&] {
        const json::Value entry = *world.session_of("coder");
        by_signal = !by_signal;
        if (by_signal) {
            REQUIRE(::kill(runner_pid(entry), SIGKILL) == 0);
        } else {
            world.stop_run("coder");
        }
        ++ended;
        const json::Value line = world.wait_log("end", text(entry, "run"));
        CHECK(text(line, "reason") == (by_signal ? "killed" : "stopped"));
        REQUIRE(world.wait_sessions(1));
    };
    world.launch("coder");
    disk.count();
    end();
    const uint32_t operations = disk.passed_and_shown();
    REQUIRE(operations > 5);
    world.launch("coder");
    for_each_failure(disk, operations, [&](const Trouble&) {
        end();
        // The last operation comes when the entry is gone already.
        CHECK(disk.await_failure());
        disk.work_again();
        witness.check();
        world.launch("coder");
    });
    end();
    check_ends(world, ended);
    check_nothing_left(world);
}

TEST_CASE("a disk error at any operation of a recovery loses nothing") {
    Disk disk;
    World& world = disk.world();
    disk.start();
    const auto leave_leftovers = [&] {
        world.launch("coder");
        world.launch("reviewer");
        world.kill();
    };
    leave_leftovers();
    disk.count();
    disk.start();
    const uint32_t operations = disk.passed_and_shown();
    REQUIRE(operations > 10);
    disk.ledger().check_recovered();
    uint32_t refused = 0;
    leave_leftovers();
    for_each_failure(disk, operations, [&](const Trouble& trouble) {
        const std::string before = world.host_log();
        if (!disk.try_start()) {
            const auto exit = world.host().wait();
            REQUIRE(exit.has_value());
            check_refusal(*exit, world.host_log().substr(before.size()), trouble);
            ++refused;
            disk.work_again();
            disk.start();
        }
        disk.work_again();
        disk.ledger().check_recovered();
        leave_leftovers();
    });
    std::printf("%u starts were refused\n", refused);
    CHECK(refused > 0);
    disk.start();
    disk.ledger().check_recovered();
}

TEST_CASE("a disk error at any operation of a first start keeps no later one from starting") {
    Disk disk;
    World& world = disk.world();
    disk.count();
    disk.start();
    const uint32_t operations = disk.passed_and_shown();
    REQUIRE(operations > 30);
    world.stop();
    for_each_failure(disk, operations, [&](const Trouble& trouble) {
        std::filesystem::remove_all(world.data);
        const std::string before = world.host_log();
        if (disk.try_start()) {
            world.stop();
            return;
        }
        const auto exit = world.host().wait();
        REQUIRE(exit.has_value());
        check_refusal(*exit, world.host_log().substr(before.size()), trouble);
        disk.work_again();
        disk.start();
        world.stop();
    });
    disk.start();
    CHECK_FALSE(text(world.launch("coder"), "run").empty());
}
