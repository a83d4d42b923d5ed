// Goal: the capability line is accepted in any pieces and in no other form, and the wait for it
// ends.

#include "runner/capability.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "base/unique_fd.h"
#include "wire/limits.h"

using namespace mosaic;
using namespace mosaic::runner;

namespace {

struct Pipe {
    UniqueFd read_end;
    UniqueFd write_end;

    Pipe() {
        int ends[2];
        REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
        read_end.reset(ends[0]);
        write_end.reset(ends[1]);
    }

    void give(const std::string& bytes) const {
        REQUIRE(::write(write_end.get(), bytes.data(), bytes.size()) ==
                static_cast<ssize_t>(bytes.size()));
    }
};

std::string error_of(const Pipe& pipe, Duration deadline = seconds(20)) {
    CapabilityPage page;
    const auto read = read_capability({pipe.read_end.get(), -1, deadline}, page);
    CHECK(page.view().empty());
    return read ? "" : read.error().text;
}

}  // namespace

TEST_CASE("a whole line gives the capability") {
    const Pipe pipe;
    pipe.give("{\"cap\":\"abc-DEF_123=\",\"launchedBy\":\"pm\"}\nmore");
    CapabilityPage page;
    const auto read = read_capability({pipe.read_end.get(), -1, seconds(20)}, page);
    REQUIRE(read.has_value());
    CHECK(*read == CapabilityRead::received);
    CHECK(page.view() == "abc-DEF_123=");
}

TEST_CASE("the longest line that is allowed is read, one byte more isn't") {
    const std::string before = "{\"cap\":\"";
    const std::string after = "\"}";
    const std::string cap(limits::kCapabilityLineBytesMax - before.size() - after.size(), 'c');
    {
        const Pipe pipe;
        pipe.give(before + cap + after + "\n");
        CapabilityPage page;
        REQUIRE(read_capability({pipe.read_end.get(), -1, seconds(20)}, page).has_value());
        CHECK(page.view() == cap);
    }
    const Pipe pipe;
    pipe.give(before + cap + "c" + after + "\n");
    CHECK(error_of(pipe).find("longer than 4096 bytes") != std::string::npos);
}

TEST_CASE("lines of another form are refused") {
    for (const char* line : {"{}\n",
                             "\n",
                             "{\"cap\":\"\"}\n",
                             "{\"cap\":\"a\",\"more\":1}\n",
                             "{\"cap\":\"a\\u0022b\"}\n",
                             "{\"cap\":\"a b\"}\n",
                             "{\"cap\":1}\n",
                             "cap\n"}) {
        const Pipe pipe;
        pipe.give(line);
        CHECK_MESSAGE(error_of(pipe).find("the capability line") != std::string::npos, line);
    }
}

TEST_CASE("an end of file before the line is an error, also when a stop came with it") {
    Pipe pipe;
    Pipe stop;
    pipe.give("{\"cap\":\"abc\"");
    stop.give("x");
    pipe.write_end.reset();
    CapabilityPage page;
    const auto read =
        read_capability({pipe.read_end.get(), stop.read_end.get(), seconds(20)}, page);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().text.find("ended before") != std::string::npos);
}

TEST_CASE("a stop ends the wait") {
    const Pipe pipe;
    const Pipe stop;
    stop.give("x");
    CapabilityPage page;
    const auto read = read_capability({pipe.read_end.get(), stop.read_end.get(), {}}, page);
    REQUIRE(read.has_value());
    CHECK(*read == CapabilityRead::stopped);
}

TEST_CASE("a deadline ends the wait, for half a line too") {
    const Pipe pipe;
    pipe.give("{\"cap\":");
    CHECK(error_of(pipe, milliseconds(20)).find("in time") != std::string::npos);
}

TEST_CASE("the capability's page is in no core, no fork and no swap") {
    CapabilityPage page;
    page.set("abc");
    const auto at = reinterpret_cast<uintptr_t>(page.view().data());
    std::ifstream maps("/proc/self/smaps");
    std::string line;
    std::string flags;
    bool within = false;
    while (flags.empty() && std::getline(maps, line)) {
        const size_t dash = line.find('-');
        if (dash != std::string::npos && dash < line.find(' ') && dash < line.find(':')) {
            const uintptr_t from = std::stoull(line, nullptr, 16);
            const uintptr_t to = std::stoull(line.substr(dash + 1), nullptr, 16);
            within = from <= at && at < to;
        } else if (within && line.starts_with("VmFlags:")) {
            flags = line + " ";
        }
    }
    CAPTURE(flags);
    CHECK(flags.find(" dd ") != std::string::npos);  // MADV_DONTDUMP
    CHECK(flags.find(" wf ") != std::string::npos);  // MADV_WIPEONFORK
#ifndef __SANITIZE_ADDRESS__
    // The address sanitizer makes mlock(2) do nothing.
    rlimit locked{};
    REQUIRE(::getrlimit(RLIMIT_MEMLOCK, &locked) == 0);
    if (locked.rlim_cur >= 65536) {
        CHECK(flags.find(" lo ") != std::string::npos);
    }
#endif
}
