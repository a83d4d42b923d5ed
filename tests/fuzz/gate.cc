// The question that a harness asks before it runs a tool: what a model wants to do. Input: the
// question; or, behind a first byte of '#', a gate.json.

#include "runner/gate.h"

#include "fuzz/fuzz.h"
#include "runner/gate_path.h"

namespace mosaic {
namespace {

constexpr const char* kPolicy = R"({
    "workspace": "/usr/share",
    "toolPointer": "/tool_name", "inputPointer": "/tool_input",
    "allow": {"decision": "allow"}, "deny": {"decision": "deny", "reason": "${reason}"},
    "tools": {"Read": {"paths": ["file_path"], "writes": false},
              "Write": {"paths": ["file_path"], "writes": true}},
    "typed": ["mcp__mosaic__launch"], "controlPaths": [".claude"]})";

// Allowed means: a granted tool, and a path that leads into the workspace.
void check_allowed(std::string_view question, const runner::GatePolicy& policy) {
    const auto value = json::parse(question, {64});
    FUZZ_CHECK(value);
    const json::Value* tool = value->find("tool_name");
    FUZZ_CHECK(tool != nullptr && tool->string() != nullptr);
    if (*tool->string() == "mcp__mosaic__launch") {
        return;
    }
    FUZZ_CHECK(policy.tools.contains(*tool->string()));
    const json::Value* input = value->find("tool_input");
    FUZZ_CHECK(input != nullptr && input->object() != nullptr);
    const json::Value* path = input->find("file_path");
    if (path == nullptr) {
        return;  // the harness's own default: nothing was named
    }
    // One path, or several.
    json::Array paths = path->array() != nullptr ? *path->array() : json::Array{*path};
    for (const json::Value& one : paths) {
        FUZZ_CHECK(one.string() != nullptr);
        const auto places = runner::places_of(*one.string(), {"/usr/share", "/nowhere"});
        FUZZ_CHECK(places && !places->empty());
        for (const std::string& place : *places) {
            FUZZ_CHECK(place == "/usr/share" || place.starts_with("/usr/share/"));
            FUZZ_CHECK(place.find("/../") == std::string::npos && !place.ends_with("/.."));
        }
    }
}

void check_answer(const runner::GatePolicy& policy, const runner::GateDecision& decision) {
    FUZZ_CHECK(decision.allowed || !decision.reason.empty());
    const std::string answer = runner::gate_answer(policy, decision);
    FUZZ_CHECK(answer.find('\n') == std::string::npos);
}

}  // namespace
}  // namespace mosaic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace mosaic;
    const std::string_view text = fuzz::text_of(data, size);
    static const auto kParsed = runner::parse_gate_policy(kPolicy, "gate.json");
    FUZZ_CHECK(kParsed);
    if (text.starts_with('#')) {
        const auto policy = runner::parse_gate_policy(text.substr(1), "gate.json");
        if (!policy) {
            FUZZ_CHECK(policy.error().text.starts_with("gate.json"));
            return 0;
        }
        check_answer(*policy, runner::gate_decision(*policy, "{}", "/nowhere"));
        return 0;
    }
    const runner::GateDecision decision = runner::gate_decision(*kParsed, text, "/nowhere");
    check_answer(*kParsed, decision);
    FUZZ_CHECK(decision == runner::gate_decision(*kParsed, text, "/nowhere"));
    if (decision.allowed) {
        check_allowed(text, *kParsed);
    }
    return 0;
}
