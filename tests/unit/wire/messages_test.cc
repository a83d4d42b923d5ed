// Goal: what is encoded is decoded to the same message; shapes that aren't documented are refused.

#include "wire/messages.h"

#include <doctest/doctest.h>

#include "wire/limits.h"
#include "wire/lines.h"
#include "wire/task_messages.h"

using namespace mosaic;
using namespace mosaic::wire;

namespace {

const ProcessIdentity kProcess{11, "100", 12, "200"};

template <class T>
void round_trip(const T& message) {
    const auto text = json::dump(message.to_value());
    const auto value = json::parse(text);
    REQUIRE(value);
    const auto back = T::from(*value);
    REQUIRE_MESSAGE(back.has_value(), (back ? "" : back.error().text));
    CHECK(*back == message);
    if (value->object() != nullptr) {
        json::Value more = *value;
        more.set("surprise", 1);
        CHECK_FALSE(T::from(more).has_value());
    }
}

}  // namespace

TEST_CASE("every message survives encode and decode") {
    round_trip(LaunchResult{"r0123456789ab", "coder", "script", "m"});
    round_trip(BrokerConfig{"acme",
                            "jordan",
                            {{"pm", {"message.send"}, {"x"}, {"y"}}, {"coder", {}, {}, {}}},
                            "pm",
                            {"coder"},
                            {"script"}});
    round_trip(AuthorizeLaunchArgs{{"pm", ""}, "r0123456789ab", {"coder", ""}});
    round_trip(AuthorizeLaunchArgs{{"pm", "t1"}, "r0123456789ab", {"coder", "t"}});
    round_trip(
        BindLaunchArgs{{"coder", ""}, "r0123456789ab", "script", "p", "m", "pm", "/x", kProcess});
    round_trip(EndLaunchArgs{{"coder", ""},
                             "r0123456789ab",
                             EndReason::killed,
                             std::nullopt,
                             "SIGKILL",
                             "",
                             kProcess,
                             "script"});
    round_trip(EndLaunchArgs{
        {"coder", "t"}, "r0123456789ab", EndReason::failed, 7, "", "claim", kProcess, "script"});
    round_trip(EndLaunchResult{EndReason::host_lost, std::nullopt, "", "", true});
    round_trip(RefuseArgs{{"coder", ""}, "capacity-full", "2 of 2", "pm"});
    round_trip(BoundArgs{{"r0123456789ab"}});
    round_trip(
        BoundResult{{{{"pm", ""}, "r0123456789ab", "script", kProcess, true}}, {"r0123456789ab"}});
    round_trip(RunArgs{"r0123456789ab"});
    round_trip(NeedArgs{NeedArgs::What::decision, "d12", "coder"});
    round_trip(NeedArgs{NeedArgs::What::message, "m7", "coder/x"});
    round_trip(HumanLaunchArgs{{"pm", ""}});
    round_trip(StopArgs{"coder", "t", 500});
    round_trip(MessageSendArgs{{"coder", "t"}, MessageClass::note, "hello\n", "m1"});
    round_trip(MessageSendArgs{{"coder", ""}, MessageClass::request, "hello", "", "k 7"});
    round_trip(MessageReceiveArgs{true, "m1"});
    round_trip(MessageReceiveResult{
        Message{"m1", "pm", "", MessageClass::request, "b", "2026-01-01T00:00:00.000Z", ""},
        StateFacts{"2026-01-01T00:00:00.000Z", false, "2026-01-01T00:00:00.000Z", 3}});
    round_trip(MessageReceiveResult{std::nullopt, StateFacts{"x", true, "", 0}});
    round_trip(MessageAckArgs{"m1"});
    round_trip(ClaimArgs{"r0123456789ab"});
    round_trip(EventsArgs{5, true});
    round_trip(EventsArgs{5, true, 7});
    round_trip(DecideArgs{"d7", true, ""});
    round_trip(DecideArgs{"d7", false, "not today"});
}

TEST_CASE("every message of tasks and questions survives encode and decode") {
    round_trip(TaskCreateArgs{"title", "", ""});
    round_trip(TaskCreateArgs{"title", "body", "coder"});
    round_trip(TaskListArgs{"", std::nullopt, ""});
    round_trip(TaskListArgs{"coder", TaskState::dropped, "t5"});
    round_trip(TaskUpdateArgs{"t1", TaskState::done, ""});
    round_trip(TaskUpdateArgs{"t1", std::nullopt, "half of it"});
    const Task task{
        "t1", "coder", TaskState::doing, "title", "b", "n", "pm", "AT", "coder", "THEN"};
    round_trip(task);
    round_trip(TaskListResult{{task, task}, "t1"});
    round_trip(TaskListResult{{}, ""});
    round_trip(DecisionsArgs{"d7", ""});
    round_trip(DecisionsArgs{"", "d7"});
    ShownDecision decision{"d7", "pm", "t", "limits.set", "pending", "2026-01-01", std::nullopt};
    round_trip(DecisionsResult{{decision}, "d7"});
    decision.thread.clear();
    decision.args = json::Object{{"instance", "coder"}};
    round_trip(DecisionsResult{{decision}, ""});
    round_trip(DecisionRequestArgs{"which?", "", {}});
    round_trip(DecisionRequestArgs{"which?", "because", {"this", "that"}});
}

TEST_CASE("texts of tasks and questions are bounded and states are known") {
    const auto task = [](const char* text) {
        const auto made = TaskCreateArgs::from(*json::parse(text));
        return made ? std::string() : made.error().text;
    };
    CHECK(task(R"({"title":""})") == "args: /title: expected a text that isn't empty");
    CHECK(task(R"({"body":"b"})").starts_with("args: /title: is missing"));
    CHECK(task(R"({"title":"x","to":"A B"})").starts_with("args: /to: "));
    CHECK(task((R"({"title":")" + std::string(limits::kTitleBytesMax + 1, 'x') + "\"}").c_str()) ==
          "args: /title: expected at most 512 bytes");
    const auto update = [](const char* text) {
        const auto made = TaskUpdateArgs::from(*json::parse(text));
        return made ? std::string() : made.error().text;
    };
    CHECK(update(R"({"id":"t1"})") == "args: /state: expected a new state, or a note");
    CHECK(update(R"({"id":"t1","state":"Done"})") ==
          "args: /state: expected open, doing, done or dropped");
    CHECK(update(R"({"id":"t1","state":null})").starts_with("args: /state: expected a string"));
    json::Array many(limits::kOptionsMax + 1, json::Value("x"));
    CHECK_FALSE(DecisionRequestArgs::from(json::Object{{"question", "q"}, {"options", many}}));
    CHECK_FALSE(
        DecisionRequestArgs::from(json::Object{{"question", "q"}, {"options", json::Array{""}}}));
}

TEST_CASE("frames") {
    Request request;
    request.id = 4;
    request.verb = "role.claim";
    request.cap = "c";
    request.args = ClaimArgs{"r0123456789ab"}.to_value();
    std::string line = encode(request);
    REQUIRE(line.back() == '\n');
    line.pop_back();
    const auto frame = decode_frame(line);
    REQUIRE(frame);
    const auto* decoded = std::get_if<Request>(&*frame);
    REQUIRE(decoded != nullptr);
    CHECK(decoded->id == 4);
    CHECK(decoded->verb == "role.claim");
    CHECK(decoded->cap == "c");
    CHECK(decoded->args == request.args);

    CHECK_FALSE(decode_frame("{\"id\":1}"));
    CHECK_FALSE(decode_frame("{\"id\":-1,\"verb\":\"x\"}"));
    CHECK_FALSE(decode_frame("{\"id\":1,\"verb\":\"x\",\"args\":[]}"));
    CHECK_FALSE(decode_frame("{\"id\":1,\"ok\":true}"));
    CHECK_FALSE(decode_frame("[]"));
}

TEST_CASE("a launch request has exactly cap, instance and perhaps thread") {
    CHECK(decode_launch_request(R"({"cap":"x","instance":"coder"})").has_value());
    CHECK(decode_launch_request(R"({"cap":"x","instance":"coder","thread":"t"})").has_value());
    for (const char* bad : {R"({"instance":"coder"})",
                            R"({"cap":"x"})",
                            R"({"cap":"x","instance":"../x"})",
                            R"({"cap":"x","instance":"a\u0000b"})",
                            R"({"cap":"x","instance":"coder","thread":""})",
                            R"({"cap":"x","instance":"coder","thread":null})",
                            R"({"cap":1,"instance":"coder"})",
                            R"({"cap":"x","instance":"coder","more":1})",
                            R"({"cap":"x","instance":"a","instance":"b"})"}) {
        CAPTURE(bad);
        CHECK_FALSE(decode_launch_request(bad).has_value());
    }
}

TEST_CASE("lines arrive in any pieces") {
    LineBuffer buffer(10);
    buffer.append("ab");
    CHECK_FALSE(buffer.next().has_value());
    buffer.append("c\nde\n\nf");
    CHECK(buffer.next() == "abc");
    CHECK(buffer.next() == "de");
    CHECK(buffer.next() == "");
    CHECK_FALSE(buffer.next().has_value());
    buffer.append("g\n");
    CHECK(buffer.next() == "fg");
    CHECK(buffer.empty());
    buffer.append("0123456789");
    CHECK_FALSE(buffer.overlong());
    buffer.append("x");
    CHECK(buffer.overlong());
    buffer.append("\nnext\n");
    CHECK(buffer.overlong());
    CHECK_FALSE(buffer.next().has_value());
}

TEST_CASE("the longest list of bound runs fits a frame") {
    const std::string name(64, 'n');
    ProcessIdentity process;
    process.pid = INT32_MAX;
    process.start_time = std::to_string(UINT64_MAX);
    process.runner_pid = INT32_MAX;
    process.runner_start_time = process.start_time;
    BoundResult all;
    for (size_t i = 0; i < limits::kRunsMax; ++i) {
        all.bound.push_back({{name, name}, "r0123456789ab", name, process, false});
    }
    all.known.assign(limits::kBoundNamesMax, "r0123456789ab");
    CHECK(encode(reply_ok(INT64_MAX, all.to_value())).size() <= limits::kFrameBytesMax);
}
