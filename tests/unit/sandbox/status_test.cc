// Goal: bubblewrap's status stream is read whatever pieces it comes in, and every way a run can end
// has the reason the contract gives it. Method: every split of real streams; tables.

#include "sandbox/status.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

using mosaic::EndReason;
using mosaic::process::Exit;
using mosaic::sandbox::End;
using mosaic::sandbox::first_error_line;
using mosaic::sandbox::map_exit;
using mosaic::sandbox::StatusParser;

namespace {

// What bubblewrap 0.8.0 wrote.
const std::string kStream =
    "{ \"child-pid\": 8921, \"cgroup-namespace\": 4026532182, \"ipc-namespace\": 4026532180, "
    "\"mnt-namespace\": 4026532178, \"pid-namespace\": 4026532181, \"uts-namespace\": 4026532179 "
    "}\n"
    "{ \"exit-code\": 3 }\n";

}  // namespace

TEST_CASE("the stream is read in pieces of any size") {
    for (size_t piece = 1; piece <= kStream.size(); ++piece) {
        StatusParser parser;
        for (size_t at = 0; at < kStream.size(); at += piece) {
            REQUIRE(parser.feed(std::string_view(kStream).substr(at, piece)).has_value());
        }
        CHECK(parser.child_pid() == 8921);
        CHECK(parser.exit_code() == 3);
    }
}

TEST_CASE("the pid is known as soon as its object is whole, and not before") {
    StatusParser parser;
    const size_t end = kStream.find('}');
    REQUIRE(parser.feed(kStream.substr(0, end)).has_value());
    CHECK_FALSE(parser.child_pid().has_value());
    REQUIRE(parser.feed("}").has_value());
    CHECK(parser.child_pid() == 8921);
    CHECK_FALSE(parser.exit_code().has_value());
}

TEST_CASE("unknown keys, nesting, braces in strings and missing white space are no trouble") {
    StatusParser parser;
    REQUIRE(
        parser
            .feed(R"({"a":"}{\"}\\","n":{"x":[1,{"y":2}]},"child-pid":7}{"z":null}{"exit-code":0})")
            .has_value());
    CHECK(parser.child_pid() == 7);
    CHECK(parser.exit_code() == 0);
}

TEST_CASE("a stream that ends without an exit code has none") {
    StatusParser parser;
    REQUIRE(parser.feed("{ \"child-pid\": 5 }\n").has_value());
    CHECK_FALSE(parser.exit_code().has_value());
    REQUIRE(parser.feed("{ \"exit-code\": 3").has_value());
    CHECK_FALSE(parser.exit_code().has_value());
}

TEST_CASE("what is no status stream is an error that says so, for good") {
    const std::vector<std::pair<std::string, std::string>> table = {
        {"x", "bwrap status: byte 1: expected an object"},
        {"[1]", "bwrap status: byte 1: expected an object"},
        {"{\"child-pid\":0}", "bwrap status: child-pid: expected an integer from 1 to 2147483647"},
        {"{\"child-pid\":-5}", "bwrap status: child-pid: expected an integer from 1 to 2147483647"},
        {"{\"child-pid\":2147483648}",
         "bwrap status: child-pid: expected an integer from 1 to 2147483647"},
        {"{\"child-pid\":\"7\"}",
         "bwrap status: child-pid: expected an integer from 1 to 2147483647"},
        {"{\"exit-code\":256}", "bwrap status: exit-code: expected an integer from 0 to 255"},
        {"{\"exit-code\":1.5}", "bwrap status: exit-code: expected an integer from 0 to 255"},
        {"{\"child-pid\":7}{\"child-pid\":8}", "bwrap status: byte 30: child-pid stands twice"},
        {"{\"exit-code\":1}{\"exit-code\":1}", "bwrap status: byte 30: exit-code stands twice"},
        {"{" + std::string(StatusParser::kObjectBytesMax, ' '),
         "bwrap status: byte 4097: an object of more than 4096 bytes"},
        {std::string(StatusParser::kStreamBytesMax + 1, ' '),
         "bwrap status: byte 65537: more than 65536 bytes"},
    };
    for (const auto& [text, error] : table) {
        CAPTURE(text);
        StatusParser parser;
        const auto fed = parser.feed(text);
        REQUIRE_FALSE(fed.has_value());
        CHECK(fed.error().text == error);
        CHECK(parser.feed("{ \"child-pid\": 9 }").error().text == error);
    }
    for (const std::string text : {"{\"a\":}", "{a:1}", "{]", "{\"a\":1,\"a\":2}"}) {
        CAPTURE(text);
        CHECK_FALSE(StatusParser().feed(text).has_value());
    }
}

TEST_CASE("the first error line is bubblewrap's own when it wrote one") {
    const std::vector<std::pair<std::string, std::string>> table = {
        {"", ""},
        {"\n \n", ""},
        {"bwrap: setting up uid map: Permission denied\n",
         "bwrap: setting up uid map: Permission denied"},
        {"noise\nbwrap: Can't find source path /x\nbwrap: more\n",
         "bwrap: Can't find source path /x"},
        {"\n\nld.so: cannot open\nmore", "ld.so: cannot open"},
        {"no newline", "no newline"},
        {"a\x1b[31mb\xff\r\n", "a [31mb\xEF\xBF\xBD"},
    };
    for (const auto& [text, expected] : table) {
        CAPTURE(text);
        CHECK(first_error_line(text) == expected);
    }
    CHECK(first_error_line("bwrap: " + std::string(5000, 'x')).size() == 300);
    const std::string wide =
        first_error_line("bwrap: " + std::string(292, 'x') + "\xC3\xA9\xC3\xA9");
    CHECK(wide.size() == 299);
    // Bytes that are no UTF-8 take three each, and don't hide what follows them.
    CHECK(first_error_line(std::string(400, '\xd6')).size() == 300);
    CHECK(first_error_line("\xd6" + std::string(400, 'x')) ==
          "\xEF\xBF\xBD" + std::string(297, 'x'));
}

TEST_CASE("the last words are the last line that says something, bounded and clean") {
    using mosaic::sandbox::last_line;
    CHECK(last_line("").empty());
    CHECK(last_line("\n \n\t\n").empty());
    CHECK(last_line("one") == "one");
    CHECK(last_line("one\ntwo\n") == "two");
    CHECK(last_line("one\ntwo\n\n  \n") == "two");
    CHECK(last_line("\x1b[31mred\r\n") == " [31mred");
    CHECK(last_line("one\n" + std::string(5000, 'x')).size() == 300);
}

TEST_CASE("every end of the outer bwrap has its reason") {
    struct Row {
        Exit outer;
        std::optional<int> object;
        std::string line;
        End end;
    };

    const std::string message = "bwrap: Can't find source path /x: No such file or directory";
    const std::vector<Row> table = {
        // Death by signal, told either way.
        {{0, SIGKILL}, std::nullopt, "", {EndReason::killed, std::nullopt, "SIGKILL", ""}},
        {{0, SIGTERM}, std::nullopt, message, {EndReason::killed, std::nullopt, "SIGTERM", ""}},
        {{0, SIGKILL}, 0, "", {EndReason::killed, std::nullopt, "SIGKILL", ""}},
        {{137, 0}, 137, "", {EndReason::killed, std::nullopt, "SIGKILL", ""}},
        {{143, 0}, 143, "", {EndReason::killed, std::nullopt, "SIGTERM", ""}},
        {{129, 0}, 129, "", {EndReason::killed, std::nullopt, "SIGHUP", ""}},
        {{139, 0}, std::nullopt, message, {EndReason::killed, std::nullopt, "SIGSEGV", ""}},
        // 128 alone and codes past the last signal are codes.
        {{128, 0}, 128, "", {EndReason::failed, 128, "", ""}},
        {{255, 0}, 255, "", {EndReason::failed, 255, "", ""}},
        // The runner never ran.
        {{1, 0}, std::nullopt, message, {EndReason::failed, 1, "", "sandbox: " + message}},
        {{1, 0},
         std::nullopt,
         "",
         {EndReason::failed, 1, "", "sandbox: bwrap exited without a message"}},
        {{20, 0}, std::nullopt, message, {EndReason::failed, 20, "", "sandbox: " + message}},
        {{255, 0}, std::nullopt, message, {EndReason::failed, 255, "", "sandbox: " + message}},
        // It ran.
        {{0, 0}, 0, "", {EndReason::stopped, 0, "", ""}},
        {{0, 0}, std::nullopt, "", {EndReason::stopped, 0, "", ""}},
        {{20, 0}, 20, "", {EndReason::founder_credentials, 20, "", ""}},
        {{21, 0}, 21, "", {EndReason::claim_refused, 21, "", ""}},
        {{22, 0}, 22, message, {EndReason::session_invalid, 22, "", ""}},
        {{23, 0}, 23, "", {EndReason::broker_unreachable, 23, "", ""}},
        {{1, 0}, 1, message, {EndReason::failed, 1, "", ""}},
        {{24, 0}, 24, "", {EndReason::failed, 24, "", ""}},
        {{127, 0}, 127, "", {EndReason::failed, 127, "", ""}},
    };
    for (const Row& row : table) {
        CAPTURE(row.outer.exit_code);
        CAPTURE(row.outer.signal);
        const End end = map_exit(row.outer, row.object, row.line);
        CHECK(mosaic::to_string(end.reason) == mosaic::to_string(row.end.reason));
        CHECK(end.exit_code == row.end.exit_code);
        CHECK(end.signal == row.end.signal);
        CHECK(end.detail == row.end.detail);
    }
}
