// Goal: what a run is told is exactly its grants, with names of credentials and never a value.
// Method: one set of facts, every file compared.

#include "harness/bundle.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "harness/typed_tools.h"
#include "wire/json.h"
#include "wire/typed_tools.h"

using mosaic::Seat;
using mosaic::config::Business;
using mosaic::config::Instance;
using mosaic::config::Route;
using mosaic::harness::BuiltInTool;
using mosaic::harness::ChosenRoute;
using mosaic::harness::FoundProgram;
using mosaic::harness::HostPath;
using mosaic::harness::Module;
using mosaic::harness::RunFacts;
using mosaic::harness::RunPaths;
using mosaic::harness::Template;
using mosaic::json::Value;

namespace {

Template text(const std::string& source) {
    return Template::parse(source, "test").value();
}

// All that the facts point to.
struct World {
    Module module;
    Business business;
    Instance instance;
    ChosenRoute route;
    RunPaths paths;
    std::string contract = "# Coder\nWrite code.";
    mosaic::wire::SessionLimits limits;
    std::string thread;

    World() {
        module.name = "agent";
        module.adapter = "adapter.sh";
        module.thinking = {{"high", "deep"}};
        module.tools = {{"bash", BuiltInTool{{"Bash"}, {}, false, true}},
                        {"edit", BuiltInTool{{"Edit", "Write"}, {"file_path"}, true, false}}};
        module.typed = {"message_send", "task_list"};
        module.typed_prefix = "mcp__mosaic__";
        module.gate = mosaic::harness::Gate{"/tool_name", "/tool_input", "yes", "no"};
        module.control_paths = {".agent"};
        module.thread_directories = {"state"};
        module.bundle_files = {
            {"settings.json", text(R"({"where":"${workspace}","tools":${toolsJson}})")},
            {"notes.txt", text("${model} ${gateTimeoutSeconds}s ${programAncestor:lib}")}};
        module.environment = {{"STATE", text("${thread:state}")}, {"NODE", text("${helper:node}")}};
        module.mounts = {{text("${programAncestor:lib}"), "its libraries", true},
                         {text("${programAncestor:nowhere}"), "what isn't there", true}};
        module.transcript = text("${home}/${workspaceDashed}.jsonl");
        business.id = "acme";
        business.human = "jordan";
        instance.name = "coder";
        instance.tools = {"edit", "fly"};
        instance.typed = {"launch", "message_send"};
        instance.network = mosaic::config::Network::none;
        instance.vars = {{"agent.max-turns", "3"}, {"other.key", "x"}};
        route.route = Route{"agent", "acme-ai", "m1", "high"};
        route.module = &module;
        route.reason = "primary";
        route.program = FoundProgram{"/home/j/bin/agent", "/opt/lib/agent/lib/agent.js"};
        route.helpers = {{"node", FoundProgram{"/usr/bin/node", "/usr/bin/node20"}}};
        route.credential = {"TOKEN"};
        route.variables = {"TOKEN", "EXTRA"};
        paths.run_dir = "/d/launches/acme/r0123456789ab";
        paths.bundle = paths.run_dir + "/bundle";
        paths.home = paths.run_dir + "/rw/home";
        paths.tool_socket = paths.run_dir + "/rw/io/tools.sock";
        paths.turn_marker = paths.run_dir + "/rw/io/turn.done";
        paths.session_dir = paths.run_dir + "/rw/session";
        paths.workspace = "/srv/acme/co \"der";
        paths.broker_socket = "/d/bus-host/bus.sock";
    }

    [[nodiscard]] RunFacts facts() const {
        return RunFacts{.run = "r0123456789ab",
                        .seat = Seat{"coder", thread},
                        .warm = false,
                        .business = business,
                        .instance = instance,
                        .route = route,
                        .paths = paths,
                        .contract = contract,
                        .limits = limits};
    }

    [[nodiscard]] std::map<std::string, std::string> files() const {
        const auto made = mosaic::harness::bundle_files(facts());
        REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().text));
        std::map<std::string, std::string> out;
        for (const auto& file : *made) {
            CHECK(out.emplace(file.name, file.content).second);
        }
        return out;
    }
};

std::string one_line(const std::string& document) {
    return mosaic::json::dump(
        mosaic::json::parse(document, mosaic::json::ParseOptions{.depth_max = 16}).value());
}

}  // namespace

TEST_CASE("the bundle holds the contract, the policy, the tools and the module's own files") {
    const World w;
    const auto files = w.files();
    REQUIRE(files.size() == 6);
    CHECK(files.at("prompt.md").starts_with("# Role coder of acme\n"));
    CHECK(files.at("prompt.md").ends_with("\n# Coder\nWrite code.\n"));
    CHECK(files.at("prompt.md").find("mcp__mosaic__message_send") != std::string::npos);
    CHECK(one_line(files.at("policy.json")) ==
          R"({"harness":"agent","workspace":"/srv/acme/co \"der","tools":["edit","fly"],)"
          R"("typed":["message_send"],"network":"none",)"
          R"("needs":["/home/j/bin/agent","/usr/bin/node"],"credentials":["TOKEN"]})");
    CHECK(one_line(files.at("settings.json")) ==
          R"({"where":"/srv/acme/co \"der","tools":["Edit","Write","mcp__mosaic__message_send"]})");
    CHECK(files.at("notes.txt") == "m1 10s /opt/lib");
    CHECK(one_line(files.at("gate.json")) ==
          R"({"workspace":"/srv/acme/co \"der","toolPointer":"/tool_name",)"
          R"("inputPointer":"/tool_input","allow":"yes","deny":"no",)"
          R"("tools":{"Edit":{"paths":["file_path"],"writes":true},)"
          R"("Write":{"paths":["file_path"],"writes":true}},)"
          R"("typed":["mcp__mosaic__message_send"],"controlPaths":[".agent"]})");
}

TEST_CASE("a granted shell leaves no control path to guard") {
    World w;
    w.instance.tools = {"bash"};
    const auto gate = mosaic::json::parse(w.files().at("gate.json")).value();
    CHECK(gate.find("controlPaths")->array()->empty());
    CHECK(mosaic::json::dump(*gate.find("tools")) == R"({"Bash":{"paths":[],"writes":false}})");
}

TEST_CASE("tools.json has exactly the granted typed tools, each with a schema") {
    const World w;
    const auto tools = mosaic::json::parse(w.files().at("tools.json")).value();
    REQUIRE(tools.array()->size() == 1);
    const Value& tool = tools.array()->front();
    CHECK(*tool.find("name")->string() == "message_send");
    CHECK_FALSE(tool.find("description")->string()->empty());
    const Value& parameters = *tool.find("parameters");
    CHECK(*parameters.find("type")->string() == "object");
    CHECK(mosaic::json::dump(*parameters.find("required")) == R"(["to","body"])");

    std::vector<std::string> all(mosaic::wire::kTypedTools.begin(),
                                 mosaic::wire::kTypedTools.end());
    const Value described = mosaic::harness::describe_typed_tools(all);
    REQUIRE(described.array()->size() == all.size());
    for (size_t i = 0; i < all.size(); ++i) {
        CHECK(*described.array()->at(i).find("name")->string() == all[i]);
    }
}

TEST_CASE("a module's file that isn't JSON once filled in fails the bundle by name") {
    World w;
    w.module.bundle_files = {{"settings.json", text("{${model}}")}};
    const auto made = mosaic::harness::bundle_files(w.facts());
    REQUIRE_FALSE(made.has_value());
    CHECK(made.error().text.starts_with(
        "harness module agent: bundle file settings.json is not JSON: byte "));
}

TEST_CASE("the session file tells the runner its adapter, its paths and the module's own vars") {
    World w;
    w.module.turn_end = mosaic::wire::TurnEnd::marker;
    w.module.turn_input = mosaic::wire::TurnInput::body;
    w.limits.turn_seconds = 7;
    const mosaic::wire::SessionFile file = mosaic::harness::session_file(w.facts());
    mosaic::wire::SessionFile expected;
    expected.business = "acme";
    expected.seat = Seat{"coder", ""};
    expected.run = "r0123456789ab";
    expected.human = "jordan";
    expected.harness = "agent";
    expected.provider = "acme-ai";
    expected.model = "m1";
    expected.thinking = "deep";
    expected.broker_socket = "/d/bus-host/bus.sock";
    expected.workspace = w.paths.workspace;
    expected.session_dir = w.paths.session_dir;
    expected.adapter = "/run/mosaic/module/adapter.sh";
    expected.bundle_prompt = w.paths.bundle + "/prompt.md";
    expected.bundle_policy = w.paths.bundle + "/policy.json";
    expected.bundle_tools = w.paths.bundle + "/tools.json";
    expected.tool_socket = w.paths.tool_socket;
    expected.turn_marker = w.paths.turn_marker;
    expected.turn_end = mosaic::wire::TurnEnd::marker;
    expected.turn_input = mosaic::wire::TurnInput::body;
    expected.harness_env = {{"MOSAIC_MODULE", "/run/mosaic/module"},
                            {"MOSAIC_PROGRAM", "/opt/lib/agent/lib/agent.js"},
                            {"MOSAIC_VAR_AGENT_MAX_TURNS", "3"},
                            {"NODE", "/usr/bin/node20"},
                            {"STATE", w.paths.home + "/state"}};
    expected.typed = {"message_send"};
    expected.limits.turn_seconds = 7;
    CHECK(file == expected);
    const auto read = mosaic::wire::SessionFile::from(file.to_value(), "session.json");
    REQUIRE(read.has_value());
    CHECK(*read == file);
}

TEST_CASE("a thread keeps its module's directories and its session's name across runs") {
    World w;
    w.module.environment = {{"STATE", text("${thread:state}")}, {"ID", text("${sessionUuid}")}};
    const auto env = [&](const std::string& run) {
        RunFacts facts = w.facts();
        facts.run = run;
        return mosaic::harness::session_file(facts).harness_env;
    };
    CHECK(env("r000000000001").at("ID") != env("r000000000002").at("ID"));
    CHECK(mosaic::harness::thread_directories(w.facts()).empty());

    w.thread = "t1";
    w.paths.thread_store = "/d/threads/acme/coder/t1";
    CHECK(env("r000000000001") == env("r000000000002"));
    CHECK(env("r000000000001").at("STATE") == "/d/threads/acme/coder/t1/state");
    CHECK(mosaic::harness::thread_directories(w.facts()) ==
          std::vector<std::string>{"/d/threads/acme/coder/t1/state"});
    const std::string uuid = env("r000000000001").at("ID");
    CHECK(uuid.size() == 36);
    CHECK(uuid[14] == '8');
    w.thread = "t2";
    CHECK(env("r000000000001").at("ID") != uuid);
}

TEST_CASE("programs and mounts are named with reasons, and optional ones may have no path") {
    World w;
    CHECK(mosaic::harness::host_paths(w.facts()).value() ==
          std::vector<HostPath>{{"/home/j/bin/agent", "the program of harness agent", false},
                                {"/usr/bin/node", "node for harness agent", false},
                                {"/opt/lib", "its libraries", true}});
    CHECK(mosaic::harness::path_directories(w.route) ==
          std::vector<std::string>{"/home/j/bin", "/usr/bin"});
    // Without a run: what doesn't need one.
    w.module.mounts.push_back({text("${home}/x"), "of a run", false});
    w.module.mounts.push_back({text("${helper:node}.d"), "of a helper", false});
    CHECK(mosaic::harness::program_paths(w.route) ==
          std::vector<HostPath>{{"/home/j/bin/agent", "the program of harness agent", false},
                                {"/usr/bin/node", "node for harness agent", false},
                                {"/opt/lib", "its libraries", true},
                                {"/usr/bin/node20.d", "of a helper", true}});
    w.module.mounts.resize(2);
    w.module.mounts[1].optional = false;
    CHECK(mosaic::harness::host_paths(w.facts()).error().text ==
          "harness module agent: the mount for what isn't there has no path here");
}

TEST_CASE("the manifest records the route, the versions, every bind and every level") {
    const World w;
    const std::string text = mosaic::harness::manifest(
        w.facts(),
        {.harness_version = "",
         .bwrap_version = "0.8.0",
         .mosaic_version = "0.1.0",
         .binds = {{"read-only", "/usr", "/usr", "programs"}, {"proc", "", "/proc", "processes"}},
         .hardening = {{"landlock", "off", "the kernel has ABI 4"}, {"seccomp", "on", ""}}});
    CHECK(one_line(text) ==
          R"({"run":"r0123456789ab","route":{"harness":"agent","provider":"acme-ai","model":"m1",)"
          R"("thinking":"high"},"routeReason":"primary","harnessVersion":null,)"
          R"("bwrapVersion":"0.8.0","mosaicVersion":"0.1.0",)"
          R"("binds":[{"kind":"read-only","source":"/usr","dest":"/usr","reason":"programs"},)"
          R"({"kind":"proc","source":null,"dest":"/proc","reason":"processes"}],)"
          R"("hardening":[{"name":"landlock","level":"off","reason":"the kernel has ABI 4"},)"
          R"({"name":"seccomp","level":"on","reason":null}],)"
          R"("limits":{"turnSeconds":1800,"turnGraceMs":2000,"replyBytes":131072,)"
          R"("brokerRetries":30,"processes":1024,"openFiles":4096},)"
          R"("transcript":"/d/launches/acme/r0123456789ab/rw/home/-srv-acme-co--der.jsonl"})");
}
