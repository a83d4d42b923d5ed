// Goal: what goes wrong with an agent program or its API reaches the sender as text that says what
// happened, within the turn's deadline, and the run lives on. Method: as turns_test.cc; the model's
// stand-in fails in the ways that the real one does.

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "harness/agents.h"

using namespace mosaic;
using namespace mosaic::agents;
using e2e::contains;
using e2e::object;
using e2e::trim;

namespace {

void api_errors(const Kind& kind) {
    Agents agents(kind);
    const std::string run = agents.launch("coder");
    const std::string limit = agents.ask(
        "coder",
        R"([{"status":429,"error":"rate_limit_error","message":"slow down please","times":50}])");
    CHECK_MESSAGE(contains(limit, "slow down please"), limit);
    CHECK_MESSAGE(contains(limit, "exited with status"), limit);
    const std::string overload = agents.ask(
        "coder", R"([{"status":529,"error":"overloaded_error","message":"too busy now"}])");
    // Claude Code says it in its own words.
    CHECK_MESSAGE((contains(overload, "too busy now") || contains(overload, "529") ||
                   contains(overload, "verloaded")),
                  overload);
    CHECK(trim(agents.ask("coder", R"([{"text":"fine again"}])")) == "fine again");
    CHECK(agents.world.session(run).has_value());
}

void dead_key(const Kind& kind) {
    AgentOptions options;
    options.key = "an-expired-key";
    Agents agents(kind, options);
    agents.launch("coder");
    const std::string said = agents.ask("coder", R"([{"text":"never"}])");
    CHECK_MESSAGE((contains(said, "Invalid API key") || contains(said, "invalid x-api-key")), said);
    CHECK(!contains(said, "never"));
    CHECK(!contains(said, options.key));
}

void nobody_listens(const Kind& kind) {
    AgentOptions options;
    options.base_url = "http://127.0.0.1:9";
    Agents agents(kind, options);
    agents.launch("coder");
    const std::string said = agents.ask("coder", R"([{"text":"never"}])");
    CHECK_MESSAGE((contains(said, "onnect") || contains(said, "ECONNREFUSED")), said);
}

void hangs(const Kind& kind) {
    AgentOptions options;
    options.start = false;
    Agents agents(kind, options);
    agents.world.system.set("limits", object({{"turnSeconds", 20}}));
    agents.start();
    const std::string run = agents.launch("coder");
    const std::string said = agents.ask("coder", R"([{"hang":true}])");
    CHECK_MESSAGE(contains(said, "longer than 20 seconds"), said);
    CHECK(trim(agents.ask("coder", R"([{"text":"fine again"}])")) == "fine again");
    CHECK(agents.world.session(run).has_value());
}

void floods(const Kind& kind) {
    AgentOptions options;
    options.start = false;
    Agents agents(kind, options);
    agents.world.system.set("limits", object({{"replyBytes", 10'000}}));
    agents.start();
    const std::string run = agents.launch("coder");
    const std::string said = agents.ask("coder", R"([{"flood":600000}])");
    CHECK(said.starts_with("flood flood "));
    CHECK(said.size() > 9'000);
    CHECK(said.size() < 11'000);
    CHECK(agents.world.session(run).has_value());
}

// In place of the program one that fails at once.
void exits_badly(const Kind& kind, const char* variable, const char* name, const char* program) {
    AgentOptions options;
    options.start = false;
    Agents agents(kind, options);
    const std::string path = agents.world.root + "/programs/" + name;
    std::filesystem::create_directories(agents.world.root + "/programs");
    e2e::write_text(path, program, 0755);
    agents.more_env = {{variable, path}};
    agents.start();
    const std::string run = agents.launch("coder");
    const std::string said = agents.ask("coder", R"([{"text":"never"}])");
    CHECK_MESSAGE(contains(said, "exited with status 7"), said);
    CHECK_MESSAGE(contains(said, "no such feature"), said);
    CHECK_MESSAGE(contains(said, "it ended without an answer"), said);
    CHECK(agents.world.session(run).has_value());
}

}  // namespace

TEST_CASE("an API's refusal of Claude Code reaches the sender and the run lives on") {
    api_errors(kClaude);
}

TEST_CASE("an API's refusal of Pi reaches the sender and the run lives on") {
    api_errors(kPi);
}

TEST_CASE("a dead key of Claude Code is told and not shown") {
    dead_key(kClaude);
}

TEST_CASE("a dead key of Pi is told and not shown") {
    dead_key(kPi);
}

TEST_CASE("Claude Code tells that nobody listens at the API's address") {
    nobody_listens(kClaude);
}

TEST_CASE("Pi tells that nobody listens at the API's address") {
    nobody_listens(kPi);
}

TEST_CASE("Claude Code that hangs is ended at the turn's deadline") {
    hangs(kClaude);
}

TEST_CASE("Pi that hangs is ended at the turn's deadline") {
    hangs(kPi);
}

TEST_CASE("an endless answer of Claude Code is cut") {
    floods(kClaude);
}

TEST_CASE("an endless answer of Pi is cut") {
    floods(kPi);
}

TEST_CASE("a program in Claude Code's place that fails is told with its status and its words") {
    exits_badly(
        kClaude, "MOSAIC_CLAUDE_BIN", "claude", "#!/bin/sh\necho no such feature >&2\nexit 7\n");
}

TEST_CASE("a program in Pi's place that fails is told with its status and its words") {
    exits_badly(
        kPi, "MOSAIC_PI_BIN", "pi.mjs", "console.error('no such feature'); process.exit(7);\n");
}
