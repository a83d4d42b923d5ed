// Goal: an adapter learns from JSON lines what was answered and whether it is an answer at all.

#include "runner/extract.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>

using namespace mosaic;
using namespace mosaic::runner;

namespace {

ExtractRules rules(const std::vector<std::string_view>& words) {
    const auto parsed = parse_extract_rules(words);
    REQUIRE_MESSAGE(parsed.has_value(), parsed.error().text);
    return *parsed;
}

const std::vector<std::string_view> kResult = {
    "--where", "/type=result", "--text", "/result", "--failed", "/is_error=true"};

const std::vector<std::string_view> kMessage = {"--where",
                                                "/type=message_end",
                                                "--where",
                                                "/message/role=assistant",
                                                "--text",
                                                "/message/content/*/text",
                                                "--failed",
                                                "/message/stopReason=error",
                                                "--failed",
                                                "/message/stopReason=aborted",
                                                "--reason",
                                                "/message/errorMessage"};

}  // namespace

TEST_CASE("the answer is the string at the pointer of a line that fits") {
    CHECK(extract(rules(kResult), R"({"type":"result","is_error":false,"result":"42"})") ==
          Extracted{false, "42"});
    CHECK(!extract(rules(kResult), R"({"type":"system","result":"42"})"));
    CHECK(!extract(rules(kResult), R"({"type":"assistant","text":"result"})"));
    CHECK(!extract(rules(kResult), "result"));
    CHECK(!extract(rules(kResult), R"({"type":"result")"));
}

TEST_CASE("a line that calls itself an error is a failure with its reason") {
    CHECK(extract(rules(kResult),
                  R"({"type":"result","subtype":"success","is_error":true,"result":"API 401"})") ==
          Extracted{true, "API 401"});
    CHECK(
        extract(rules(kMessage),
                R"({"type":"message_end","message":{"role":"assistant","content":[{"type":"text",)"
                R"("text":"half"}],"stopReason":"error","errorMessage":"429 slow down"}})") ==
        Extracted{true, "429 slow down"});
}

TEST_CASE("a star takes the strings of all elements and passes over the others") {
    CHECK(
        extract(
            rules(kMessage),
            R"({"type":"message_end","message":{"role":"assistant","content":[{"type":"thinking",)"
            R"("thinking":"hm"},{"type":"text","text":"a"},{"type":"text","text":"b"}],)"
            R"("stopReason":"stop"}})") == Extracted{false, "ab"});
    CHECK(!extract(rules(kMessage),
                   R"({"type":"message_end","message":{"role":"user","content":[{"text":"a"}]}})"));
}

TEST_CASE("pointers reach into arrays by number and know their escapes") {
    const ExtractRules r = rules({"--where", "/a~1b/1=x", "--text", "/m~0n"});
    CHECK(extract(r, R"({"a/b":["y","x"],"m~n":"found"})") == Extracted{false, "found"});
    CHECK(!extract(r, R"({"a/b":["x","y"],"m~n":"found"})"));
    CHECK(!extract(r, R"({"a/b":["x"],"m~n":"found"})"));
}

TEST_CASE("a condition compares strings by text and other values as they are written") {
    const ExtractRules r = rules({"--where", "/n=3", "--text", "/t", "--failed", "/ok=false"});
    CHECK(extract(r, R"({"n":3,"ok":true,"t":"a"})") == Extracted{false, "a"});
    CHECK(extract(r, R"({"n":"3","ok":"false","t":"a"})") == Extracted{true, "a"});
    CHECK(!extract(r, R"({"n":33,"t":"a"})"));
}

TEST_CASE("a condition holds however the writer spells the value") {
    struct Spelled {
        const char* text;
        const char* value;
    };

    for (const Spelled& one : {Spelled{"r\u00e9sultat", R"("r\u00e9sultat")"},
                               Spelled{"r\u00e9sultat", "\"r\u00e9sultat\""},
                               Spelled{"turn/end", R"("turn\/end")"},
                               Spelled{"turn/end", R"("turn\u002fend")"},
                               Spelled{"result", R"("\u0072esult")"},
                               Spelled{"result", R"("res\u0075lt")"},
                               Spelled{"a\"b", R"("a\"b")"},
                               Spelled{"a\\b", R"("a\\b")"},
                               Spelled{"a\nb", R"("a\nb")"},
                               Spelled{"\U0001F600", R"("\ud83d\ude00")"},
                               Spelled{"", R"("")"},
                               Spelled{"100", "100"},
                               Spelled{"-1", "-1"},
                               Spelled{"[1,2]", "[ 1, 2 ]"},
                               Spelled{R"({"a":true})", R"({ "a" : true })"},
                               Spelled{"[1", R"("\u005b1")"},
                               Spelled{"true", "true"},
                               Spelled{"null", "null"}}) {
        const std::string where = std::string("/type=") + one.text;
        const std::string line = std::string(R"({"type": )") + one.value + R"(,"t":"a"})";
        const auto found = extract(rules({"--where", where, "--text", "/t"}), line);
        CHECK_MESSAGE(found.has_value(), line);
    }
}

TEST_CASE("rules that say nothing to look for or to print are errors") {
    CHECK(!parse_extract_rules({}));
    CHECK(!parse_extract_rules({"--where", "/a=b"}));
    CHECK(!parse_extract_rules({"--text", "/a"}));
    CHECK(!parse_extract_rules({"--where", "a=b", "--text", "/a"}));
    CHECK(!parse_extract_rules({"--where", "/a", "--text", "/a"}));
    CHECK(!parse_extract_rules({"--where", "/a=b", "--text"}));
    CHECK(!parse_extract_rules({"--where", "/a=b", "--text", "/a", "--else", "/b"}));
}

TEST_CASE("a line counts with blanks before it, and what isn't JSON doesn't") {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    REQUIRE(::pipe2(in.data(), O_CLOEXEC) == 0);
    REQUIRE(::pipe2(out.data(), O_CLOEXEC) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::dup2(in[0], STDIN_FILENO);
        ::dup2(out[1], STDOUT_FILENO);
        ::close(in[1]);
        ::_exit(run_extract({"--where", "/type=result", "--text", "/text"}));
    }
    const std::string_view lines = "starting\n \t {\"type\":\"result\",\"text\":\"done\"}\r\n  \n";
    REQUIRE(::write(in[1], lines.data(), lines.size()) == static_cast<ssize_t>(lines.size()));
    ::close(in[1]);
    ::close(in[0]);
    ::close(out[1]);
    std::array<char, 16> text{};
    CHECK(std::string_view(text.data(),
                           static_cast<size_t>(std::max<ssize_t>(
                               ::read(out[0], text.data(), text.size()), 0))) == "done");
    ::close(out[0]);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}
