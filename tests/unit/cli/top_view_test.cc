// Goal: the picture has what was told, fits its terminal and holds nothing that a terminal obeys.
// Method: answers as the broker gives them, with names and details of a session's choice in them;
// every size.

#include "cli/top_view.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace mosaic;
using namespace mosaic::cli;

namespace {

constexpr int64_t kNow = 1'769'862'896'789;  // 2026-01-31T12:34:56.789Z
const std::string kEvil = "\x1b]52;c;aGk=\x07\x1b[2J\nnew line\ttab\xc2\x9b\xe2\x80\xae";

json::Value parsed(const std::string& text) {
    auto value = json::parse(text);
    REQUIRE_MESSAGE(value, (value ? "" : value.error().text));
    return std::move(*value);
}

json::Value session(const std::string& instance, bool claimed, const std::string& model = "m") {
    json::Value out;
    out.set("instance", instance);
    out.set("run", "r0123456789ab");
    out.set("harness", "script");
    out.set("provider", "local");
    out.set("model", model);
    out.set("launchedBy", "jordan");
    out.set("claimed", claimed);
    out.set("boundAt", "2026-01-31T12:31:00.000Z");
    return out;
}

json::Value sessions(json::Array list) {
    return json::Object{{"sessions", std::move(list)}};
}

json::Value event(int64_t seq, const std::string& type, const json::Object& fields) {
    json::Value out;
    out.set("seq", seq);
    out.set("at", "2026-01-31T12:34:46.000Z");
    out.set("type", type);
    for (const auto& [name, value] : fields) {
        out.set(name, value);
    }
    return out;
}

json::Value events(json::Array list, int64_t next) {
    return json::Object{{"events", std::move(list)}, {"next", next}};
}

std::string metrics_text(int launched, double busy) {
    return "# HELP mosaic_launches_total L\n# TYPE mosaic_launches_total counter\n"
           "mosaic_launches_total{result=\"launched\"} " +
           std::to_string(launched) +
           "\nmosaic_launches_total{result=\"busy\"} 2\n"
           "mosaic_launches_total{result=\"no-route\"} 1\n"
           "# HELP mosaic_launch_seconds S\n# TYPE mosaic_launch_seconds histogram\n"
           "mosaic_launch_seconds_bucket{seat=\"cold\",le=\"0.01\"} 0\n"
           "mosaic_launch_seconds_bucket{seat=\"cold\",le=\"0.02\"} 10\n"
           "mosaic_launch_seconds_bucket{seat=\"cold\",le=\"+Inf\"} 10\n"
           "mosaic_launch_seconds_sum{seat=\"cold\"} 0.15\n"
           "mosaic_launch_seconds_count{seat=\"cold\"} 10\n"
           "# HELP mosaic_sessions N\n# TYPE mosaic_sessions gauge\n"
           "mosaic_sessions{state=\"live\"} 12\nmosaic_sessions{state=\"warm\"} 3\n"
           "# HELP mosaic_host_loop_busy_seconds_total B\n"
           "# TYPE mosaic_host_loop_busy_seconds_total counter\n"
           "mosaic_host_loop_busy_seconds_total " +
           std::to_string(busy) +
           "\n# HELP mosaic_host_start_time_seconds T\n"
           "# TYPE mosaic_host_start_time_seconds gauge\n"
           "mosaic_host_start_time_seconds 1769859236.789\n";
}

json::Value some_metrics(int launched, double busy) {
    return json::Object{{"text", metrics_text(launched, busy)}};
}

TopView full() {
    TopView view("acme");
    CHECK(view.take_sessions(sessions({session("pm", true), session("coder", false, kEvil)})));
    CHECK(view.take_metrics(some_metrics(100, 10), Instant{0}));
    CHECK(view.take_events(events({event(7, "session.bound", {{"instance", "coder"}}),
                                   event(8, "action.refused", {{"reason", kEvil}}),
                                   event(9, "message.sent", {{"from", "pm"}, {"to", "coder"}})},
                                  9)) == 9);
    return view;
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

size_t code_points(const std::string& text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    }));
}

}  // namespace

TEST_CASE("the head tells how the host does") {
    TopView view = full();
    CHECK(has(view.text(kNow), "mosaic acme  host up 1h01m, broker -\n"));
    CHECK(has(view.text(kNow), "12 live, 0 launching, 0 waiting, 0 ending, 3 warm\n"));
    CHECK(has(view.text(kNow), "p50 15.0 ms, p99 19.9 ms, 3 refused\n"));
    // One look alone: since the start, an hour and a minute ago.
    CHECK(has(view.text(kNow), "launches  100, 0.0/s"));
    CHECK(has(view.text(kNow), "loop      0.3% busy"));
    // Two looks: between them.
    CHECK(view.take_metrics(some_metrics(105, 11), Instant{seconds(2).ns}));
    CHECK(has(view.text(kNow), "launches  105, 2.5/s"));
    CHECK(has(view.text(kNow), "loop      50.0% busy"));
    // A host that was started anew.
    CHECK(view.take_metrics(some_metrics(1, 0.5), Instant{seconds(4).ns}));
    CHECK(has(view.text(kNow), "launches  1, 0.0/s"));
    view.set_note("no answer");
    CHECK(has(view.text(kNow), "[no answer]"));
}

TEST_CASE("nothing is known before it was told") {
    const TopView view("acme");
    CHECK(has(view.text(kNow), "host up -, broker -"));
    CHECK(has(view.text(kNow), "p50 -, p99 -"));
    CHECK(view.to_value(kNow).find("loopBusy")->is_null());
}

TEST_CASE("each session has its row, with what was heard of it last") {
    const std::string text = full().text(kNow);
    CHECK(has(text, "INSTANCE  RUN            MODEL"));
    const size_t coder = text.find("coder     r0123456789ab");
    const size_t pm = text.find("pm        r0123456789ab  m");
    REQUIRE(coder != std::string::npos);
    REQUIRE(pm != std::string::npos);
    CHECK(coder < pm);
    CHECK(has(text, "3m56s  launching  message.received 10s ago"));
    CHECK(has(text, "3m56s  live       message.sent 10s ago"));
    CHECK(has(text, "9 2026-01-31T12:34:46.000Z message.sent from=pm to=coder\n"));
}

TEST_CASE("a role that was released is on its way out") {
    TopView view("acme");
    CHECK(view.take_sessions(sessions({session("pm", false)})));
    CHECK(view.take_events(events({event(1, "role.released", {{"instance", "pm"}})}, 1)) == 1);
    CHECK(has(view.text(kNow), "ending"));
}

TEST_CASE("nothing of a session's reaches the terminal as a command") {
    const TopView view = full();
    std::vector<std::string> lines = view.draw({100, 1000}, kNow);
    for (const std::string& line : lines) {
        for (const char c : line) {
            CHECK((static_cast<unsigned char>(c) >= 0x20 && c != '\x7f'));
        }
        CHECK_FALSE(has(line, "\xc2\x9b"));
        CHECK_FALSE(has(line, "\xe2\x80\xae"));
    }
    CHECK(has(view.text(kNow), "\\u001b]52;c;aGk=\\u0007\\u001b[2J new line tab\\u009b\\u202e"));
}

TEST_CASE("the picture fits every size") {
    TopView view = full();
    json::Array many;
    for (int i = 0; i < 50; ++i) {
        many.push_back(session("coder" + std::to_string(i), true, "m\xc3\xa4\xe4\xb8\xad"));
    }
    CHECK(view.take_sessions(sessions(many)));
    for (size_t rows = 0; rows < 80; ++rows) {
        for (const size_t columns : {size_t{0}, size_t{1}, size_t{20}, size_t{80}}) {
            const auto lines = view.draw({rows, columns}, kNow);
            CHECK(lines.size() <= rows);
            for (const std::string& line : lines) {
                CHECK(code_points(line) <= columns);
            }
        }
    }
    const auto small = view.draw({20, 200}, kNow);
    REQUIRE(small.size() == 20);
    CHECK(has(small[15], "and 41 more"));
    CHECK(has(small[19], "message.sent"));
    CHECK(has(view.draw({80, 200}, kNow)[55], "coder9"));
}

TEST_CASE("only so many events are kept") {
    TopView view("acme");
    json::Array list;
    for (int64_t seq = 1; seq <= int64_t{kTopEventsMax} + 50; ++seq) {
        list.push_back(event(seq, "launches.switched", {}));
    }
    CHECK(view.take_events(events(list, 250)) == 250);
    const json::Value value = view.to_value(kNow);
    CHECK(value.find("events")->array()->size() == kTopEventsMax);
    CHECK(*value.find("events")->array()->front().find("seq")->integer() == 51);
}

TEST_CASE("a snapshot as data") {
    json::Value value = full().to_value(kNow);
    CHECK(*value.find("at")->string() == "2026-01-31T12:34:56.789Z");
    CHECK(*value.find("hostUpSince")->string() == "2026-01-31T11:33:56.789Z");
    CHECK(json::dump(*value.find("counts")) ==
          R"({"live":12,"launching":0,"waiting":0,"ending":0,"warm":3})");
    CHECK(*value.find("launches")->find("refused")->integer() == 3);
    CHECK(*value.find("launches")->find("p50Seconds")->number() == doctest::Approx(0.015));
    const json::Array& list = *value.find("sessions")->array();
    REQUIRE(list.size() == 2);
    CHECK(*list[0].find("seat")->string() == "coder");
    CHECK(*list[0].find("state")->string() == "launching");
    CHECK(*list[0].find("lastEvent")->string() == "message.received");
    CHECK(*list[0].find("boundAt")->string() == "2026-01-31T12:31:00.000Z");
}

TEST_CASE("an answer of another shape is an error and changes nothing") {
    TopView view = full();
    const std::string before = view.text(kNow);
    CHECK_FALSE(view.take_sessions(parsed("{}")));
    CHECK_FALSE(view.take_sessions(parsed(R"({"sessions":7})")));
    CHECK_FALSE(view.take_metrics(parsed(R"({"text":"x 1\n"})"), Instant{}));
    CHECK_FALSE(view.take_metrics(parsed(R"({"text":7})"), Instant{}));
    CHECK_FALSE(view.take_events(parsed(R"({"events":[]})")));
    CHECK(view.text(kNow) == before);
    // Members of another kind are as good as none.
    CHECK(view.take_sessions(parsed(R"({"sessions":[{"instance":7,"boundAt":"then"},5]})")));
    CHECK(view.take_events(parsed(R"({"events":[5,{"instance":[]}],"next":1})")) == 1);
    CHECK_FALSE(view.text(kNow).empty());
}

TEST_CASE("times are read as they are written and nothing else is") {
    CHECK(wall_ms_from("2026-01-31T12:34:56.789Z") == kNow);
    CHECK(wall_ms_from("1970-01-01T00:00:00.000Z") == 0);
    CHECK(wall_ms_from("2024-02-29T00:00:00.001Z") == 1'709'164'800'001);
    for (const char* text : {"",
                             "now",
                             "2026-01-31T12:34:56.789",
                             "2026-01-31 12:34:56.789Z",
                             "2026-02-30T12:34:56.789Z",
                             "2026-13-01T12:34:56.789Z",
                             "2026-01-31T1x:34:56.789Z",
                             "-026-01-31T12:34:56.789Z",
                             "2026-01-31T-1:34:56.789Z"}) {
        CAPTURE(text);
        CHECK_FALSE(wall_ms_from(text).has_value());
    }
}
