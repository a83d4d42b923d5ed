// The launch log on the real ring: order, a disk that refuses, and files that are moved away.

#include "host/launch_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/instant.h"
#include "rig.h"

using namespace mosaic;
using namespace mosaic::test;
using host::LaunchLog;

namespace {

constexpr const char* kName = "acme.jsonl";

// A log in a directory, or none when the machine has no ring.
struct Logging : Rig {
    explicit Logging(int directory) {
        if (ok()) {
            log = std::make_unique<LaunchLog>(loop);
            REQUIRE(log->open(directory, kName).has_value());
        }
    }

    void settle() {
        run_until([&] { return log->quiet(); });
    }
};

std::string line(size_t number, size_t bytes) {
    std::string text = std::to_string(number) + ":";
    text.resize(bytes - 1, 'l');
    return text + "\n";
}

}  // namespace

TEST_CASE("lines come out in the order they went in, however many wait") {
    const Scratch scratch;
    Logging rig(scratch.fd());
    if (!rig.ok()) {
        return;
    }
    CHECK(rig.log->quiet());
    std::string all;
    for (size_t i = 0; i < 1000; ++i) {
        all += line(i, 50);
        rig.log->append(line(i, 50));
        if (i % 100 == 0) {
            rig.tick_now();
        }
    }
    CHECK_FALSE(rig.log->quiet());
    rig.settle();
    CHECK(content(scratch.fd(), kName) == all);
    CHECK(mode_of(scratch.fd(), kName) == 0600);
}

TEST_CASE("what an earlier host wrote stays") {
    const Scratch scratch;
    put(scratch.fd(), kName, "earlier\n");
    Logging rig(scratch.fd());
    if (!rig.ok()) {
        return;
    }
    rig.log->append("now\n");
    rig.settle();
    CHECK(content(scratch.fd(), kName) == "earlier\nnow\n");
}

TEST_CASE("a full disk delays lines and loses none") {
    const SmallDisk disk(16);
    if (!disk.valid()) {
        return;
    }
    Logging rig(disk.fd());
    if (!rig.ok()) {
        return;
    }
    disk.leave_free(2);
    const StderrCapture said;
    std::string all;
    // More than fits: the write that fails has written a part, in the middle of a line.
    for (size_t i = 0; i < 30; ++i) {
        all += line(i, 1000);
        rig.log->append(line(i, 1000));
    }
    const auto complained = [&] { return times(said.text(), "the launch log can't be written"); };
    rig.run_until([&] { return complained() == 1; });
    CHECK(content(disk.fd(), kName)->size() == 2 * SmallDisk::kPage);
    rig.log->append("last\n");
    for (int i = 0; i < 3; ++i) {
        rig.pass(seconds(1));  // tried again, in vain
        rig.run_until([&] { return rig.loop.ring->in_flight() == 0; });
    }
    CHECK(complained() == 1);
    CHECK(times(said.text(), "No space left on device") == 1);
    CHECK_FALSE(rig.log->quiet());

    disk.leave_free(16);
    rig.pass(seconds(1));
    rig.settle();
    CHECK(content(disk.fd(), kName) == all + "last\n");
    CHECK(times(said.text(), "the launch log is written again") == 1);
    CHECK(times(said.text(), "lines were lost") == 0);
}

TEST_CASE("lines past the buffer are dropped, counted and said once writing works again") {
    const SmallDisk disk(16);
    if (!disk.valid()) {
        return;
    }
    Logging rig(disk.fd());
    if (!rig.ok()) {
        return;
    }
    disk.leave_free(0);
    const StderrCapture said;
    rig.log->append("first\n");
    rig.run_until([&] { return rig.loop.timers.size() > 0; });
    const size_t quarter = LaunchLog::kBufferBytesMax / 4;
    for (size_t i = 0; i < 6; ++i) {
        rig.log->append(line(i, quarter));
    }
    rig.pass(seconds(1));
    rig.run_until([&] { return rig.loop.ring->in_flight() == 0; });
    CHECK(times(said.text(), "were lost") == 0);
    // The log moves to a disk with room.
    const Scratch scratch;
    REQUIRE(rig.log->open(scratch.fd(), kName).has_value());
    rig.pass(seconds(1));
    rig.settle();
    std::string kept = "first\n";
    for (size_t i = 0; i < 4; ++i) {
        kept += line(i, quarter);
    }
    CHECK(content(scratch.fd(), kName) == kept);
    CHECK(times(said.text(), "2 launch log lines were lost: the buffer was full") == 1);
}

TEST_CASE("opened anew, lines go to the new file and a write under way ends in the old") {
    const Scratch scratch;
    Logging rig(scratch.fd());
    if (!rig.ok()) {
        return;
    }
    rig.log->append("before\n");  // armed, not submitted
    REQUIRE(::renameat(scratch.fd(), kName, scratch.fd(), "moved") == 0);
    // Twice, so that the file of the write under way is neither the newest nor the one before.
    REQUIRE(rig.log->open(scratch.fd(), kName).has_value());
    REQUIRE(rig.log->open(scratch.fd(), kName).has_value());
    rig.log->append("after\n");
    rig.settle();
    CHECK(content(scratch.fd(), "moved") == "before\n");
    CHECK(content(scratch.fd(), kName) == "after\n");
}

TEST_CASE("a line that was cut by a full disk is whole in the file that follows") {
    const SmallDisk disk(16);
    if (!disk.valid()) {
        return;
    }
    Logging rig(disk.fd());
    if (!rig.ok()) {
        return;
    }
    disk.leave_free(1);
    const StderrCapture quiet;
    for (size_t i = 0; i < 5; ++i) {
        rig.log->append(line(i, 1000));
    }
    rig.run_until([&] { return rig.loop.timers.size() > 0; });
    const std::string cut = *content(disk.fd(), kName);
    CHECK(cut.size() == SmallDisk::kPage);

    // The same file again: the rest of the line goes on where it ended.
    REQUIRE(rig.log->open(disk.fd(), kName).has_value());
    // Another: the line begins again.
    const Scratch scratch;
    REQUIRE(rig.log->open(scratch.fd(), kName).has_value());
    rig.pass(seconds(1));
    rig.settle();
    CHECK(content(disk.fd(), kName) == cut);
    CHECK(content(scratch.fd(), kName) == line(4, 1000));
}

TEST_CASE("the same file opened anew goes on in the middle of a line") {
    const SmallDisk disk(16);
    if (!disk.valid()) {
        return;
    }
    Logging rig(disk.fd());
    if (!rig.ok()) {
        return;
    }
    disk.leave_free(1);
    const StderrCapture quiet;
    std::string all;
    for (size_t i = 0; i < 5; ++i) {
        all += line(i, 1000);
        rig.log->append(line(i, 1000));
    }
    rig.run_until([&] { return rig.loop.timers.size() > 0; });
    REQUIRE(rig.log->open(disk.fd(), kName).has_value());
    disk.leave_free(16);
    rig.pass(seconds(1));
    rig.settle();
    CHECK(content(disk.fd(), kName) == all);
}

TEST_CASE("what isn't a regular file is refused, and the log stays with its file") {
    const Scratch scratch;
    Logging rig(scratch.fd());
    if (!rig.ok()) {
        return;
    }
    const Scratch planted;
    REQUIRE(::mkfifoat(planted.fd(), "fifo", 0600) == 0);
    REQUIRE(::symlinkat((planted / "target").c_str(), planted.fd(), "link") == 0);
    REQUIRE(::mkdirat(planted.fd(), "directory", 0700) == 0);
    const UniqueFd reader(::openat(planted.fd(), "fifo", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    for (const char* name : {"fifo", "link", "directory", "missing/log"}) {
        CAPTURE(name);
        const auto opened = rig.log->open(planted.fd(), name);
        REQUIRE_FALSE(opened.has_value());
        CHECK(opened.error().text.starts_with(name));
    }
    CHECK_FALSE(mode_of(planted.fd(), "target"));
    rig.log->append("still here\n");
    rig.settle();
    CHECK(content(scratch.fd(), kName) == "still here\n");
}

TEST_CASE("the log's ends are found, and since when it would have them") {
    const Scratch scratch;
    CHECK(host::logged_ends(scratch.fd(), kName).runs.empty());
    CHECK(host::logged_ends(scratch.fd(), kName).since == "~");
    const std::string before = iso8601(wall_clock_ms() - 10'000);
    const std::string first = "2026-01-01T00:00:00.000Z";
    // The last line was cut short by a crash.
    put(scratch.fd(),
        kName,
        R"({"event":"launch","at":")" + first + R"(","instance":"a","run":"r1"})" + "\n" +
            R"({"event":"end","at":"2026-01-01T00:00:01.000Z","instance":"a","run":"r1"})" + "\n" +
            R"({"event":"end","at":"2026-01-01T00:00:02.000Z","instance":"b","run":"r2"})" + "\n" +
            R"({"event":"end","at":"2026-01-01T)");
    const host::LoggedEnds ends = host::logged_ends(scratch.fd(), kName);
    CHECK(ends.runs == std::set<std::string>{"r1", "r2"});
    // The file's birth, or its first line's time where births aren't kept.
    CHECK((ends.since >= before || ends.since == first));
}
