// harness.json: its keys, their forms, and what fits together.

#include <algorithm>
#include <array>

#include "base/ids.h"
#include "harness/module.h"
#include "wire/environment_rules.h"
#include "wire/limits.h"
#include "wire/typed_tools.h"

namespace mosaic::harness {
namespace {

using json::Array;
using json::Member;
using json::Object;
using json::Reader;
using json::Value;

constexpr int64_t kGateTimeoutMsMax = 600'000;

template <class Range>
bool holds(const Range& words, std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

// "adapter.sh", "lib/x.mjs": segments of letters, digits, '.', '_' and '-', none of them ".." or
// ".".
bool is_relative_path(std::string_view path) {
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '_' || c == '-';
    };
    if (path.empty() || path.size() > 255) {
        return false;
    }
    size_t start = 0;
    while (start <= path.size()) {
        const size_t slash = std::min(path.find('/', start), path.size());
        const std::string_view part = path.substr(start, slash - start);
        if (part.empty() || part == "." || part == ".." ||
            !std::all_of(part.begin(), part.end(), allowed)) {
            return false;
        }
        start = slash + 1;
    }
    return true;
}

bool is_segment(std::string_view name) {
    return is_relative_path(name) && name.find('/') == std::string_view::npos;
}

bool is_text(std::string_view text) {
    return !text.empty() && std::none_of(text.begin(), text.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    });
}

void check_each(Reader& r,
                std::string_view key,
                const std::vector<std::string>& list,
                bool (*good)(std::string_view),
                const char* expected) {
    for (size_t i = 0; i < list.size(); ++i) {
        if (!good(list[i])) {
            r.problem_in(key, i, expected);
        }
    }
}

std::vector<std::string> read_each(Reader& r,
                                   std::string_view key,
                                   bool (*good)(std::string_view),
                                   const char* expected) {
    std::vector<std::string> out = r.strings_or_none(key);
    check_each(r, key, out, good, expected);
    return out;
}

// A variable that a session may get.
bool is_passable(std::string_view name) {
    return wire::is_variable_name(name) && !wire::is_forbidden_variable(name);
}

constexpr const char* kVariableHelp = "expected the name of a variable that a session may have";

Template read_template(Reader& r, std::string_view key, const std::string& text) {
    Result<Template> parsed = Template::parse(text, "template");
    if (!parsed) {
        r.problem(key, parsed.error().text);
        return {};
    }
    return std::move(*parsed);
}

// ---- the keys ----

void read_thinking(Reader& r, Module& out) {
    const Value* value = r.object("thinking");
    if (value == nullptr) {
        return;
    }
    Reader t(*value, r.where(), r.pointer_of("thinking"));
    for (const Member& member : *value->object()) {
        out.thinking.emplace(member.first, t.string(member.first));
        if (!is_text(member.first)) {
            t.problem(member.first, "expected a level's name");
        }
    }
    r.absorb(t.done());
    if (out.thinking.empty()) {
        r.problem("thinking", "expected at least one level");
    }
}

Provider read_provider(Reader& parent, std::string_view key, const Value& value) {
    Provider out;
    Reader p(value, parent.where(), parent.pointer_of(key));
    if (const Value* sets = p.array_or_none("credentials")) {
        for (const Value& set : *sets->array()) {
            CredentialSet names;
            const Array* elements = set.array();
            for (const Value& element : elements == nullptr ? Array{} : *elements) {
                const std::string* name = element.string();
                if (name != nullptr && is_passable(*name)) {
                    names.push_back(*name);
                }
            }
            if (elements == nullptr || names.empty() || names.size() != elements->size()) {
                p.problem_in("credentials",
                             out.credentials.size(),
                             "expected a non-empty array of names of variables that a session may "
                             "have");
            }
            out.credentials.push_back(std::move(names));
        }
    }
    out.variables = read_each(p, "variables", is_passable, kVariableHelp);
    parent.absorb(p.done());
    return out;
}

void read_providers(Reader& r, Module& out) {
    if (const Value* value = r.object_or_none("providers")) {
        Reader p(*value, r.where(), r.pointer_of("providers"));
        for (const Member& member : *value->object()) {
            ignore(p.any(member.first), "read_provider judges it");
            if (!is_text(member.first)) {
                p.problem(member.first, "expected a provider's name");
            }
            out.providers.emplace(member.first, read_provider(p, member.first, member.second));
        }
        r.absorb(p.done());
    }
    if (const Value* any = r.object_or_none("anyProvider")) {
        out.any_provider = read_provider(r, "anyProvider", *any);
    }
    if (out.providers.empty() && !out.any_provider) {
        r.problem("providers", "expected at least one provider, here or as anyProvider");
    }
}

Program read_program_members(Reader& p, bool with_version) {
    Program out;
    out.variable = p.string_or("variable", "");
    if (!out.variable.empty() && !wire::is_variable_name(out.variable)) {
        p.problem("variable", "expected a variable's name");
    }
    out.names = read_each(p, "names", is_segment, "expected a file's name to look up in PATH");
    if (out.variable.empty() && out.names.empty()) {
        p.problem("names", "expected a name to look up, or a variable");
    }
    out.native = p.boolean_or("native", false);
    if (with_version) {
        out.version_args = read_each(p, "versionArgs", is_text, "expected an argument");
        out.interpreter = p.id_or("interpreter", "");
    }
    return out;
}

void read_programs(Reader& r, Module& out) {
    const Value* program = r.any_or_none("program");
    if (program != nullptr && !program->is_null()) {
        Reader p(*program, r.where(), r.pointer_of("program"));
        out.program = read_program_members(p, true);
        out.program->name = out.name;
        r.absorb(p.done());
    }
    if (const Value* helpers = r.array_or_none("helpers")) {
        for (const Value& value : *helpers->array()) {
            Reader h(value,
                     r.where(),
                     r.pointer_of("helpers") + "/" + std::to_string(out.helpers.size()));
            std::string name = h.id("name");
            Program helper = read_program_members(h, false);
            helper.name = std::move(name);
            out.helpers.push_back(std::move(helper));
            r.absorb(h.done());
        }
    }
    const std::string interpreter = out.program ? out.program->interpreter : "";
    const bool is_helper = std::any_of(out.helpers.begin(),
                                       out.helpers.end(),
                                       [&](const Program& p) { return p.name == interpreter; });
    if (!interpreter.empty() && !is_helper) {
        r.problem("program", "expected the name of a helper as its interpreter");
    }
}

void read_mounts(Reader& r, Module& out) {
    const Value* mounts = r.array_or_none("mounts");
    if (mounts == nullptr) {
        return;
    }
    for (const Value& value : *mounts->array()) {
        Reader m(
            value, r.where(), r.pointer_of("mounts") + "/" + std::to_string(out.mounts.size()));
        Mount mount;
        const std::string path = m.string("path");
        mount.path = read_template(m, "path", path);
        if (!path.starts_with('/') && !path.starts_with("${")) {
            m.problem("path", "expected an absolute path or one that begins with a placeholder");
        }
        mount.reason = m.string("reason");
        if (!is_text(mount.reason)) {
            m.problem("reason", "expected the reason in a few words");
        }
        mount.optional = m.boolean_or("optional", false);
        out.mounts.push_back(std::move(mount));
        r.absorb(m.done());
    }
}

void read_built_in(Reader& tools, Module& out) {
    const Value* value = tools.object_or_none("builtIn");
    if (value == nullptr) {
        return;
    }
    Reader b(*value, tools.where(), tools.pointer_of("builtIn"));
    for (const Member& member : *value->object()) {
        ignore(b.any(member.first), "judged below");
        Reader t(member.second, b.where(), b.pointer_of(member.first));
        BuiltInTool tool;
        tool.names = t.strings("names");
        check_each(t, "names", tool.names, is_text, "expected a tool's name");
        tool.paths = read_each(t, "paths", is_text, "expected an argument's name");
        tool.writes = t.boolean_or("writes", false);
        tool.shell = t.boolean_or("shell", false);
        b.absorb(t.done());
        out.tools.emplace(member.first, std::move(tool));
    }
    tools.absorb(b.done());
}

void read_tools(Reader& r, Module& out) {
    const Value* value = r.object_or_none("tools");
    if (value == nullptr) {
        return;
    }
    Reader t(*value, r.where(), r.pointer_of("tools"));
    read_built_in(t, out);
    out.typed = read_each(t, "typed", wire::is_typed_tool, "expected a typed tool's name");
    out.typed_prefix = t.string_or("typedPrefix", "");
    r.absorb(t.done());
}

void read_gate(Reader& r, Module& out) {
    out.gate_timeout_ms =
        r.integer_or("gateTimeoutMs", 100, kGateTimeoutMsMax, out.gate_timeout_ms);
    const Value* value = r.object_or_none("gate");
    if (value == nullptr) {
        return;
    }
    Reader g(*value, r.where(), r.pointer_of("gate"));
    Gate gate;
    gate.tool = g.string("tool");
    gate.input = g.string("input");
    if (!gate.tool.starts_with('/')) {
        g.problem("tool", "expected a JSON pointer");
    }
    if (!gate.input.starts_with('/')) {
        g.problem("input", "expected a JSON pointer");
    }
    if (const Value* allow = g.any("allow")) {
        gate.allow = *allow;
    }
    if (const Value* deny = g.any("deny")) {
        gate.deny = *deny;
    }
    r.absorb(g.done());
    out.gate = std::move(gate);
}

void read_bundle_files(Reader& r, ParsedModule& out) {
    constexpr std::array<std::string_view, 5> kOurs = {
        "manifest.json", "prompt.md", "policy.json", "tools.json", "gate.json"};
    const Value* value = r.object_or_none("bundleFiles");
    if (value == nullptr) {
        return;
    }
    Reader b(*value, r.where(), r.pointer_of("bundleFiles"));
    for (const Member& member : *value->object()) {
        const std::string source = b.string(member.first);
        if (!is_segment(member.first) || holds(kOurs, member.first)) {
            b.problem(member.first, "expected a file's name that isn't one of the bundle's own");
        }
        if (!is_relative_path(source)) {
            b.problem(member.first, "expected the path of its template in the module");
        }
        out.module.bundle_files.push_back(BundleFile{member.first, {}});
        out.bundle_sources.push_back(source);
    }
    r.absorb(b.done());
}

void read_environment(Reader& r, Module& out) {
    const Value* value = r.object_or_none("environment");
    if (value == nullptr) {
        return;
    }
    Reader e(*value, r.where(), r.pointer_of("environment"));
    for (const Member& member : *value->object()) {
        const std::string text = e.string(member.first);
        if (!is_passable(member.first)) {
            e.problem(member.first, kVariableHelp);
        }
        out.environment.emplace(member.first, read_template(e, member.first, text));
    }
    r.absorb(e.done());
}

void read_turn(Reader& r, Module& out) {
    const std::string end = r.string("turnEnd");
    if (end != "exit" && end != "marker") {
        r.problem("turnEnd", "expected exit or marker");
    }
    out.turn_end = end == "marker" ? wire::TurnEnd::marker : wire::TurnEnd::exit;
    const std::string input = r.string("turnInput");
    if (input != "none" && input != "body") {
        r.problem("turnInput", "expected none or body");
    }
    out.turn_input = input == "body" ? wire::TurnInput::body : wire::TurnInput::none;
    out.transcript = read_template(r, "transcript", r.string_or("transcript", ""));
}

void read_requires(Reader& r, Module& out) {
    out.required_vars = r.strings_or_none("requires");
    for (size_t i = 0; i < out.required_vars.size(); ++i) {
        if (!out.required_vars[i].starts_with(out.name + ".")) {
            r.problem_in(
                "requires", i, "expected one of the module's own vars, " + out.name + ".<key>");
        }
    }
}

void check_placeholders(Reader& r, const Module& module) {
    for (const Mount& mount : module.mounts) {
        if (const std::string wrong = unknown_placeholder(module, mount.path); !wrong.empty()) {
            r.problem("mounts", wrong);
        }
    }
    for (const auto& [name, text] : module.environment) {
        if (const std::string wrong = unknown_placeholder(module, text); !wrong.empty()) {
            r.problem("environment", name + ": " + wrong);
        }
    }
    if (const std::string wrong = unknown_placeholder(module, module.transcript); !wrong.empty()) {
        r.problem("transcript", wrong);
    }
}

}  // namespace

const std::vector<std::string>& placeholder_names() {
    static const std::vector<std::string> kNames = {"business",      "instance",
                                                    "thread",        "run",
                                                    "human",         "provider",
                                                    "model",         "thinking",
                                                    "workspace",     "workspaceDashed",
                                                    "runDir",        "bundle",
                                                    "home",          "tmp",
                                                    "sessionDir",    "sessionUuid",
                                                    "module",        "runner",
                                                    "program",       "programFound",
                                                    "builtIn",       "builtInJson",
                                                    "typed",         "typedJson",
                                                    "tools",         "toolsJson",
                                                    "gateTimeoutMs", "gateTimeoutSeconds"};
    return kNames;
}

std::string unknown_placeholder(const Module& module, const Template& text) {
    const auto is_known = [&](const std::string& name) {
        const size_t colon = name.find(':');
        if (colon == std::string::npos) {
            return holds(placeholder_names(), name);
        }
        const std::string kind = name.substr(0, colon);
        const std::string rest = name.substr(colon + 1);
        if (kind == "thread") {
            return holds(module.thread_directories, rest);
        }
        if (kind == "helper") {
            return std::any_of(module.helpers.begin(), module.helpers.end(), [&](const Program& p) {
                return p.name == rest;
            });
        }
        return kind == "programAncestor" && module.program && is_segment(rest);
    };
    for (const std::string& name : text.names()) {
        if (!is_known(name)) {
            return "unknown placeholder ${" + name + "}";
        }
    }
    return {};
}

Result<ParsedModule> parse_module(std::string_view text, const std::string& path) {
    const Result<Value> value =
        json::parse(text, json::ParseOptions{.depth_max = limits::kFileDepthMax});
    if (!value) {
        return fail(value.error().code, path + ": " + value.error().text);
    }
    ParsedModule out;
    Module& module = out.module;
    Reader r(*value, path);
    // Another interface has other keys, so this comes before everything.
    if (const int64_t interface = r.integer("interface", 1, 1'000'000); interface != kInterface) {
        return fail(Code::invalid,
                    path + ": /interface: expected 1, found " + std::to_string(interface));
    }
    module.name = r.id("name");
    module.adapter = r.string("adapter");
    if (!is_relative_path(module.adapter)) {
        r.problem("adapter", "expected the path of a file in the module");
    }
    out.file_names =
        read_each(r, "files", is_relative_path, "expected the path of a file in the module");
    if (!holds(out.file_names, module.adapter)) {
        out.file_names.push_back(module.adapter);
    }
    read_thinking(r, module);
    read_providers(r, module);
    read_programs(r, module);
    module.thread_directories = read_each(
        r,
        "threadDirectories",
        [](std::string_view name) { return is_segment(name) && name != "session"; },
        "expected a directory's name other than session");
    read_mounts(r, module);
    read_tools(r, module);
    read_gate(r, module);
    read_bundle_files(r, out);
    read_environment(r, module);
    module.control_paths =
        read_each(r, "controlPaths", is_relative_path, "expected a path relative to a workspace");
    module.account = r.boolean_or("account", false);
    read_turn(r, module);
    read_requires(r, module);
    check_placeholders(r, module);
    MOSAIC_TRY(r.done());
    return out;
}

}  // namespace mosaic::harness
