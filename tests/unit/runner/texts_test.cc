// Goal: the texts of a turn, its variables and the calls of tools, without any process.

#include <doctest/doctest.h>

#include "base/utf8.h"
#include "runner/environment.h"
#include "runner/tool_call.h"
#include "runner/turn_text.h"
#include "wire/limits.h"

using namespace mosaic;
using namespace mosaic::runner;

namespace {

wire::Message message() {
    return {"m3", "pm", "", wire::MessageClass::request, "line 1\nline 2\n", "AT", ""};
}

}  // namespace

TEST_CASE("the request says what the state is and who asks") {
    CHECK(request_text(message(), {"NOW", true, "", 2}) ==
          "Current state, read at NOW:\nLaunches: allowed (never switched).\nOpen tasks: 2.\n\n"
          "Message m3 from pm, sent AT, class REQUEST:\n\nline 1\nline 2\n");
    CHECK(
        request_text(message(), {"NOW", true, "THEN", 0}).find("Launches: allowed since THEN.\n") !=
        std::string::npos);
    CHECK(request_text(message(), {"NOW", false, "THEN", 0})
              .find("Launches: revoked since THEN.\n") != std::string::npos);
    auto from_thread = message();
    from_thread.from_thread = "t1";
    CHECK(request_text(from_thread, {}).find("from pm/t1, sent") != std::string::npos);
}

TEST_CASE("a request is cut for the environment between two characters") {
    for (size_t shift = 0; shift < 4; ++shift) {
        std::string text(limits::kRequestEnvBytesMax - 8 + shift, 'a');
        for (int i = 0; i < 8; ++i) {
            text += "\xF0\x9F\x98\x80";
        }
        const std::string cut = request_for_environment(text);
        CHECK(cut.size() <= limits::kRequestEnvBytesMax);
        CHECK(cut.size() > limits::kRequestEnvBytesMax - 4);
        CHECK(valid_utf8_prefix(cut) == cut.size());
        CHECK(text.starts_with(cut));
    }
    CHECK(request_for_environment(std::string("a\0b", 3)) ==
          "a\xEF\xBF\xBD"
          "b");
    const std::string nuls =
        request_for_environment(std::string(limits::kRequestEnvBytesMax, '\0'));
    CHECK(nuls.size() <= limits::kRequestEnvBytesMax);
    CHECK(valid_utf8_prefix(nuls) == nuls.size());
}

TEST_CASE("a reply is UTF-8 within the limit of a message and tells what was cut") {
    CHECK(reply_body("all of it", 9) == "all of it");
    CHECK(reply_body("", 0).empty());
    CHECK(reply_body("half of \xE2\x82", 12) == "half of \n[cut: the turn wrote 12 bytes]\n");
    CHECK(reply_body("whole \xE2\x82\xAC", 12) ==
          "whole \xE2\x82\xAC\n[cut: the turn wrote 12 bytes]\n");
    // Each bad byte becomes three.
    const std::string bad(limits::kMessageBodyBytesMax, '\xFF');
    const std::string body = reply_body(bad, bad.size());
    CHECK(body.size() <= limits::kMessageBodyBytesMax);
    CHECK(valid_utf8_prefix(body) == body.size());
    CHECK(body.ends_with("bytes]\n"));
}

TEST_CASE("a failure shows the last lines of standard error only") {
    CHECK(failure_body("it broke", "") == "The turn failed: it broke.\n");
    std::string errors;
    for (int i = 0; i < 2000; ++i) {
        errors += "line " + std::to_string(i) + "\n";
    }
    const std::string body = failure_body("it broke", errors);
    CHECK(body.size() < 5000);
    CHECK(body.ends_with("line 1999\n"));
    CHECK(body.find("standard error:\nline ") != std::string::npos);
    CHECK(failure_body("it broke", std::string(9000, 'x')).size() < 5000);
}

TEST_CASE("the runner's variables win over the module's, and those over inherited ones") {
    wire::SessionFile session;
    session.workspace = "/w";
    session.harness_env = {{"A", "module"}, {"N", "new"}};
    for (const char* name : {"MOSAIC_REQUEST",
                             "MOSAIC_REQUEST_FILE",
                             "MOSAIC_WORKSPACE",
                             "MOSAIC_RUN_DIR",
                             "MOSAIC_BUNDLE",
                             "MOSAIC_SESSION_DIR",
                             "MOSAIC_TURN_MARKER",
                             "MOSAIC_THINKING",
                             "MOSAIC_MODEL",
                             "MOSAIC_PROVIDER",
                             "MOSAIC_MESSAGE_FROM",
                             "MOSAIC_MESSAGE_ID",
                             "MOSAIC_MESSAGE_CLASS"}) {
        session.harness_env.emplace(name, "module");
    }
    session.model = "m";
    const char* const inherited[] = {"A=host", "B=host", "MOSAIC_REQUEST=old", "broken", nullptr};
    const auto m = message();
    const auto env = turn_environment(inherited, {session, m, "/run/dir", "the request", "/file"});
    const auto has = [&](const char* entry) {
        return std::count(env.begin(), env.end(), std::string(entry)) == 1;
    };
    const auto ends_module = [](const std::string& one) {
        return one.starts_with("MOSAIC_") && one.ends_with("=module");
    };
    CHECK(std::none_of(env.begin(), env.end(), ends_module));
    CHECK(has("A=module"));
    CHECK(has("B=host"));
    CHECK(has("N=new"));
    CHECK(has("MOSAIC_MODEL=m"));
    CHECK(has("MOSAIC_REQUEST=the request"));
    CHECK(has("MOSAIC_REQUEST_FILE=/file"));
    CHECK(has("MOSAIC_BUNDLE=/run/dir/bundle"));
    CHECK_FALSE(has("MOSAIC_REQUEST=old"));
    CHECK_FALSE(has("broken"));
}

TEST_CASE("a tool call is decoded whole") {
    const auto send = decode_tool_call(
        R"({"tool":"message_send","args":{"to":"pm","thread":"t","body":"b","class":"NOTE",)"
        R"("in_reply_to":"m1","wait":5}})",
        {"message_send"});
    REQUIRE(send.has_value());
    const auto& call = std::get<SendCall>(*send);
    CHECK(call.message == wire::MessageSendArgs{{"pm", "t"}, wire::MessageClass::note, "b", "m1"});
    CHECK(call.wait_seconds == 5);
    const auto launch =
        decode_tool_call(R"({"tool":"launch","args":{"instance":"coder"}})", {"launch"});
    REQUIRE(launch.has_value());
    CHECK(std::get<LaunchCall>(*launch).seat == Seat{"coder", ""});
}

TEST_CASE("the tools of tasks and questions become requests at the broker") {
    const std::vector<std::string> granted = {
        "task_create", "task_list", "task_update", "decision_request"};
    const auto request = [&](const std::string& tool, const std::string& args) {
        const auto call =
            decode_tool_call(R"({"tool":")" + tool + R"(","args":)" + args + "}", granted);
        if (!call) {
            return call.error().text;
        }
        const auto& made = std::get<BrokerCall>(*call);
        return made.verb + " " + json::dump(made.args);
    };
    CHECK(request("task_create", R"({"title":"t"})") == R"(task.create {"title":"t"})");
    CHECK(request("task_create", R"({"title":"t","body":"b","role":"coder"})") ==
          R"(task.create {"title":"t","body":"b","to":"coder"})");
    CHECK(request("task_list", "{}") == "task.list {}");
    CHECK(request("task_list", R"({"role":"pm","state":"done","after":"t9"})") ==
          R"(task.list {"to":"pm","state":"done","after":"t9"})");
    CHECK(request("task_update", R"({"id":"t1","state":"doing","note":"n"})") ==
          R"(task.update {"id":"t1","state":"doing","note":"n"})");
    CHECK(request("decision_request", R"({"question":"q","context":"c","options":["a","b"]})") ==
          R"(decision.request {"question":"q","context":"c","options":["a","b"]})");

    CHECK(request("task_create", "{}").find("task_create: /title: is missing") !=
          std::string::npos);
    CHECK(request("task_create", R"({"title":"t","to":"coder"})").find("/to") != std::string::npos);
    CHECK(request("task_update", R"({"id":"t1","state":"finished"})") ==
          "bad-request: task_update: /state: expected open, doing, done or dropped");
    CHECK(request("task_update", R"({"id":"t1"})") ==
          "bad-request: task_update: /state: expected a new state (open, doing, done or dropped), "
          "or a note");
    CHECK(request("task_list", R"({"state":3})").find("/state: expected a string") !=
          std::string::npos);
    CHECK(request("decision_request", R"({"question":"q","options":"a"})").find("/options") !=
          std::string::npos);
    CHECK(request("decision_request",
                  R"({"question":")" + std::string(limits::kQuestionBytesMax + 1, 'x') + "\"}") ==
          "bad-request: decision_request: /question: expected at most 4096 bytes");
}

TEST_CASE("a tool call that can't be carried out says which argument is wrong") {
    const std::vector<std::string> granted = {"launch", "message_send"};
    const auto error = [&](const std::string& args) {
        const auto call =
            decode_tool_call(R"({"tool":"message_send","args":)" + args + "}", granted);
        return call ? std::string() : call.error().text;
    };
    CHECK(error(R"({"to":"PM","body":"b"})").find("/to") != std::string::npos);
    CHECK(error(R"({"to":"pm","body":7})").find("/body: expected a string") != std::string::npos);
    CHECK(error(R"({"to":"pm","body":"b","wait":-1})").find("/wait") != std::string::npos);
    CHECK(error(R"({"to":"pm","body":"b","to":"pm"})").find("twice") != std::string::npos);
    CHECK(error("[]").find("/args") != std::string::npos);
    CHECK(decode_tool_call(R"({"tool":"task_create","args":{}})", granted).error().text ==
          "refused: unknown-tool");
    // Granted, but none of the runner's.
    CHECK(decode_tool_call(R"({"tool":"other","args":{}})", {"other"}).error().text ==
          "refused: unknown-tool");
}
