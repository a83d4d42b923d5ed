// Goal: harness.json means one thing, and only files that nobody else can change become part of a
// session. Method: documents by exact error, and real directories below the build directory.

#include "harness/module.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "scratch.h"

using mosaic::Code;
using mosaic::config::SystemConfig;
using mosaic::harness::BuiltInTool;
using mosaic::harness::load_module;
using mosaic::harness::load_modules;
using mosaic::harness::Module;
using mosaic::harness::parse_module;
using mosaic::harness::Program;
using mosaic::harness::Provider;
using mosaic::harness::StagedFile;
using mosaic::harness::Template;

namespace {

const std::string kPath = "/m/agent/harness.json";

const std::string kFull = R"({
  "interface": 1, "name": "agent", "adapter": "adapter.sh", "files": ["lib/x.mjs"],
  "thinking": {"off": "", "high": "deep"},
  "providers": {"acme": {"credentials": [["TOKEN"], ["KEY", "URL"]], "variables": ["EXTRA"]},
                "local": {}},
  "anyProvider": {"variables": ["ANY_URL"]},
  "program": {"variable": "AGENT_BIN", "names": ["agent", "agent2"], "versionArgs": ["--version"],
              "interpreter": "node"},
  "helpers": [{"name": "node", "variable": "NODE_BIN", "names": ["node"]}],
  "mounts": [{"path": "${programAncestor:lib}", "reason": "its libraries", "optional": true},
             {"path": "/opt/data", "reason": "its data"}],
  "tools": {"builtIn": {"bash": {"names": ["Bash"], "shell": true},
                        "edit": {"names": ["Edit", "Write"],
                                "paths": ["file_path"], "writes": true}},
            "typed": ["launch", "message_send"], "typedPrefix": "mcp__mosaic__"},
  "gate": {"tool": "/tool_name", "input": "/tool_input", "allow": {"ok": true},
           "deny": {"ok": false, "why": "${reason}"}},
  "gateTimeoutMs": 5500,
  "bundleFiles": {"settings.json": "settings.json.in"},
  "environment": {"AGENT_HOME": "${thread:state}", "AGENT_TOOLS": "${builtIn}", "PRICE": "$$5"},
  "controlPaths": [".agent", ".agent.json"],
  "account": true, "threadDirectories": ["state"], "turnEnd": "marker", "turnInput": "none",
  "transcript": "${sessionDir}/log.jsonl", "requires": ["agent.key"] })";

// The smallest module, with `more` behind it ("," included).
std::string minimal(const std::string& more = "") {
    return R"({"interface":1,"name":"agent","adapter":"adapter.sh","thinking":{"off":"off"},)"
           R"("anyProvider":{},"turnEnd":"exit","turnInput":"body")" +
           more + "}";
}

std::string error_of(const std::string& text) {
    const auto parsed = parse_module(text, kPath);
    return parsed ? "no error" : parsed.error().text;
}

Template text(const std::string& source) {
    return Template::parse(source, "test").value();
}

}  // namespace

TEST_CASE("a full harness.json is read into every field") {
    const auto parsed = parse_module(kFull, kPath);
    REQUIRE_MESSAGE(parsed.has_value(), (parsed ? "" : parsed.error().text));
    Module expected;
    expected.name = "agent";
    expected.adapter = "adapter.sh";
    expected.thinking = {{"high", "deep"}, {"off", ""}};
    expected.providers = {{"acme", Provider{{{"TOKEN"}, {"KEY", "URL"}}, {"EXTRA"}}},
                          {"local", Provider{}}};
    expected.any_provider = Provider{{}, {"ANY_URL"}};
    expected.program = Program{"agent", "AGENT_BIN", {"agent", "agent2"}, {"--version"}};
    expected.program->interpreter = "node";
    expected.helpers = {Program{"node", "NODE_BIN", {"node"}, {}}};
    expected.mounts = {{text("${programAncestor:lib}"), "its libraries", true},
                       {text("/opt/data"), "its data", false}};
    expected.tools = {{"bash", BuiltInTool{{"Bash"}, {}, false, true}},
                      {"edit", BuiltInTool{{"Edit", "Write"}, {"file_path"}, true, false}}};
    expected.typed = {"launch", "message_send"};
    expected.typed_prefix = "mcp__mosaic__";
    expected.gate =
        mosaic::harness::Gate{"/tool_name",
                              "/tool_input",
                              mosaic::json::Object{{"ok", true}},
                              mosaic::json::Object{{"ok", false}, {"why", "${reason}"}}};
    expected.gate_timeout_ms = 5500;
    expected.bundle_files = {{"settings.json", {}}};
    expected.environment = {{"AGENT_HOME", text("${thread:state}")},
                            {"AGENT_TOOLS", text("${builtIn}")},
                            {"PRICE", text("$$5")}};
    expected.control_paths = {".agent", ".agent.json"};
    expected.account = true;
    expected.thread_directories = {"state"};
    expected.turn_end = mosaic::wire::TurnEnd::marker;
    expected.turn_input = mosaic::wire::TurnInput::none;
    expected.transcript = text("${sessionDir}/log.jsonl");
    expected.required_vars = {"agent.key"};
    CHECK(parsed->module == expected);
    CHECK(parsed->bundle_sources == std::vector<std::string>{"settings.json.in"});
    CHECK(parsed->file_names == std::vector<std::string>{"lib/x.mjs", "adapter.sh"});
}

TEST_CASE("bad module documents are refused with file, pointer and expectation") {
    REQUIRE(error_of(minimal()) == "no error");
    const std::string variable = "expected the name of a variable that a session may have";
    const std::vector<std::pair<std::string, std::string>> table = {
        {"[]", "expected an object, found an array"},
        {R"({"interface":2,"newKey":1})", "/interface: expected 1, found 2"},
        {R"({"name":"agent"})", "/interface: is missing; expected an integer"},
        {minimal(R"(,"x":1)"), "/x: unknown key"},
        {minimal(R"(,"files":["../x"])"), "/files/0: expected the path of a file in the module"},
        {minimal(R"(,"files":["/x"])"), "/files/0: expected the path of a file in the module"},
        {minimal(R"(,"files":["a//b"])"), "/files/0: expected the path of a file in the module"},
        {minimal(R"(,"providers":{"p":{"credentials":[[]]}})"),
         "/providers/p/credentials/0: expected a non-empty array of names of variables that a "
         "session may have"},
        {minimal(R"(,"providers":{"p":{"credentials":[["A"],["GITHUB_TOKEN"]]}})"),
         "/providers/p/credentials/1: expected a non-empty array of names of variables that a "
         "session may have"},
        {minimal(R"(,"providers":{"p":{"variables":["AWS_REGION"]}})"),
         "/providers/p/variables/0: " + variable},
        {minimal(R"(,"providers":{"p":{"credential":[]}})"),
         "/providers/p/credential: unknown key"},
        {minimal(R"(,"program":{})"), "/program/names: expected a name to look up, or a variable"},
        {minimal(R"(,"program":{"names":["bin/x"]})"),
         "/program/names/0: expected a file's name to look up in PATH"},
        {minimal(R"(,"program":{"names":["x"],"interpreter":"y"})"),
         "/program: expected the name of a helper as its interpreter"},
        {minimal(R"(,"helpers":[{"names":["x"]}])"),
         "/helpers/0/name: is missing; expected a string"},
        {minimal(R"(,"mounts":[{"path":"opt","reason":"r"}])"),
         "/mounts/0/path: expected an absolute path or one that begins with a placeholder"},
        {minimal(R"(,"mounts":[{"path":"/opt"}])"),
         "/mounts/0/reason: is missing; expected a string"},
        {minimal(R"(,"mounts":[{"path":"${nothing}","reason":"r"}])"),
         "/mounts: unknown placeholder ${nothing}"},
        {minimal(R"(,"mounts":[{"path":"${programAncestor:x}","reason":"r"}])"),
         "/mounts: unknown placeholder ${programAncestor:x}"},
        {minimal(R"(,"tools":{"builtIn":{"bash":{}}})"),
         "/tools/builtIn/bash/names: is missing; expected an array of strings"},
        {minimal(R"(,"tools":{"typed":["send"]})"), "/tools/typed/0: expected a typed tool's name"},
        {minimal(R"(,"gate":{"tool":"x","input":"/y","allow":1,"deny":2})"),
         "/gate/tool: expected a JSON pointer"},
        {minimal(R"(,"gateTimeoutMs":1)"),
         "/gateTimeoutMs: expected an integer from 100 to 600000, found 1"},
        {minimal(R"(,"bundleFiles":{"policy.json":"x"})"),
         "/bundleFiles/policy.json: expected a file's name that isn't one of the bundle's own"},
        {minimal(R"(,"bundleFiles":{"a/b":"x"})"),
         "/bundleFiles/a~1b: expected a file's name that isn't one of the bundle's own"},
        {minimal(R"(,"environment":{"GH_TOKEN":"x"})"), "/environment/GH_TOKEN: " + variable},
        {minimal(R"(,"environment":{"A":"${thread:x}"})"),
         "/environment: A: unknown placeholder ${thread:x}"},
        {minimal(R"(,"environment":{"A":"${open"})"),
         "/environment/A: template: byte 0: expected ${name} (a dollar sign is written $$)"},
        {minimal(R"(,"controlPaths":["/etc"])"),
         "/controlPaths/0: expected a path relative to a workspace"},
        {minimal(R"(,"threadDirectories":["session"])"),
         "/threadDirectories/0: expected a directory's name other than session"},
        {minimal(R"(,"requires":["other.key"])"),
         "/requires/0: expected one of the module's own vars, agent.<key>"},
        {minimal(R"(,"transcript":"${x}")"), "/transcript: unknown placeholder ${x}"},
        {R"({"interface":1,"name":"agent","adapter":"a.sh","thinking":{"off":""},)"
         R"("turnEnd":"exit","turnInput":"body"})",
         "/providers: expected at least one provider, here or as anyProvider"},
        {R"({"interface":1,"name":"agent","adapter":"a.sh","thinking":{},"anyProvider":{},)"
         R"("turnEnd":"exit","turnInput":"body"})",
         "/thinking: expected at least one level"},
        {R"({"interface":1,"name":"agent","adapter":"a.sh","thinking":{"off":""},"anyProvider":{},)"
         R"("turnEnd":"done","turnInput":"body"})",
         "/turnEnd: expected exit or marker"},
    };
    for (const auto& [document, expected] : table) {
        CAPTURE(document);
        CHECK(error_of(document) == kPath + ": " + expected);
    }
}

TEST_CASE("a module is loaded with its files, and executable ones stay so") {
    const Scratch scratch;
    scratch.write("agent/harness.json", kFull);
    scratch.write("agent/adapter.sh", "echo hi\n", 0755);
    scratch.write("agent/lib/x.mjs", "export {};\n");
    scratch.write("agent/settings.json.in", R"({"workspace":"${workspace}","tools":${toolsJson}})");
    const auto module = load_module(scratch.path + "/agent");
    REQUIRE_MESSAGE(module.has_value(), (module ? "" : module.error().text));
    CHECK(module->directory == scratch.path + "/agent");
    CHECK(module->files == std::vector<StagedFile>{{"lib/x.mjs", "export {};\n", 0400},
                                                   {"adapter.sh", "echo hi\n", 0500}});
    CHECK(module->bundle_files[0].content.names() ==
          std::vector<std::string>{"workspace", "toolsJson"});
    const auto plan = mosaic::harness::stage_plan(*module);
    CHECK(plan[0].path == "module/lib/x.mjs");
    CHECK(plan[1].path == "module/adapter.sh");
}

TEST_CASE("a module that others may write, or whose files are links, is refused") {
    const Scratch scratch;
    const std::string json = scratch.write("agent/harness.json", minimal());
    const std::string adapter = scratch.write("agent/adapter.sh", "true\n");
    const std::string directory = scratch.path + "/agent";
    REQUIRE(load_module(directory).has_value());

    REQUIRE(::chmod(adapter.c_str(), 0666) == 0);
    CHECK(load_module(directory).error().code == Code::unsafe);
    CHECK(load_module(directory).error().text.find(adapter) != std::string::npos);
    REQUIRE(::chmod(adapter.c_str(), 0600) == 0);

    REQUIRE(::chmod(json.c_str(), 0622) == 0);
    CHECK(load_module(directory).error().code == Code::unsafe);
    REQUIRE(::chmod(json.c_str(), 0600) == 0);

    REQUIRE(::chmod(directory.c_str(), 0777) == 0);
    CHECK(load_module(directory).error().code == Code::unsafe);
    REQUIRE(::chmod(directory.c_str(), 0700) == 0);

    const std::string elsewhere = scratch.write("elsewhere.sh", "true\n");
    REQUIRE(::unlink(adapter.c_str()) == 0);
    REQUIRE(::symlink(elsewhere.c_str(), adapter.c_str()) == 0);
    const auto linked = load_module(directory);
    REQUIRE_FALSE(linked.has_value());
    CHECK(linked.error().text.find(adapter) != std::string::npos);
}

TEST_CASE("a module must be named like its directory, and its templates must be known") {
    const Scratch scratch;
    scratch.write("other/harness.json", minimal());
    scratch.write("other/adapter.sh", "true\n");
    CHECK(load_module(scratch.path + "/other").error().text ==
          scratch.path +
              "/other/harness.json: /name: expected \"other\" as the directory is named, found "
              "\"agent\"");
    scratch.write("agent/harness.json", minimal(R"(,"bundleFiles":{"a.txt":"a.in"})"));
    scratch.write("agent/adapter.sh", "true\n");
    scratch.write("agent/a.in", "${secret}");
    CHECK(load_module(scratch.path + "/agent").error().text ==
          scratch.path + "/agent/a.in: unknown placeholder ${secret}");
}

TEST_CASE("modules are taken from the first place that has them, and a bad one stands alone") {
    const Scratch scratch;
    scratch.write("mine/agent/harness.json", minimal());
    scratch.write("mine/agent/adapter.sh", "echo mine\n");
    scratch.write("shipped/agent/harness.json", minimal());
    scratch.write("shipped/agent/adapter.sh", "echo shipped\n");
    scratch.write("shipped/broken/harness.json", "{");
    SystemConfig system;
    system.plugins_harness = {"agent", "broken", "absent"};
    system.plugin_dirs = {scratch.path + "/mine"};
    const auto set = load_modules(system, scratch.path + "/shipped");
    REQUIRE(set.modules.size() == 1);
    CHECK(set.modules.at("agent").files[0].content == "echo mine\n");
    CHECK(set.problems.at("broken").starts_with(scratch.path +
                                                "/shipped/broken/harness.json: byte "));
    CHECK(set.problems.at("absent") == "harness module absent is in no directory of: " +
                                           scratch.path + "/mine, " + scratch.path + "/shipped");

    system.plugin_dirs.clear();
    CHECK(load_modules(system, scratch.path + "/shipped").modules.at("agent").files[0].content ==
          "echo shipped\n");
    CHECK(load_modules(system, "").modules.empty());
    system.plugin_dirs = {scratch.path + "/mine", scratch.path + "/none"};
    CHECK(mosaic::harness::available_modules(system, scratch.path + "/shipped") ==
          std::vector<std::string>{"agent", "broken"});
}

TEST_CASE("shipped modules lie in share beside the program's directory, or further up") {
    const Scratch scratch;
    scratch.write("usr/share/mosaic/harness/agent/harness.json", "{}");
    CHECK(mosaic::harness::shipped_directory(scratch.path + "/usr/bin/mosaic-host") ==
          scratch.path + "/usr/share/mosaic/harness");
    CHECK(mosaic::harness::shipped_directory(scratch.path + "/usr/src/host/mosaic-host") ==
          scratch.path + "/usr/share/mosaic/harness");
    CHECK(mosaic::harness::shipped_directory(scratch.path + "/none/deep/bin/mosaic-host").empty());
}

TEST_CASE("a staged tree is named by its paths, modes and contents, in any order") {
    const StagedFile a{"module/a", "x", 0400};
    const StagedFile b{"mosaic-runner", "y", 0500};
    const std::string digest = mosaic::harness::stage_digest({a, b});
    CHECK(digest.size() == 64);
    CHECK(mosaic::harness::stage_digest({b, a}) == digest);
    CHECK(mosaic::harness::stage_digest({a}) != digest);
    CHECK(mosaic::harness::stage_digest({{"module/a", "x", 0500}, b}) != digest);
    CHECK(mosaic::harness::stage_digest({{"module/a", "z", 0400}, b}) != digest);
    CHECK(mosaic::harness::stage_digest({{"module/b", "x", 0400}, b}) != digest);
    // SHA-256 of the empty string.
    CHECK(mosaic::harness::stage_digest({}) ==
          "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("a version is the first word that looks like one") {
    using mosaic::harness::version_from;
    CHECK(version_from("2.1.332 (Claude Code)\n") == "2.1.332");
    CHECK(version_from("0.74.2\n") == "0.74.2");
    CHECK(version_from("v20.20.2\r\n") == "20.20.2");
    CHECK(version_from("agent version 1.0.0-rc.1+7 build 9\n") == "1.0.0-rc.1+7");
    CHECK(version_from("no version 7 here").empty());
    CHECK(version_from("").empty());
    CHECK(version_from("1.\x1b[31m").empty());
}

TEST_CASE("placeholders are replaced, and escaped where the file quotes them") {
    const Template t = text("a ${x} $$${xJson}b$");
    CHECK(t.render({{"x", "q\"\n"}, {"xJson", "[\"q\"]"}}, mosaic::harness::Escape::none) ==
          "a q\"\n $[\"q\"]b$");
    CHECK(t.render({{"x", "q\"\n"}, {"xJson", "[\"q\"]"}}, mosaic::harness::Escape::json) ==
          "a q\\\"\\n $[\"q\"]b$");
    CHECK(mosaic::harness::escape_for("settings.json") == mosaic::harness::Escape::json);
    CHECK(mosaic::harness::escape_for("ext.mjs") == mosaic::harness::Escape::json);
    CHECK(mosaic::harness::escape_for("gate.sh") == mosaic::harness::Escape::none);
    CHECK_FALSE(Template::parse("${}", "t").has_value());
}
