#include "runner/gate.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include "base/utf8.h"
#include "process/files.h"
#include "process/write_all.h"
#include "runner/gate_path.h"
#include "runner/json_pointer.h"
#include "wire/limits.h"

namespace mosaic::runner {
namespace {

using json::Object;
using json::Reader;
using json::Value;

constexpr uint64_t kPolicyBytesMax = uint64_t{1024} * 1024;
// Arguments of tools of other servers may be nested; how deep is nobody's promise.
constexpr int kQuestionDepthMax = 64;
constexpr size_t kShownBytesMax = 300;
// What harnesses take for "blocked" when there is no answer.
constexpr int kExitBlocked = 2;

GateDecision denied(std::string reason) {
    return {false, std::move(reason)};
}

std::string shown(std::string_view text) {
    const bool cut = text.size() > kShownBytesMax;
    const std::string_view head = text.substr(0, kShownBytesMax);
    return escape_for_terminal(head.substr(0, valid_utf8_prefix(head))) + (cut ? "..." : "");
}

const Value* at(const Value& document, std::string_view pointer) {
    const Value* here = &document;
    for (const std::string& token : pointer_tokens(pointer)) {
        here = child_at(*here, token);
        if (here == nullptr) {
            break;
        }
    }
    return here;
}

// ---- the policy ----

std::map<std::string, GateTool> read_tools(Reader& r) {
    std::map<std::string, GateTool> out;
    const Value* tools = r.object("tools");
    if (tools == nullptr) {
        return out;
    }
    for (const json::Member& member : *tools->object()) {
        Reader t(member.second, r.where(), r.pointer_of("tools") + "/" + member.first);
        GateTool tool;
        tool.paths = t.strings("paths");
        tool.writes = t.boolean("writes");
        r.absorb(t.done());
        out.emplace(member.first, std::move(tool));
    }
    return out;
}

std::string read_pointer(Reader& r, std::string_view key) {
    std::string out = r.string(key);
    if (!out.starts_with('/')) {
        r.problem(key, "expected a JSON pointer");
    }
    return out;
}

// ---- deciding ----

// The strings of a path argument; nothing when it isn't one or several strings.
std::optional<std::vector<std::string>> strings_of(const Value& value) {
    if (value.string() != nullptr) {
        return std::vector<std::string>{*value.string()};
    }
    if (value.array() == nullptr) {
        return std::nullopt;
    }
    std::vector<std::string> out;
    for (const Value& one : *value.array()) {
        if (one.string() == nullptr) {
            return std::nullopt;
        }
        out.push_back(*one.string());
    }
    return out;
}

class Judge {
  public:
    Judge(const GatePolicy& policy, std::string_view home) : policy_(policy), home_(home) {}

    GateDecision decide(const std::string& name, const Value& input) {
        const auto& typed = policy_.typed;
        if (std::find(typed.begin(), typed.end(), name) != typed.end()) {
            return {true, ""};
        }
        const auto tool = policy_.tools.find(name);
        if (tool == policy_.tools.end()) {
            return denied("the tool " + shown(name) +
                          " isn't granted to this role; granted: " + granted());
        }
        if (tool->second.paths.empty()) {
            return {true, ""};
        }
        auto real = process::real_path(policy_.workspace);
        if (!real) {
            return denied("the workspace can't be found: " + real.error().text);
        }
        workspace_ = std::move(*real);
        return check_paths(name, tool->second, input);
    }

  private:
    [[nodiscard]] std::string granted() const {
        std::string out;
        for (const auto& [name, tool] : policy_.tools) {
            out += (out.empty() ? "" : ", ") + name;
        }
        for (const std::string& name : policy_.typed) {
            out += (out.empty() ? "" : ", ") + name;
        }
        return out.empty() ? "none" : out;
    }

    // An argument that isn't there means the workspace itself to those tools that allow it.
    [[nodiscard]] GateDecision check_paths(const std::string& name,
                                           const GateTool& tool,
                                           const Value& input) const {
        for (const std::string& argument : tool.paths) {
            const Value* const value = input.find(argument);
            if (value == nullptr) {
                continue;
            }
            const auto paths = strings_of(*value);
            if (!paths) {
                return denied(name + ": " + argument + " must be a path, found " + value->kind());
            }
            for (const std::string& path : *paths) {
                const std::string wrong = why_not(path, tool.writes);
                if (!wrong.empty()) {
                    return denied(name + ": " + argument + " \"" + shown(path) + "\" " + wrong);
                }
            }
        }
        return {true, ""};
    }

    // Empty: the path may be used.
    [[nodiscard]] std::string why_not(const std::string& path, bool writes) const {
        const auto places = places_of(path, {workspace_, home_});
        if (!places) {
            return places.error().text;
        }
        for (const std::string& place : *places) {
            if (!is_within(place, workspace_)) {
                return "leads to " + shown(place) + ", outside the workspace " + workspace_;
            }
            if (!writes) {
                continue;
            }
            for (const std::string& control : policy_.control_paths) {
                if (is_control(place, control)) {
                    return "would configure the harness (" + control +
                           "); this role may not write there";
                }
            }
        }
        return {};
    }

    // By its name, and where it leads if it is a link. One whose place can't be told is everywhere.
    [[nodiscard]] bool is_control(std::string_view place, const std::string& control) const {
        const std::string named = workspace_ + "/" + control;
        if (is_within(place, named)) {
            return true;
        }
        const auto real = places_of(named, {workspace_, home_});
        return !real || std::any_of(real->begin(), real->end(), [&](const std::string& one) {
            return is_within(place, one);
        });
    }

    const GatePolicy& policy_;
    std::string_view home_;
    std::string workspace_;  // real
};

// ---- the answer ----

void fill(std::string& text, std::string_view reason) {
    constexpr std::string_view kMark = "${reason}";
    for (size_t from = text.find(kMark); from != std::string::npos;
         from = text.find(kMark, from + reason.size())) {
        text.replace(from, kMark.size(), reason);
    }
}

// Iterative: how deep the document goes is the module's choice.
void fill_all(Value& document, std::string_view reason) {
    std::vector<Value*> left = {&document};
    while (!left.empty()) {
        Value* const here = left.back();
        left.pop_back();
        if (here->string() != nullptr) {
            fill(*here->string(), reason);
        } else if (here->array() != nullptr) {
            for (Value& one : *here->array()) {
                left.push_back(&one);
            }
        } else if (here->object() != nullptr) {
            for (json::Member& one : *here->object()) {
                left.push_back(&one.second);
            }
        }
    }
}

// ---- the program ----

int blocked(std::string_view why) {
    ignore(process::write_all(
               STDERR_FILENO, "denied: " + escape_for_terminal(why) + "\n", "standard error"),
           "the exit code says it too");
    return kExitBlocked;
}

// Nothing past the limit is kept; the rest is read all the same, so that the harness, which may
// still be writing, sees an answer and no broken pipe.
Result<std::string> read_question() {
    std::string out;
    bool over = false;
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): read fills it
    std::array<char, 65536> bytes;
    for (;;) {
        const ssize_t n = ::read(STDIN_FILENO, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return fail_sys(errno, "the question can't be read");
        }
        if (n == 0) {
            break;
        }
        over = over || out.size() + static_cast<size_t>(n) > kQuestionBytesMax;
        if (!over) {
            out.append(bytes.data(), static_cast<size_t>(n));
        }
    }
    if (over) {
        return fail(Code::too_large,
                    "the question is longer than " + std::to_string(kQuestionBytesMax) + " bytes");
    }
    return out;
}

Result<GatePolicy> load_policy(const char* file) {
    std::string path = file != nullptr ? file : "";
    if (path.empty()) {
        const char* const bundle = std::getenv("MOSAIC_BUNDLE");
        if (bundle == nullptr || *bundle == '\0') {
            return fail(Code::missing, "no gate.json: MOSAIC_BUNDLE isn't set");
        }
        path = std::string(bundle) + "/gate.json";
    }
    MOSAIC_TRY_ASSIGN(const std::string text, process::read_file(path, kPolicyBytesMax));
    return parse_gate_policy(text, path);
}

}  // namespace

Result<GatePolicy> parse_gate_policy(std::string_view text, const std::string& where) {
    const auto value = json::parse(text, {limits::kFileDepthMax});
    if (!value) {
        return fail(value.error().code, where + ": " + value.error().text);
    }
    Reader r(*value, where);
    GatePolicy out;
    out.workspace = r.string("workspace");
    if (!out.workspace.starts_with('/')) {
        r.problem("workspace", "expected an absolute path");
    }
    out.tool_pointer = read_pointer(r, "toolPointer");
    out.input_pointer = read_pointer(r, "inputPointer");
    if (const Value* allow = r.any("allow")) {
        out.allow = *allow;
    }
    if (const Value* deny = r.any("deny")) {
        out.deny = *deny;
    }
    out.tools = read_tools(r);
    out.typed = r.strings("typed");
    out.control_paths = r.strings("controlPaths");
    MOSAIC_TRY(r.done());
    return out;
}

GateDecision gate_decision(const GatePolicy& policy,
                           std::string_view question,
                           std::string_view home) {
    const auto document = json::parse(question, {kQuestionDepthMax});
    if (!document) {
        return denied("the question can't be read: " + document.error().text);
    }
    const Value* const tool = at(*document, policy.tool_pointer);
    if (tool == nullptr || tool->string() == nullptr) {
        return denied("the question names no tool at " + policy.tool_pointer);
    }
    const Value* const input = at(*document, policy.input_pointer);
    if (input == nullptr || input->object() == nullptr) {
        return denied("the question has no arguments at " + policy.input_pointer);
    }
    return Judge(policy, home).decide(*tool->string(), *input);
}

std::string gate_answer(const GatePolicy& policy, const GateDecision& decision) {
    Value out = decision.allowed ? policy.allow : policy.deny;
    if (!decision.allowed) {
        fill_all(out, decision.reason);
    }
    return json::dump(out);
}

int run_gate(const char* file) {
    const auto policy = load_policy(file);
    if (!policy) {
        return blocked(policy.error().text);
    }
    const auto question = read_question();
    const char* const home = std::getenv("HOME");
    const GateDecision decision =
        question ? gate_decision(*policy, *question, home != nullptr ? home : "")
                 : denied(question.error().text);
    const auto answered = process::write_all(
        STDOUT_FILENO, gate_answer(*policy, decision) + "\n", "the answer can't be written");
    if (!answered) {
        return blocked(answered.error().text);
    }
    return 0;
}

}  // namespace mosaic::runner
