#include "registry/launch_log.h"

#include <doctest/doctest.h>

namespace registry = mosaic::registry;

TEST_CASE("a launch line carries the route and the microseconds of every stage") {
    registry::LaunchLine line;
    line.at = "2026-01-31T12:34:56.789Z";
    line.seat = {"coder", ""};
    line.run = "r0123456789ab";
    line.launched_by = "pm";
    line.harness = "script";
    line.provider = "local";
    line.model = "none";
    line.stages = {1, 2, 3, 4, 5, 6, 7, 8};
    CHECK(registry::encode(line) ==
          R"({"event":"launch","at":"2026-01-31T12:34:56.789Z","instance":"coder",)"
          R"("run":"r0123456789ab","launchedBy":"pm","harness":"script","provider":"local",)"
          R"("model":"none","stages":{"checked":1,"authorized":2,"prepared":3,"spawned":4,)"
          R"("bound":5,"persisted":6,"delivered":7,"claimed":8}})"
          "\n");
}

TEST_CASE("a refused line carries code, reason and caller, and the thread when there is one") {
    registry::RefusedLine line;
    line.at = "2026-01-31T12:34:56.789Z";
    line.code = mosaic::Refusal::capacity_full;
    line.seat = {"coder", "t1"};
    line.reason = "2 of 2 run";
    line.by = "pm";
    CHECK(registry::encode(line) ==
          R"({"event":"refused","at":"2026-01-31T12:34:56.789Z","code":"capacity-full",)"
          R"("instance":"coder","thread":"t1","reason":"2 of 2 run","by":"pm"})"
          "\n");
}

TEST_CASE("an end line has null for what did not happen and no detail when there is none") {
    registry::EndLine line;
    line.at = "2026-01-31T12:34:56.789Z";
    line.seat = {"coder", ""};
    line.run = "r0123456789ab";
    line.reason = mosaic::EndReason::stopped;
    line.exit_code = 0;
    CHECK(registry::encode(line) ==
          R"({"event":"end","at":"2026-01-31T12:34:56.789Z","instance":"coder",)"
          R"("run":"r0123456789ab","reason":"stopped","exitCode":0,"signal":null})"
          "\n");
    line.reason = mosaic::EndReason::killed;
    line.exit_code.reset();
    line.signal = "SIGKILL";
    line.detail = "claim: timed out";
    CHECK(registry::encode(line) ==
          R"({"event":"end","at":"2026-01-31T12:34:56.789Z","instance":"coder",)"
          R"("run":"r0123456789ab","reason":"killed","exitCode":null,"signal":"SIGKILL",)"
          R"("detail":"claim: timed out"})"
          "\n");
}

TEST_CASE("a line is one line whatever the texts hold") {
    registry::RefusedLine line;
    line.reason = "two\nlines \xFF \x1b[2J";
    const std::string text = registry::encode(line);
    CHECK(text.find('\n') == text.size() - 1);
    const auto read = registry::parse_log_line(std::string_view(text).substr(0, text.size() - 1));
    REQUIRE(read);
    CHECK(*read->value.find("reason")->string() == "two\nlines \xEF\xBF\xBD \x1b[2J");
}

TEST_CASE("the reader takes events and fields it does not know") {
    const auto read = registry::parse_log_line(
        R"({"event":"moved","at":"x","instance":"coder","run":7,"more":{"a":[1]}})");
    REQUIRE(read);
    CHECK(read->event == "moved");
    CHECK(read->seat.instance == "coder");
    CHECK(read->run.empty());
    CHECK(read->value.find("more") != nullptr);
}

TEST_CASE("the reader says nothing about a line that is not one object") {
    CHECK_FALSE(registry::parse_log_line("").has_value());
    CHECK_FALSE(registry::parse_log_line(R"({"event":"launch","at":"20)").has_value());
    CHECK_FALSE(registry::parse_log_line("[]").has_value());
    CHECK_FALSE(registry::parse_log_line(R"({"event":"a"}{"event":"b"})").has_value());
}
