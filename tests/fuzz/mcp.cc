// Lines of an MCP client, which is a model's harness, and of what tools.sock answers.

#include "runner/mcp.h"

#include "fuzz/fuzz.h"
#include "runner/tool_call.h"
#include "wire/limits.h"

namespace mosaic {
namespace {

// Nothing, or one JSON-RPC 2.0 object on one line.
void check_answer(const std::string& line) {
    if (line.empty()) {
        return;
    }
    FUZZ_CHECK(line.back() == '\n' && line.find('\n') == line.size() - 1);
    const auto value = json::parse(line, {80});
    FUZZ_CHECK(value && value->object() != nullptr);
    const json::Value* version = value->find("jsonrpc");
    FUZZ_CHECK(version != nullptr && *version == json::Value("2.0"));
    FUZZ_CHECK(value->find("id") != nullptr);
    FUZZ_CHECK((value->find("result") != nullptr) != (value->find("error") != nullptr));
}

void check_step(const runner::McpStep& step) {
    if (const auto* answer = std::get_if<runner::McpAnswer>(&step)) {
        check_answer(answer->line);
    } else if (const auto* call = std::get_if<runner::McpCall>(&step)) {
        FUZZ_CHECK(call->line.size() <= limits::kToolLineBytesMax + 1);
        FUZZ_CHECK(call->line.find('\n') == call->line.size() - 1);
        check_answer(runner::mcp_failed(call->id, "gone"));
    }
}

}  // namespace
}  // namespace mosaic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace mosaic;
    const std::string_view text = fuzz::text_of(data, size);
    static const runner::McpOffer kOffer = {
        {{"launch", "Launches.", json::Value(json::Object{{"type", "object"}})},
         {"message_send", "Sends.", json::Value(json::Object{{"type", "object"}})}},
        "1"};
    check_step(runner::take_mcp_line(text, kOffer));
    check_answer(runner::mcp_called(json::Value(1), text));
    check_answer(runner::mcp_failed(json::Value("x"), text));
    check_answer(runner::mcp_unreadable(text));
    if (const auto tools = runner::parse_mcp_tools(text, "tools.json"); tools) {
        const runner::McpOffer offer = {*tools, "1"};
        check_step(
            runner::take_mcp_line(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})", offer));
    }
    return 0;
}
