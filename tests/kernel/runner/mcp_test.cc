// Goal: a harness's MCP client gets the session's tools. Method: the real runner with its
// tools.sock, the real server beside it, the test as client and broker.

#include "kernel/runner/program.h"
#include "wire/codes.h"

using namespace scene;

namespace {

constexpr const char* kTools =
    R"([{"name":"message_send","description":"Sends.","parameters":{"type":"object"}}])";

std::vector<std::string> env_of(const Scene& s) {
    return {"MOSAIC_RUN_DIR=" + s.run_directory, "MOSAIC_BUNDLE=" + s.run_directory + "/bundle"};
}

std::string call(const std::string& id, const std::string& arguments) {
    return R"({"jsonrpc":"2.0","id":)" + id +
           R"(,"method":"tools/call","params":{"name":"message_send","arguments":)" + arguments +
           "}}\n";
}

std::string told(const std::string& id, const std::string& text) {
    return R"({"jsonrpc":"2.0","id":)" + id + R"(,"result":{"content":[{"type":"text","text":)" +
           json::dump(json::Value(text)) + "}]}}";
}

std::string body_of(const wire::Request& send) {
    return *send.args.find("body")->string();
}

json::Value id_result(const std::string& id) {
    return json::Value(json::Object{{"id", id}});
}

// A session that has claimed, and a server that is connected to it.
struct Served {
    Served() {
        write_text(scene.run_directory + "/bundle/tools.json", kTools);
        scene.start();
        auto [peer, receive] = scene.claimed();
        broker.emplace(std::move(peer));
        program.emplace(std::vector<std::string>{"mcp"}, env_of(scene), scene.root + "/mcp-err");
        client.emplace(program->peer());
    }

    Scene scene;
    std::optional<Peer> broker;
    std::optional<Program> program;
    std::optional<Peer> client;
};

}  // namespace

TEST_CASE("a client's first words are answered in their order") {
    Served s;
    s.client->send(
        R"({"jsonrpc":"2.0","id":"probe","method":"server/discover","params":{}})"
        "\n"
        R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",)"
        R"("capabilities":{"roots":{},"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}})"
        "\n"
        R"({"jsonrpc":"2.0","method":"notifications/initialized"})"
        "\n\n"
        R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})"
        "\r\n");
    CHECK(s.client->line().value_or("").starts_with(
        R"({"jsonrpc":"2.0","id":"probe","error":{"code":-32601)"));
    CHECK(s.client->line().value_or("").starts_with(
        R"({"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25")"));
    CHECK(s.client->line() ==
          R"({"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"message_send",)"
          R"("description":"Sends.","inputSchema":{"type":"object"}}]}})");
}

TEST_CASE("calls don't wait for one another") {
    Served s;
    s.client->send(call("1", R"({"to":"pm","body":"slow","wait":600})"));
    const auto slow = s.broker->expect("message.send");
    CHECK(body_of(slow) == "slow");
    s.broker->ok(slow, id_result("m1"));
    const auto waiting = s.broker->expect("message.receive");

    s.client->send(call("2", R"({"to":"pm","body":"quick"})") + R"({"id":3,"method":"ping"})" +
                   "\n");
    CHECK(s.client->line() == R"({"jsonrpc":"2.0","id":3,"result":{}})");
    s.broker->ok(s.broker->expect("message.send"), id_result("m2"));
    CHECK(s.client->line() == told("2", R"({"id":"m2"})"));

    s.broker->ok(waiting, delivery("m3", "at last", wire::MessageClass::reply));
    CHECK(s.client->line() == told("1", R"({"id":"m1","reply":{"from":"pm","body":"at last"}})"));
}

TEST_CASE("more calls than the session takes at once are all answered") {
    Served s;
    constexpr int kCalls = 60;
    std::string all;
    for (int i = 0; i < kCalls; ++i) {
        all += call(std::to_string(i), R"({"to":"pm","body":")" + std::to_string(i) + "\"}");
    }
    s.client->send(all);
    std::vector<bool> seen(kCalls);
    for (int i = 0; i < kCalls; ++i) {
        const auto send = s.broker->expect("message.send");
        s.broker->ok(send, id_result("m" + body_of(send)));
    }
    for (int i = 0; i < kCalls; ++i) {
        const auto line = json::parse(s.client->line().value_or(""));
        REQUIRE(line.has_value());
        const auto id = static_cast<size_t>(*line->find("id")->integer());
        CHECK_FALSE(seen.at(id));
        seen.at(id) = true;
        CHECK(json::dump(*line) ==
              told(std::to_string(id), R"({"id":"m)" + std::to_string(id) + "\"}"));
    }
}

TEST_CASE("what the session refuses is an error of the tool") {
    Served s;
    s.client->send(call("1", R"({"to":"pm"})"));
    const std::string wrong = s.client->line().value_or("");
    CHECK(wrong.find("/body") != std::string::npos);
    CHECK(wrong.find("\"isError\":true") != std::string::npos);
    s.client->send(call("2", R"({"to":"pm","body":"b"})"));
    s.broker->refuse(s.broker->expect("message.send"), "not-authorized");
    const std::string refused = s.client->line().value_or("");
    CHECK(refused.find("not-authorized") != std::string::npos);
    CHECK(refused.find("\"isError\":true") != std::string::npos);
    s.client->send(call("3", R"({"to":{"a":{"b":{"c":{"d":{"e":{"f":{"g":1}}}}}}}})"));
    CHECK(s.client->line().value_or("").find("\"isError\":true") != std::string::npos);
}

TEST_CASE("a cancelled call gets no answer, and the session goes on") {
    Served s;
    s.client->send(call("\"a\"", R"({"to":"pm","body":"b","wait":600})"));
    s.broker->ok(s.broker->expect("message.send"), id_result("m1"));
    const auto waiting = s.broker->expect("message.receive");
    s.client->send(
        R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}})"
        "\n" +
        call("2", R"({"to":"pm","body":"c"})"));
    s.broker->ok(s.broker->expect("message.send"), id_result("m2"));
    CHECK(s.client->line() == told("2", R"({"id":"m2"})"));
}

TEST_CASE("a session that goes away is an error of the calls under way and of the next") {
    Served s;
    s.client->send(call("1", R"({"to":"pm","body":"b"})"));
    s.broker->expect("message.send");
    s.scene.terminate();
    s.broker->ok(s.broker->expect("role.release"));
    static_cast<void>(s.scene.exit());
    CHECK(s.client->line().value_or("").find("without an answer") != std::string::npos);
    s.client->send(call("2", R"({"to":"pm","body":"b"})"));
    CHECK(s.client->line().value_or("").find("the session can't be reached") != std::string::npos);
}

TEST_CASE("the server ends with its input, with its reader, and at signals") {
    Served s;
    SUBCASE("the end of the input") {
        s.client->half_close();
        CHECK(s.program->finish() == 0);
    }
    SUBCASE("the end of the input while a call is under way") {
        s.client->send(call("1", R"({"to":"pm","body":"b"})"));
        const auto send = s.broker->expect("message.send");
        s.client->half_close();
        s.broker->ok(send, id_result("m1"));
        CHECK(s.client->line() == told("1", R"({"id":"m1"})"));
        CHECK(s.program->finish() == 0);
    }
    SUBCASE("the end of the input while a call takes long") {
        s.client->send(call("1", R"({"to":"pm","body":"b","wait":600})"));
        s.broker->ok(s.broker->expect("message.send"), id_result("m1"));
        s.client->half_close();
        CHECK(s.program->finish() == 0);
    }
    SUBCASE("a client that is gone") {
        s.client->close();
        CHECK(s.program->finish() == 0);
    }
    SUBCASE("SIGINT") {
        s.client->send("{\"id\":1,\"method\":\"ping\"}\n");
        REQUIRE(s.client->line().has_value());
        s.program->signal(SIGINT);
        CHECK(s.program->finish() == 0);
    }
    SUBCASE("SIGTERM with a call under way") {
        s.client->send(call("1", R"({"to":"pm","body":"b"})"));
        s.broker->expect("message.send");
        s.program->signal(SIGTERM);
        CHECK(s.program->finish() == 0);
    }
}

TEST_CASE("a line past the limit is answered, and ends the server") {
    Served s;
    const std::string piece(65536, 'x');
    static_assert(limits::kFrameBytesMax % 65536 == 0);
    for (size_t sent = 0; sent < limits::kFrameBytesMax; sent += piece.size()) {
        s.client->send(piece);
    }
    // The byte past the limit: once the server has it, it takes no more.
    s.client->send("x");
    CHECK(s.client->line().value_or("").find("-32700") != std::string::npos);
    CHECK(s.program->finish() == 1);
}

TEST_CASE("a server without a session or tools doesn't start") {
    Scene s;
    Program lost({"mcp"}, {}, s.root + "/err1");
    CHECK(lost.finish() == 1);
    CHECK(lost.err().find("MOSAIC_BUNDLE isn't set") != std::string::npos);
    write_text(s.run_directory + "/bundle/tools.json", "[1]");
    Program bad({"mcp"}, env_of(s), s.root + "/err2");
    CHECK(bad.finish() == 1);
    CHECK(bad.err().find("tools.json: ") != std::string::npos);
    write_text(s.root + "/tools.json", kTools);
    Program outside({"mcp", s.root + "/tools.json"}, {}, s.root + "/err3");
    CHECK(outside.finish() == 1);
    CHECK(outside.err().find("MOSAIC_RUN_DIR isn't set") != std::string::npos);
}

TEST_CASE("a turn's shell can use the server through pipes") {
    Scene s;
    write_text(s.run_directory + "/bundle/tools.json", kTools);
    s.adapter("printf '%s' '" + call("7", R"({"to":"pm","body":"hi"})") + "' | " + MOSAIC_RUNNER +
              " mcp\n");
    s.start();
    auto [broker, receive] = s.claimed();
    broker.ok(receive, delivery("m1", "x"));
    broker.ok(broker.expect("message.send"), id_result("m2"));
    CHECK(body_of(broker.expect("message.send")) == told("7", R"({"id":"m2"})") + "\n");
}
