// Goal: a wall clock that steps by days, forward or back, changes nothing but the times that people
// read. Method: the host is built with a wall clock that the test sets, and sets at every step of a
// launch, a session and its end.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

#include "crash/stage.h"
#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::crash;
using namespace mosaic::e2e;

namespace {

constexpr int64_t kDay = int64_t{24} * 3600;

class WallClock {
  public:
    explicit WallClock(const std::string& path) {
        const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        REQUIRE(fd >= 0);
        REQUIRE(::ftruncate(fd, sizeof(std::atomic<int64_t>)) == 0);
        void* const page = ::mmap(
            nullptr, sizeof(std::atomic<int64_t>), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        REQUIRE(page != MAP_FAILED);
        ::close(fd);
        offset_ = static_cast<std::atomic<int64_t>*>(page);
    }

    void set_days(int64_t days) { *offset_ = days * kDay; }

  private:
    std::atomic<int64_t>* offset_ = nullptr;
};

}  // namespace

TEST_CASE("a wall clock that steps moves no deadline and makes nothing old") {
    World world;
    WallClock clock(world.root + "/wall-clock");
    world.set_prefix(crash_prefix());
    world.system.set("limits", object({{"runsKeptDays", 1}, {"diskCheckSeconds", 1}}));
    StartOptions options;
    options.more_env["MOSAIC_WALL_CLOCK"] = world.root + "/wall-clock";
    world.start(options);
    world.launch("reviewer");
    LineStream admin = world.admin();
    std::vector<std::string> runs;
    std::vector<std::string> ends;
    for (const int64_t days : {400, -400, 3, -3, 0}) {
        CAPTURE(days);
        // With the launch's deadlines armed, and with the stop's.
        const int64_t launch = admin.ask("launch", object({{"instance", "coder"}}));
        clock.set_days(days);
        const json::Value launched = admin.reply(launch);
        REQUIRE_MESSAGE(*launched.find("ok") == json::Value(true), json::dump(launched));
        runs.push_back(text(*launched.find("result"), "run"));
        CHECK(trim(world.ask("coder", "echo here")) == "here");
        const int64_t stop =
            admin.ask("stop", object({{"target", "coder"}, {"timeoutMs", 60'000}}));
        clock.set_days(-days);
        const json::Value stopped = admin.reply(stop);
        CHECK_MESSAGE(*stopped.find("ok") == json::Value(true), json::dump(stopped));
        const json::Value end = world.wait_log("end", runs.back());
        // Of itself: a deadline that came early would have killed it.
        CHECK(text(end, "reason") == "stopped");
        ends.push_back(text(end, "at"));
        CHECK(trim(world.ask("reviewer", "echo here")) == "here");
    }
    for (const std::string& run : runs) {
        CHECK_MESSAGE(exists(world.run_directory(run)), run << " has lost its directory");
    }
    // The lines tell what the clock said: 400 days back, 400 forward.
    CHECK(ends[0] < ends[4]);
    CHECK(ends[4] < ends[1]);
}
