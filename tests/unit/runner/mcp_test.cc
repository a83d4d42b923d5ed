// Goal: what each line of an MCP client is answered with, without any process.

#include "runner/mcp.h"

#include <doctest/doctest.h>

#include "wire/limits.h"

using namespace mosaic;
using namespace mosaic::runner;

namespace {

McpOffer offer() {
    auto tools = parse_mcp_tools(
        R"([{"name":"launch","description":"Starts.","parameters":{"type":"object"}},)"
        R"({"name":"task_list","description":"Lists.","parameters":{"type":"object"}}])",
        "tools.json");
    REQUIRE(tools.has_value());
    return {std::move(*tools), "1.2.3"};
}

std::string answer(const std::string& line) {
    const McpStep step = take_mcp_line(line, offer());
    REQUIRE_MESSAGE(std::holds_alternative<McpAnswer>(step), line);
    return std::get<McpAnswer>(step).line;
}

// With id 1 and the method's params.
std::string ask(const std::string& method, const std::string& params) {
    return answer(R"({"jsonrpc":"2.0","id":1,"method":")" + method + R"(","params":)" + params +
                  "}");
}

McpCall call(const std::string& line) {
    McpStep step = take_mcp_line(line, offer());
    REQUIRE(std::holds_alternative<McpCall>(step));
    return std::get<McpCall>(std::move(step));
}

}  // namespace

TEST_CASE("initialize answers the version that the client asked for when it is known") {
    for (const char* version : {"2025-11-25", "2025-06-18", "2024-11-05"}) {
        CHECK(
            ask("initialize",
                std::string(R"({"protocolVersion":")") + version +
                    R"(","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}})") ==
            std::string(R"({"jsonrpc":"2.0","id":1,"result":{"protocolVersion":")") + version +
                R"(","capabilities":{"tools":{}},)"
                R"("serverInfo":{"name":"mosaic","version":"1.2.3"}}})"
                "\n");
    }
    CHECK(ask("initialize", R"({"protocolVersion":"2099-01-01"})")
              .find(R"("protocolVersion":"2025-11-25")") != std::string::npos);
    CHECK(ask("initialize", "{}").find("-32602") != std::string::npos);
}

TEST_CASE("a probe for another protocol is answered with its own id") {
    CHECK(answer(R"({"jsonrpc":"2.0","id":"probe-1","method":"server/discover",)"
                 R"("params":{"_meta":{"protocolVersion":"2026-07-28"}}})") ==
          R"({"jsonrpc":"2.0","id":"probe-1","error":{"code":-32601,)"
          R"("message":"no method server/discover"}})"
          "\n");
    CHECK(ask("resources/list", "{}").find("-32601") != std::string::npos);
}

TEST_CASE("notifications and answers get no answer, whatever they are") {
    for (const char* line : {R"({"jsonrpc":"2.0","method":"notifications/initialized"})",
                             R"({"jsonrpc":"2.0","method":"tools/list"})",
                             R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{}})",
                             R"({"jsonrpc":"2.0","method":"notifications/unheard-of","params":1})",
                             R"({"jsonrpc":"2.0","id":5,"result":{}})",
                             R"({"jsonrpc":"2.0","id":5,"error":{}})"}) {
        CHECK(answer(line).empty());
    }
    CHECK(answer(R"({"jsonrpc":"2.0","id":0,"method":"ping"})") ==
          "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n");
}

TEST_CASE("what is no request is answered with what is wrong") {
    CHECK(answer("{").find(R"("id":null,"error":{"code":-32700)") != std::string::npos);
    for (const char* line : {"[]",
                             "1",
                             "{}",
                             R"({"id":1})",
                             R"({"id":1,"method":2})",
                             R"([{"jsonrpc":"2.0","id":1,"method":"ping"}])",
                             R"({"id":null,"method":"ping"})",
                             R"({"id":[],"method":"ping"})"}) {
        CAPTURE(line);
        CHECK(answer(line).find(R"("id":null,"error":{"code":-32600)") != std::string::npos);
    }
    CHECK(ask("tools/call", "{}").find("-32602") != std::string::npos);
    CHECK(ask("tools/call", "[]").find("-32602") != std::string::npos);
    CHECK(ask("tools/call", R"({"name":"launch","arguments":[1]})").find("-32602") !=
          std::string::npos);
}

TEST_CASE("the tools are those of the bundle, with their schemas") {
    CHECK(ask("tools/list", "{}") ==
          R"({"jsonrpc":"2.0","id":1,"result":{"tools":[)"
          R"({"name":"launch","description":"Starts.","inputSchema":{"type":"object"}},)"
          R"({"name":"task_list","description":"Lists.","inputSchema":{"type":"object"}}]}})"
          "\n");
}

TEST_CASE("a call becomes a line for the session and its reply the call's result") {
    const McpCall made =
        call(R"({"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"launch",)"
             R"("arguments":{"instance":"coder"},"_meta":{"progressToken":2,"more":{"a":[1]}}}})");
    CHECK(made.line == "{\"tool\":\"launch\",\"args\":{\"instance\":\"coder\"}}\n");
    CHECK(made.id == json::Value("x"));
    CHECK(mcp_called(made.id, R"({"ok":true,"result":{"run":"r"}})") ==
          R"({"jsonrpc":"2.0","id":"x","result":{"content":[{"type":"text",)"
          R"("text":"{\"run\":\"r\"}"}]}})"
          "\n");
    const std::string refused = R"({"jsonrpc":"2.0","id":"x","result":{"content":[{"type":"text",)"
                                R"("text":"instance-running"}],"isError":true}})"
                                "\n";
    CHECK(mcp_called(made.id, R"({"ok":false,"error":"instance-running"})") == refused);
    CHECK(mcp_called(made.id, "nonsense").find("\"isError\":true") != std::string::npos);
    CHECK(call(R"({"id":2,"method":"tools/call","params":{"name":"task_list"}})").line ==
          "{\"tool\":\"task_list\",\"args\":{}}\n");
    CHECK(call(R"({"id":2,"method":"tools/call","params":{"name":"task_list","arguments":null}})")
              .line == "{\"tool\":\"task_list\",\"args\":{}}\n");
}

TEST_CASE("a call that can't be made is an error of the tool, for the model") {
    CHECK(ask("tools/call", R"({"name":"nope","arguments":{}})") ==
          R"({"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":)"
          R"("there is no tool nope in this session; there are: launch, task_list"}],)"
          R"("isError":true}})"
          "\n");
    const std::string big = ask("tools/call",
                                R"({"name":"launch","arguments":{"instance":")" +
                                    std::string(limits::kToolLineBytesMax, 'x') + "\"}}");
    CHECK(big.find("the arguments are too long") != std::string::npos);
    CHECK(big.find("\"isError\":true") != std::string::npos);
}

TEST_CASE("a cancelled call is named by the id of its request") {
    const McpStep step = take_mcp_line(
        R"({"method":"notifications/cancelled","params":{"requestId":"x","reason":"r"}})", offer());
    REQUIRE(std::holds_alternative<McpCancel>(step));
    CHECK(std::get<McpCancel>(step).id == json::Value("x"));
}

TEST_CASE("a list of tools of another shape is refused with the place") {
    for (const char* bad : {"{}",
                            "[1]",
                            R"([{"name":"a","description":"d"}])",
                            R"([{"name":"a","description":"d","parameters":[]}])",
                            R"([{"name":"a","description":"d","parameters":{},"more":1}])"}) {
        CAPTURE(bad);
        const auto parsed = parse_mcp_tools(bad, "tools.json");
        REQUIRE_FALSE(parsed.has_value());
        CHECK(parsed.error().text.starts_with("tools.json: "));
    }
}
