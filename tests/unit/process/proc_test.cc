#include "process/proc.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "process/pidfd.h"

using namespace mosaic;
using namespace mosaic::process;

namespace {

const std::string kTail =
    " S 41 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654321 1000 200 18446744073709551615 1";

std::string stat_line(const std::string& comm) {
    return "42 (" + comm + ")" + kTail + "\n";
}

}  // namespace

TEST_CASE("the start time, state and parent of a stat line are found whatever the name holds") {
    for (const char* comm : {"bwrap", "", ")", "a) S 1 (b", "x (y) z", "a\nb", ") R 7", "(((("}) {
        CAPTURE(comm);
        const auto stat = parse_stat(stat_line(comm));
        REQUIRE(stat.has_value());
        CHECK(stat->pid == 42);
        CHECK(stat->comm == comm);
        CHECK(stat->state == 'S');
        CHECK(stat->parent == 41);
        CHECK(stat->start_time == "987654321");
    }
}

TEST_CASE("a stat line that is not whole is an error, cut at any byte") {
    const std::string whole = stat_line("a b");
    const size_t needed = whole.find(" 987654321") + 2;  // the first digit is a start time already
    for (size_t length = 0; length < needed; ++length) {
        CAPTURE(length);
        CHECK_FALSE(parse_stat(std::string_view(whole).substr(0, length)).has_value());
    }
    CHECK(parse_stat(std::string_view(whole).substr(0, needed)).has_value());
}

TEST_CASE("stat lines with wrong fields are errors") {
    const std::vector<std::string> wrong = {
        "x (a)" + kTail,
        "0 (a)" + kTail,
        "-4 (a)" + kTail,
        "99999999999 (a)" + kTail,
        "42(a)" + kTail,
        "42 a)" + kTail,
        "42 (a" + kTail,
        ") 42 (",
        "42 (a) SS 41 42 42 0 -1 1 1 2 3 4 5 6 7 8 20 0 1 0 9 1",
        "42 (a) S x 42 42 0 -1 1 1 2 3 4 5 6 7 8 20 0 1 0 9 1",
        "42 (a) S 41 42 42 0 -1 1 1 2 3 4 5 6 7 8 20 0 1 0 -9 1",
        "42 (a) S 41 42 42 0 -1 1 1 2 3 4 5 6 7 8 20 0 1 0 9x 1",
        "42 (a) S 41 42 42 0 -1 1 1 2 3 4 5 6 7 8 20 0 1 0 999999999999999999999 1",
    };
    for (const std::string& line : wrong) {
        CAPTURE(line);
        const auto stat = parse_stat(line);
        REQUIRE_FALSE(stat.has_value());
        CHECK(stat.error().code == Code::invalid);
    }
}

TEST_CASE("a command line is split at its NULs and keeps empty arguments") {
    using List = std::vector<std::string>;
    CHECK(parse_cmdline("") == List{});
    CHECK(parse_cmdline(std::string_view("a\0b c\0", 6)) == List{"a", "b c"});
    CHECK(parse_cmdline(std::string_view("a\0\0b\0", 5)) == List{"a", "", "b"});
    CHECK(parse_cmdline(std::string_view("\0", 1)) == List{""});
    CHECK(parse_cmdline("no end") == List{"no end"});
}

TEST_CASE("the numbers in each PID namespace come from their own line only") {
    using Pids = std::vector<pid_t>;
    CHECK(parse_ns_pids("Name:\tx\nPid:\t7\nNSpid:\t70\t3\t1\nNSpgid:\t9\n") == Pids{70, 3, 1});
    CHECK(parse_ns_pids("NSpid:\t70") == Pids{70});
    CHECK(parse_ns_pids("NSpid:\n") == Pids{});
    CHECK(parse_ns_pids("Name:\tNSpid: 4\nPid:\t1\n") == Pids{});
    CHECK(parse_ns_pids("NSpid:\t70\tx\n") == Pids{});
    CHECK(parse_ns_pids("NSpid:\t70\t-1\n") == Pids{});
    CHECK(parse_ns_pids("") == Pids{});
}

TEST_CASE("our own process is found in /proc") {
    const auto stat = read_stat(::getpid());
    REQUIRE(stat.has_value());
    CHECK(stat->pid == ::getpid());
    CHECK(stat->parent == ::getppid());
    CHECK(is_alive(::getpid(), stat->start_time));
    CHECK_FALSE(is_alive(::getpid(), ""));
    CHECK_FALSE(read_cmdline(::getpid()).empty());
    CHECK(read_owner(::getpid()) == ::geteuid());
    CHECK(read_pid_namespace(::getpid()) != 0);
    const std::vector<pid_t> pids = list_pids();
    CHECK(std::find(pids.begin(), pids.end(), ::getpid()) != pids.end());
    CHECK(read_ns_pids(::getpid()).back() == ::getpid());
}

TEST_CASE("a process that does not exist gives nothing") {
    constexpr pid_t kNone = 2'000'000'000;  // past the kernel's largest number, 4,194,304
    CHECK_FALSE(read_stat(kNone).has_value());
    CHECK(read_cmdline(kNone).empty());
    CHECK(read_ns_pids(kNone).empty());
    CHECK(read_exe(kNone).empty());
    CHECK_FALSE(read_owner(kNone).has_value());
    CHECK(read_pid_namespace(kNone) == 0);
    CHECK_FALSE(is_alive(kNone, "1"));
}

TEST_CASE("the boot has an id and keeps it") {
    CHECK(boot_id().size() == 36);
    CHECK(boot_id() == boot_id());
}

TEST_CASE("signals have the names that people know") {
    CHECK(signal_name(SIGKILL) == "SIGKILL");
    CHECK(signal_name(SIGTERM) == "SIGTERM");
    CHECK(signal_name(64) == "SIG64");
    CHECK(signal_name(0) == "SIG0");
    CHECK_FALSE(is_signal(0));
    CHECK(is_signal(1));
    CHECK(is_signal(64));
    CHECK_FALSE(is_signal(65));
    CHECK_FALSE(is_signal(-9));
}
