// Goal: real agent programs do a role's work in their sandbox. Method: the installed product and
// the real Claude Code and Pi, launched by the PM's launch tool, in front of a stand-in for the
// model that plays the script of each message.

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "harness/agents.h"

using namespace mosaic;
using namespace mosaic::agents;
using e2e::contains;
using e2e::object;
using e2e::text;
using e2e::trim;

namespace {

// Each behaviour is the same for both programs.

void answers(const Kind& kind) {
    Agents agents(kind);
    const std::string run = agents.launch("coder");
    CHECK(trim(agents.ask("coder", R"([{"text":"forty-two"}])")) == "forty-two");
    const auto requests = agents.model.requests();
    REQUIRE(!requests.empty());
    CHECK(text(requests.back(), "credential") == "x-api-key");
    CHECK(text(requests.back(), "model") == kind.model);
    CHECK(contains(text(requests.back(), "system"), "You are the role `coder`"));
    CHECK(agents.world.session(run).has_value());
    // As long as a message may be: more than one argument of a program can hold.
    const std::string body = "mock: [{\"text\":\"read it all\"}]\n" + std::string(150'000, 'x');
    e2e::LineStream admin = agents.world.admin();
    const json::Value sent = admin.request(
        "message.send", object({{"to", "coder"}, {"class", "REQUEST"}, {"body", body}}));
    REQUIRE_MESSAGE(sent.find("result") != nullptr, json::dump(sent));
    const json::Value reply =
        admin.request("message.receive",
                      object({{"wait", true}, {"in_reply_to", text(*sent.find("result"), "id")}}));
    CHECK(contains(json::dump(reply), "read it all"));
}

void logs_in_with(const Kind& kind, const char* variable, const char* header) {
    AgentOptions options;
    options.credential = variable;
    Agents agents(kind, options);
    agents.launch("coder");
    CHECK(trim(agents.ask("coder", R"([{"text":"in"}])")) == "in");
    CHECK(text(agents.model.requests().back(), "credential") == header);
}

void shell_is_walled_in(const Kind& kind) {
    Agents agents(kind);
    const std::string secret = agents.world.home + "/.ssh/id_secret";
    std::filesystem::create_directories(agents.world.home + "/.ssh");
    e2e::write_text(secret, "stand-in secret", 0600);
    const std::string other = agents.launch("reviewer");
    const std::string run = agents.launch("coder");
    std::string command = "echo mine >mine.txt && cat mine.txt; for f in";
    for (const std::string& path : {secret,
                                    agents.world.run_directory(other) + "/session.json",
                                    agents.world.workspace("reviewer"),
                                    agents.world.bus_host() + "/sessions.json",
                                    agents.world.data + "/launches/acme.jsonl",
                                    agents.world.system_file,
                                    std::string(MOSAIC_SOURCE_DIR) + "/CMakeLists.txt"}) {
        REQUIRE(e2e::exists(path));
        command += " '" + path + "'";
    }
    command +=
        "; do if cat \"$f\" >/dev/null 2>&1 || ls \"$f\" >/dev/null 2>&1; then "
        "echo \"REACHED $f\"; fi; done; echo looked";
    const std::string said = agents.ask("coder", script({shell_step(command)}));
    CHECK(contains(said, "mine"));
    CHECK(contains(said, "looked"));
    CHECK_MESSAGE(!contains(said, "REACHED"), said);
    CHECK(trim(e2e::read_text(agents.world.workspace("coder") + "/mine.txt")) == "mine");
    CHECK(agents.world.session(run).has_value());
}

void a_pm_launches_by_tool(const Kind& kind) {
    AgentOptions options;
    options.agent_pm = true;
    Agents agents(kind, options);
    const std::string said = agents.ask(
        "pm",
        script({tool_step("launch", object({{"instance", "tester"}})),
                tool_step("message_send",
                          object({{"to", "tester"}, {"body", "echo from-tester"}, {"wait", 60}})),
                tool_step("launch", object({{"instance", "tester"}}))}));
    CHECK_MESSAGE(contains(said, "from-tester"), said);
    CHECK_MESSAGE(contains(said, "instance-running"), said);
    const auto lines = agents.world.wait_log_count("launch", 2);
    CHECK(text(lines[1], "instance") == "tester");
    CHECK(text(lines[1], "launchedBy") == "pm");
}

void only_granted_tools(const Kind& kind) {
    AgentOptions options;
    options.tools = {"read"};
    options.typed = {"message_send"};
    Agents agents(kind, options);
    agents.launch("coder");
    const std::string said = agents.ask(
        "coder",
        script(
            {shell_step("touch ran"),
             tool_step("launch", object({{"instance", "tester"}})),
             tool_step("write",
                       object({{agents.path_argument(), agents.world.workspace("coder") + "/ran"},
                               {"content", "x"}}))}));
    CHECK_MESSAGE(!e2e::exists(agents.world.workspace("coder") + "/ran"), said);
    CHECK(agents.world.log("launch").size() == 2);
    const json::Value last = agents.model.requests().back();
    for (const json::Value& tool : *last.find("tools")->array()) {
        CHECK_MESSAGE((*tool.string() == "read" || *tool.string() == "Read" ||
                       *tool.string() == std::string(kind.typed_prefix) + "message_send" ||
                       // Claude Code's own, which can't be called.
                       *tool.string() == "DeferredToolPlaceholder"),
                      *tool.string());
    }
}

void gate_denies(const Kind& kind) {
    AgentOptions options;
    options.tools = {"read", "write", "edit"};
    Agents agents(kind, options);
    const std::string workspace = agents.world.workspace("coder");
    e2e::write_text(workspace + "/inside.txt", "inside-text");
    std::filesystem::create_symlink("/etc/hostname", workspace + "/out");
    agents.launch("coder");
    const auto write_step = [&](const std::string& path) {
        return tool_step("write", object({{agents.path_argument(), path}, {"content", "planted"}}));
    };
    const std::string said = agents.ask("coder",
                                        script({agents.read_step(workspace + "/inside.txt"),
                                                agents.read_step("/etc/passwd"),
                                                agents.read_step(workspace + "/out"),
                                                agents.read_step("@/etc/passwd"),
                                                agents.read_step("~/../session.json"),
                                                write_step(workspace + "/.claude/settings.json"),
                                                write_step(workspace + "/.pi/settings.json")}));
    CHECK_MESSAGE(contains(said, "inside-text"), said);
    CHECK_MESSAGE(contains(said, "outside the workspace"), said);
    CHECK_MESSAGE(contains(said, "would configure the harness"), said);
    CHECK_MESSAGE(!contains(said, "root:x:0:0"), said);
    const std::string control =
        workspace + (std::string_view(kind.module) == kPi.module ? "/.pi" : "/.claude");
    CHECK(!e2e::exists(control));
}

void goes_on_with_a_conversation(const Kind& kind) {
    Agents agents(kind);
    agents.launch("coder");
    CHECK(trim(agents.ask("coder", R"([{"text":"turn {turns}"}])")) == "turn 1");
    CHECK(trim(agents.ask("coder", R"([{"text":"turn {turns}"}])")) == "turn 2");
    // A new run of the seat is a new conversation.
    agents.world.stop_run("coder");
    CHECK(agents.world.wait_sessions(1));
    agents.launch("coder");
    CHECK(trim(agents.ask("coder", R"([{"text":"turn {turns}"}])")) == "turn 1");
}

void keeps_a_thread(const Kind& kind) {
    Agents agents(kind);
    agents.launch("coder", "feature-1");
    CHECK(trim(agents.ask("coder", R"([{"text":"turn {turns}"}])", "feature-1")) == "turn 1");
    agents.launch("coder", "feature-2");
    CHECK(trim(agents.ask("coder", R"([{"text":"turn {turns}"}])", "feature-2")) == "turn 1");
    agents.world.stop();
    agents.start();
    agents.launch("coder", "feature-1");
    CHECK(trim(agents.ask("coder", R"([{"text":"turn {turns}"}])", "feature-1")) == "turn 2");
}

// The program is killed by its own model in the middle of a turn.
void outlives_a_crash(const Kind& kind) {
    Agents agents(kind);
    const std::string run = agents.launch("coder");
    CHECK(trim(agents.ask("coder", R"([{"text":"turn {turns}"}])")) == "turn 1");
    const std::string said = agents.ask("coder", script({shell_step("kill -KILL $PPID")}));
    CHECK_MESSAGE(contains(said, "exited with status"), said);
    CHECK(trim(agents.ask("coder", R"([{"text":"alive {turns}"}])")) == "alive 3");
    // Nothing of the conversation is left that could be read.
    const std::string ruin =
        "for f in \"$MOSAIC_SESSION_DIR\"/*.jsonl "
        "\"${CLAUDE_CONFIG_DIR:-/nowhere}\"/projects/*/*.jsonl; do "
        "[ -f \"$f\" ] && echo rubbish >\"$f\"; done; kill -KILL $PPID";
    agents.ask("coder", script({shell_step(ruin)}));
    CHECK(trim(agents.ask("coder", R"([{"text":"anew {turns}"}])")) == "anew 1");
    CHECK(agents.world.session(run).has_value());
}

// The version that was installed: package.json names it exactly.
std::string installed_version(const char* package) {
    const auto lock =
        json::parse(e2e::read_text(std::string(MOSAIC_SOURCE_DIR) + "/tests/harness/package.json"));
    REQUIRE(lock);
    return text(*lock->find("dependencies"), package);
}

void manifest_names_the_version(const Kind& kind, const char* package) {
    Agents agents(kind);
    const std::string run = agents.launch("coder");
    const auto manifest = json::parse(
        e2e::read_text(agents.world.run_directory(run) + "/bundle/manifest.json"), {16});
    REQUIRE(manifest);
    CHECK(json::dump(*manifest->find("harnessVersion")) ==
          "\"" + installed_version(package) + "\"");
    CHECK_MESSAGE(!contains(agents.world.host_log(), "is unknown"), agents.world.host_log());
}

}  // namespace

TEST_CASE("Claude Code answers a message") {
    answers(kClaude);
}

TEST_CASE("Pi answers a message") {
    answers(kPi);
}

TEST_CASE("Claude Code logs in with each of its credentials") {
    logs_in_with(kClaude, "CLAUDE_CODE_OAUTH_TOKEN", "bearer");
    logs_in_with(kClaude, "ANTHROPIC_AUTH_TOKEN", "bearer");
}

TEST_CASE("Pi logs in with a proxy's token and sends it to the proxy") {
    logs_in_with(kPi, "ANTHROPIC_AUTH_TOKEN", "bearer");
}

TEST_CASE("a shell command of Claude Code reaches its workspace and nothing of the host's") {
    shell_is_walled_in(kClaude);
}

TEST_CASE("a shell command of Pi reaches its workspace and nothing of the host's") {
    shell_is_walled_in(kPi);
}

TEST_CASE("Claude Code as PM launches a role and talks to it by its tools") {
    a_pm_launches_by_tool(kClaude);
}

TEST_CASE("Pi as PM launches a role and talks to it by its tools") {
    a_pm_launches_by_tool(kPi);
}

TEST_CASE("Claude Code has the granted tools and no others") {
    only_granted_tools(kClaude);
}

TEST_CASE("Pi has the granted tools and no others") {
    only_granted_tools(kPi);
}

TEST_CASE("the gate keeps Claude Code's file tools in the workspace and off its settings") {
    gate_denies(kClaude);
}

TEST_CASE("the gate keeps Pi's file tools in the workspace and off its settings") {
    gate_denies(kPi);
}

TEST_CASE("Claude Code goes on with a run's conversation") {
    goes_on_with_a_conversation(kClaude);
}

TEST_CASE("Pi goes on with a run's conversation") {
    goes_on_with_a_conversation(kPi);
}

TEST_CASE("Claude Code goes on with a thread's conversation after a restart of the host") {
    keeps_a_thread(kClaude);
}

TEST_CASE("Pi goes on with a thread's conversation after a restart of the host") {
    keeps_a_thread(kPi);
}

TEST_CASE("the manifest names the version of the real Claude Code") {
    manifest_names_the_version(kClaude, "@anthropic-ai/claude-code");
}

TEST_CASE("the manifest names the version of the real Pi") {
    manifest_names_the_version(kPi, "@earendil-works/pi-coding-agent");
}

TEST_CASE("a turn after Claude Code crashed works") {
    outlives_a_crash(kClaude);
}

TEST_CASE("a turn after Pi crashed works") {
    outlives_a_crash(kPi);
}
