// Goal: the tools of a session beside its harness, on real parts: tasks, questions to the human,
// the MCP server and the gate, each called by a turn's shell.

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

constexpr const char* kRunner = "/run/mosaic/mosaic-runner";

// The coder may everything that these tests need.
void allow_work(World& world) {
    world.set_var("coder",
                  "limits.typed",
                  strings({"task_create", "task_list", "task_update", "decision_request"}));
    world.role("coder")
        .find("authority")
        ->set("withinRole",
              strings(
                  {"message.send", "task.create", "task.list", "task.update", "decision.request"}));
}

std::string tool(const std::string& name, const std::string& arguments) {
    return std::string(kRunner) + " tool " + name + " '" + arguments + "' 2>&1; true";
}

}  // namespace

TEST_CASE("a session keeps tasks and the human sees them") {
    World world;
    allow_work(world);
    world.start();
    world.launch("coder");
    CHECK(trim(world.ask("coder", tool("task_create", R"({"title":"build it"})"))) ==
          R"({"id":"t1"})");
    CHECK(trim(world.ask("coder", tool("task_create", R"({"title":"","role":"pm"})")))
              .find("/title: expected a text that isn't empty") != std::string::npos);
    CHECK(world.ask("coder", "head -n 3 \"$MOSAIC_REQUEST_FILE\"").find("Open tasks: 1.") !=
          std::string::npos);
    const Finished listed = world.mosaic({"tasks", "--json"});
    CHECK(listed.out.find(R"([{"id":"t1","role":"coder","state":"open","title":"build it")") == 0);
    CHECK(world.ask("coder", tool("task_update", R"({"id":"t1","state":"done","note":"built"})"))
              .find(R"("state":"done")") != std::string::npos);
    CHECK(world.mosaic({"tasks"}).out == "no tasks\n");
    CHECK(world.mosaic({"tasks", "--state", "done"}).out.find("built") != std::string::npos);
}

TEST_CASE("a question to the human is answered by decide and told to who asked") {
    World world;
    allow_work(world);
    world.start();
    world.launch("coder");
    CHECK(trim(world.ask("coder", tool("decision_request", R"({"question":"true; echo #?"})"))) ==
          R"({"id":"d1"})");
    const Finished decided = world.mosaic({"decide", "d1", "deny", "--note", "no", "--json"});
    CHECK(trim(decided.out) == R"({"id":"d1","allowed":false})");
    // Messages come in their order: the answer's turn is over when this one's is.
    const std::string turns = world.ask("coder", "cat \"$MOSAIC_RUN_DIR\"/rw/turns/0002.request");
    CHECK(turns.find("from jordan") != std::string::npos);
    CHECK(turns.find("class NOTE") != std::string::npos);
    CHECK(turns.find("Decision d1: denied.\nno\n") != std::string::npos);
}

TEST_CASE("the program of notify is told once of each thing that needs the human") {
    World world;
    allow_work(world);
    const std::string told = world.root + "/told";
    const std::string program = world.root + "/page.sh";
    write_text(program,
               "#!/bin/sh\nenv > " + told +
                   ".env\necho \"$1/$2/$MOSAIC_BUSINESS/$MOSAIC_NEED/$MOSAIC_ID/$MOSAIC_BY\" >> " +
                   told + "\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    world.system.set("notify", json::Array{json::Value(program), json::Value("own")});
    world.start();
    world.launch("coder");
    const auto lines = [&] {
        const std::string text = exists(told) ? read_text(told) : "";
        return std::count(text.begin(), text.end(), '\n');
    };
    const std::string ask = tool("decision_request", R"({"question":"shall I?"})");
    CHECK(trim(world.ask("coder", ask)) == R"({"id":"d1"})");
    CHECK(trim(world.ask("coder", ask)) == R"({"id":"d1"})");
    // Each reply to the human is a message for him.
    REQUIRE(wait_for_change({world.root}, [&] { return lines() >= 3; }));
    const std::string text = read_text(told);
    CHECK_CONTAINS(text, "own/acme: coder asks for decision d1/acme/decision/d1/coder\n");
    CHECK_CONTAINS(text, "own/acme: message m2 from coder/acme/message/m2/coder\n");
    // Nothing else of the host's environment.
    CHECK(!contains(read_text(told + ".env"), "MOSAIC_CONFIG"));
    CHECK(text.find("decision d1", text.find("decision d1") + 1) == std::string::npos);
    world.stop();
}

TEST_CASE("a program of notify may fail after the configuration names none any more") {
    World world;
    allow_work(world);
    const std::string program = world.root + "/page.sh";
    const std::string go = world.root + "/go";
    // Opening a FIFO waits for whoever opens its other end.
    REQUIRE(::mkfifo(go.c_str(), 0600) == 0);
    write_text(program,
               "#!/bin/sh\n: > " + world.root + "/began\nread line < " + go + "\nexit 7\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    world.system.set("notify", json::Array{json::Value(program)});
    world.start();
    world.launch("coder");
    CHECK(trim(world.ask("coder", tool("decision_request", R"({"question":"shall I?"})"))) ==
          R"({"id":"d1"})");
    REQUIRE(wait_for_change({world.root}, [&] { return exists(world.root + "/began"); }));
    world.system.set("notify", json::Array{});
    world.write_config();
    CHECK(world.mosaic({"reload"}).exit.code == 0);
    write_text(go, "now\n");
    REQUIRE(wait_for_change({world.root}, [&] {
        return contains(world.host_log(), program + " failed: exit code 7");
    }));
    CHECK(trim(world.ask("coder", "echo alive")) == "alive");
    world.stop();
}

TEST_CASE("an MCP client in a session gets its tools") {
    World world;
    allow_work(world);
    world.start();
    world.launch("coder");
    const std::string lines = R"('{"jsonrpc":"2.0","id":0,"method":"initialize",)"
                              R"("params":{"protocolVersion":"2025-06-18"}}' )"
                              R"('{"jsonrpc":"2.0","id":1,"method":"tools/list"}' )"
                              R"('{"jsonrpc":"2.0","id":2,"method":"tools/call",)"
                              R"("params":{"name":"task_create","arguments":{"title":"x"}}}')";
    const std::string answers =
        world.ask("coder", "printf '%s\\n' " + lines + " | " + kRunner + " mcp");
    CHECK(answers.find(R"("protocolVersion":"2025-06-18")") != std::string::npos);
    CHECK(answers.find(R"("name":"decision_request")") != std::string::npos);
    CHECK(answers.find(R"({"type":"text","text":"{\"id\":\"t1\"}"})") != std::string::npos);
}
