#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "wire/json.h"

// The gate: a harness asks it before it runs a tool. One implementation for all harnesses; what
// differs between them (where the question has the tool's name, what the answers look like) is data
// of the module, in the bundle's gate.json.
//
// It fails closed: a question that can't be read or decided is denied, and a gate that has no
// policy to answer by exits 2 with the reason on standard error, which harnesses take for a denial.

namespace mosaic::runner {

struct GateTool {
    std::vector<std::string> paths;  // names of arguments that are paths
    bool writes = false;
};

// gate.json.
struct GatePolicy {
    std::string workspace;  // absolute
    std::string tool_pointer;
    std::string input_pointer;
    json::Value allow;
    json::Value deny;
    std::map<std::string, GateTool> tools;   // granted, by the harness's names
    std::vector<std::string> typed;          // granted, by the harness's names
    std::vector<std::string> control_paths;  // below the workspace; not to be written
};

// `where` is what an error starts with.
[[nodiscard]] Result<GatePolicy> parse_gate_policy(std::string_view text, const std::string& where);

struct GateDecision {
    bool allowed = false;
    std::string reason;  // of a denial, for the model: what was wrong and what would be right

    bool operator==(const GateDecision&) const = default;
};

// Pure apart from looking where paths lead. `question` is the harness's JSON; `home` what "~"
// means.
[[nodiscard]] GateDecision gate_decision(const GatePolicy& policy,
                                         std::string_view question,
                                         std::string_view home);

// The module's document for this decision, on one line without a newline.
[[nodiscard]] std::string gate_answer(const GatePolicy& policy, const GateDecision& decision);

// A question past this is denied. Whole files travel in them.
constexpr size_t kQuestionBytesMax = size_t{8} * 1024 * 1024;

// `mosaic-runner gate [FILE]`: FILE is gate.json, else the one in $MOSAIC_BUNDLE. Reads the
// question from standard input to its end, prints the answer, returns 0; 2 when it can't answer.
[[nodiscard]] int run_gate(const char* file);

}  // namespace mosaic::runner
