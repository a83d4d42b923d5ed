// Goal: sessions.json is read exactly or not at all, and what we write is read back. Method: one
// good document, and a table of edits of it with the message that each must give.

#include "registry/sessions.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace registry = mosaic::registry;
using registry::SessionEntry;
using registry::SessionsFile;

namespace {

SessionEntry plain_entry() {
    SessionEntry entry;
    entry.business = "acme";
    entry.seat = {"coder", ""};
    entry.run = "r0123456789ab";
    entry.run_dir = "/data/acme/launches/acme/r0123456789ab";
    entry.process = {100, "5000", 101, "5001"};
    entry.launched_by = "pm";
    entry.harness = "script";
    entry.provider = "local";
    entry.model = "none";
    entry.at = "2026-01-31T12:34:56.789Z";
    return entry;
}

SessionEntry thread_entry() {
    SessionEntry entry = plain_entry();
    entry.seat.thread = "t1";
    entry.run = "r00000000000b";
    return entry;
}

SessionEntry warm_entry() {
    SessionEntry entry = plain_entry();
    entry.run = "r00000000000c";
    entry.warm = true;
    entry.launched_by.clear();
    entry.at.clear();
    return entry;
}

std::string replace(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    REQUIRE_MESSAGE(at != std::string::npos, from);
    return text.replace(at, from.size(), to);
}

std::string message_of(const std::string& text, const std::string& business = "acme") {
    const auto read = registry::parse_sessions(text, "/d/sessions.json", business);
    if (read) {
        return "";
    }
    CHECK(read.error().code == mosaic::Code::corrupt);
    return read.error().text;
}

const std::string kGood = registry::dump_sessions({"boot-1", {plain_entry()}});

}  // namespace

TEST_CASE("the file is what the format says") {
    CHECK(kGood ==
          R"({"sessionsVersion":1,"bootId":"boot-1","sessions":[{"business":"acme",)"
          R"("instance":"coder","run":"r0123456789ab",)"
          R"("runDir":"/data/acme/launches/acme/r0123456789ab","pid":100,"startTime":"5000",)"
          R"("runnerPid":101,"runnerStartTime":"5001","launchedBy":"pm","harness":"script",)"
          R"("provider":"local","model":"none","at":"2026-01-31T12:34:56.789Z"}]})"
          "\n");
    CHECK(registry::dump_sessions({"b", {}}) ==
          "{\"sessionsVersion\":1,\"bootId\":\"b\",\"sessions\":[]}\n");
}

TEST_CASE("what is written is read back, and the two ways of writing agree") {
    SessionEntry second_warm = warm_entry();
    second_warm.run = "r00000000000d";
    const SessionsFile file{"boot-1", {plain_entry(), thread_entry(), warm_entry(), second_warm}};
    const std::string text = registry::dump_sessions(file);
    const auto read = registry::parse_sessions(text, "sessions.json", "acme");
    REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().text));
    CHECK(*read == file);
    std::vector<std::string> entries;
    for (const SessionEntry& entry : file.entries) {
        entries.push_back(registry::dump_entry(entry));
    }
    CHECK(registry::assemble_sessions("boot-1", {entries.begin(), entries.end()}) == text);
}

TEST_CASE("unknown keys are ignored at the top and in entries") {
    std::string text = replace(kGood, "{\"sessions", "{\"later\":{\"x\":1},\"sessions");
    text = replace(text, "{\"business\"", "{\"color\":\"red\",\"business\"");
    CHECK(message_of(text) == "");
}

TEST_CASE("a known key is checked even where a newer file has other keys too") {
    CHECK(message_of(replace(kGood, "\"pid\":100", "\"later\":1,\"pid\":\"100\"")) ==
          "/d/sessions.json: /sessions/0/pid: expected an integer, found a string");
}

TEST_CASE("a damaged file is an error that names the file, never an empty list") {
    const std::vector<std::string> damaged = {
        "",
        "{",
        "{}",
        "[]",
        "null",
        kGood.substr(0, kGood.size() / 2),
        kGood + R"(,"at":"x"}]})",
        kGood + kGood,
        std::string(64, '\0'),
        kGood.substr(0, kGood.size() - 1) + std::string(1, '\0'),
    };
    for (const std::string& text : damaged) {
        CAPTURE(text);
        const std::string message = message_of(text);
        CHECK(message.rfind("/d/sessions.json: ", 0) == 0);
    }
}

TEST_CASE("every truncation of a good file is an error") {
    for (size_t length = 0; length < kGood.size() - 1; ++length) {
        CAPTURE(length);
        CHECK_FALSE(registry::parse_sessions(kGood.substr(0, length), "f", "acme").has_value());
    }
}

TEST_CASE("an entry of the wrong shape is named by its pointer") {
    struct Edit {
        std::string from;
        std::string to;
        std::string message;
    };

    const std::vector<Edit> table = {
        {"\"sessionsVersion\":1", "\"sessionsVersion\":9", "/sessionsVersion: expected 1, found 9"},
        {"\"sessionsVersion\":1,", "", "/sessionsVersion: is missing; expected an integer"},
        {"\"bootId\":\"boot-1\"", "\"bootId\":\"\"", "/bootId: expected a string that isn't empty"},
        {"\"bootId\":\"boot-1\",", "", "/bootId: is missing; expected a string"},
        {"[{", "[7,{", "/sessions/0: expected an object, found an integer"},
        {"\"business\":\"acme\"", "\"business\":\"../x\"", "/sessions/0/business: "},
        {"\"business\":\"acme\"",
         "\"business\":\"other\"",
         "/sessions/0/business: expected \"acme\", found \"other\""},
        {"\"instance\":\"coder\",", "", "/sessions/0/instance: is missing"},
        {"\"run\":\"r0123456789ab\"", "\"run\":\"r01\"", "/sessions/0/run: expected a run id"},
        {"\"runDir\":\"/data",
         "\"runDir\":\"data",
         "/sessions/0/runDir: expected an absolute path"},
        {"\"pid\":100", "\"pid\":0", "/sessions/0/pid: "},
        {"\"pid\":100", "\"pid\":-1", "/sessions/0/pid: "},
        {"\"startTime\":\"5000\"", "\"startTime\":5000", "/sessions/0/startTime: "},
        {"\"startTime\":\"5000\"", "\"startTime\":\"5x\"", "/sessions/0/startTime: "},
        {"\"startTime\":\"5000\"",
         "\"startTime\":\"123456789012345678901\"",
         "/sessions/0/startTime: "},
        {"\"runnerPid\":101", "\"runnerPid\":0", "/sessions/0/runnerPid: "},
        {"\"runnerPid\":101", "\"runnerPid\":-1", "/sessions/0/runnerPid: "},
        {"\"runnerPid\":101", "\"runnerPid\":4194305", "/sessions/0/runnerPid: "},
        {"\"runnerStartTime\":\"5001\"",
         "\"runnerStartTime\":\"\"",
         "/sessions/0/runnerStartTime: "},
        {"\"launchedBy\":\"pm\",", "", "/sessions/0/launchedBy: is missing"},
        {"\"harness\":\"script\"", "\"harness\":null", "/sessions/0/harness: "},
        {"\"provider\":\"local\"", "\"provider\":\"\"", "/sessions/0/provider: "},
        {"\"model\":\"none\",", "", "/sessions/0/model: is missing"},
        {",\"at\":\"2026-01-31T12:34:56.789Z\"", "", "/sessions/0/at: is missing"},
        {"\"at\":", "\"warm\":1,\"at\":", "/sessions/0/warm: "},
        {"\"instance\":\"coder\"",
         "\"instance\":\"coder\",\"thread\":\"\"",
         "/sessions/0/thread: "},
    };
    for (const Edit& edit : table) {
        CAPTURE(edit.from);
        CAPTURE(edit.to);
        const std::string message = message_of(replace(kGood, edit.from, edit.to));
        CAPTURE(message);
        CHECK(message.rfind("/d/sessions.json: " + edit.message, 0) == 0);
    }
}

TEST_CASE("runs and seats stand once; warm entries hold no seat") {
    SessionEntry other = thread_entry();
    other.run = plain_entry().run;
    CHECK(message_of(registry::dump_sessions({"b", {plain_entry(), other}})) ==
          "/d/sessions.json: /sessions/1/run: r0123456789ab stands twice");
    other = plain_entry();
    other.run = "r00000000000f";
    CHECK(message_of(registry::dump_sessions({"b", {plain_entry(), other}})) ==
          "/d/sessions.json: /sessions/1: the seat coder stands twice");
    other = thread_entry();
    other.run = "r00000000000f";
    CHECK(message_of(registry::dump_sessions({"b", {thread_entry(), other}})) ==
          "/d/sessions.json: /sessions/1: the seat coder/t1 stands twice");
    CHECK(message_of(registry::dump_sessions({"b", {plain_entry(), warm_entry()}})) == "");
}

TEST_CASE("a warm entry has neither caller nor thread") {
    const std::string text = registry::dump_sessions({"b", {warm_entry()}});
    CHECK(message_of(text) == "");
    CHECK(message_of(replace(text, "\"warm\":true", "\"warm\":true,\"thread\":\"t\"")) ==
          "/d/sessions.json: /sessions/0/thread: expected none: a warm seat isn't for a thread");
    CHECK(
        message_of(replace(text, "\"warm\":true", "\"warm\":true,\"launchedBy\":\"pm\"")) ==
        "/d/sessions.json: /sessions/0/launchedBy: expected none: nobody has launched a warm seat");
}

TEST_CASE("without a business to expect, all entries must agree on one") {
    CHECK(message_of(kGood, "") == "");
    SessionEntry other = thread_entry();
    other.business = "other";
    CHECK(message_of(registry::dump_sessions({"b", {plain_entry(), other}}), "") ==
          "/d/sessions.json: /sessions/1/business: expected \"acme\", found \"other\"");
}

TEST_CASE("a file larger than any can be is not read") {
    const std::string spaces(registry::kSessionsFileBytesMax + 1 - kGood.size(), ' ');
    CHECK(message_of(kGood + spaces) == "/d/sessions.json: is larger than any such file can be");
    CHECK(message_of(kGood + spaces.substr(1)) == "");
}
