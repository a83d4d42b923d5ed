// Goal: the main job on real parts: launch, claim, answer, stop. Method: the installed programs,
// real sandboxes, roles whose turns are shell scripts sent as messages.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

std::vector<std::string> types_of(const std::vector<json::Value>& events, std::string_view run) {
    std::vector<std::string> types;
    for (const json::Value& event : events) {
        const json::Value* of = event.find("run");
        if (of != nullptr && *of == json::Value(run)) {
            types.push_back(text(event, "type"));
        }
    }
    return types;
}

}  // namespace

TEST_CASE("a launched role claims and answers and is stopped") {
    World world;
    world.start();
    const json::Value result = world.launch("coder");
    const std::string run = text(result, "run");
    CHECK(run.size() == 13);
    CHECK(run.find_first_not_of("0123456789abcdef", 1) == std::string::npos);
    CHECK(run[0] == 'r');
    CHECK(text(result, "instance") == "coder");
    CHECK(text(result, "harness") == "script");
    CHECK(text(result, "model") == kModel);

    const auto rows = world.ps();
    REQUIRE(rows.size() == 1);
    CHECK(text(rows[0], "run") == run);
    CHECK(*rows[0].find("live") == json::Value(true));
    CHECK(text(rows[0], "launchedBy") == "jordan");

    CHECK(trim(world.ask("coder", "echo $((6 * 7))")) == "42");
    CHECK(trim(world.ask("coder", "pwd")) == world.workspace("coder"));

    const json::Value entry = *world.session(run);
    world.stop_run("coder");
    const json::Value end = world.wait_log("end", run);
    CHECK(text(end, "reason") == "stopped");
    CHECK(number(end, "exitCode") == 0);
    CHECK(is_null(end, "signal"));
    CHECK(world.wait_sessions(0));
    CHECK(wait_gone(outer_pid(entry)));
    CHECK(wait_gone(runner_pid(entry)));
    CHECK(world.ps().empty());

    const auto types = types_of(world.events(), run);
    REQUIRE(types.size() >= 3);
    CHECK(types[0] == "session.bound");
    CHECK(types[1] == "role.claimed");
    CHECK(types.back() == "session.ended");
}

TEST_CASE("events are numbered from one without a gap") {
    World world;
    world.start();
    world.launch("coder");
    world.ask("coder", "echo x");
    world.stop_run("coder");
    const auto events = world.events();
    REQUIRE(events.size() >= 5);
    for (size_t i = 0; i < events.size(); ++i) {
        CHECK(number(events[i], "seq") == static_cast<int64_t>(i + 1));
        CHECK(text(events[i], "at").size() == std::string("2026-01-31T12:34:56.789Z").size());
    }
}

TEST_CASE("the launch line has the time of each stage") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const json::Value line = world.wait_log("launch", run);
    for (const char* key :
         {"at", "event", "instance", "run", "launchedBy", "harness", "provider", "model"}) {
        CAPTURE(key);
        CHECK(!text(line, key).empty());
    }
    const json::Value* stages = line.find("stages");
    REQUIRE(stages != nullptr);
    REQUIRE(stages->object() != nullptr);
    CHECK(stages->object()->size() == 8);
    for (const char* stage : {"checked",
                              "authorized",
                              "prepared",
                              "spawned",
                              "bound",
                              "persisted",
                              "delivered",
                              "claimed"}) {
        CAPTURE(stage);
        CHECK(number(*stages, stage) >= 0);
    }
}

TEST_CASE("a thread run and the plain run of an instance don't block each other") {
    World world;
    world.start();
    const std::string plain = text(world.launch("coder"), "run");
    const std::string thread = text(world.launch("coder", "t1"), "run");
    CHECK(plain != thread);
    CHECK(world.launch_refused("coder", "t1") == "instance-running");
    CHECK(world.launch_refused("coder") == "instance-running");
    CHECK(text(*world.session(thread), "thread") == "t1");
    CHECK(world.session(plain)->find("thread") == nullptr);
    CHECK(trim(world.ask("coder", "echo thread", "t1")) == "thread");
    CHECK(trim(world.ask("coder", "echo plain")) == "plain");
    CHECK(mode_of(world.data + "/threads/acme/coder/t1") == 0700);
    world.stop_run(thread);
    world.wait_log("end", thread);
    CHECK(world.session(plain).has_value());
}

TEST_CASE("--pm launches the PM for the human at the start") {
    World world;
    world.start({.pm = true, .more_arguments = {}, .more_env = {}, .inherited = {}});
    const auto lines = world.wait_log_count("launch", 1);
    CHECK(text(lines[0], "instance") == "pm");
    CHECK(text(lines[0], "launchedBy") == "jordan");
    CHECK(trim(world.ask("pm", "echo here")) == "here");
}

TEST_CASE("a refused --pm ends the host with 3 and the reason") {
    World world;
    world.role("pm").set("workspace", world.root + "/ws/nowhere");
    const Exit exit =
        world.start_fails({.pm = true, .more_arguments = {}, .more_env = {}, .inherited = {}});
    CHECK(exit.code == 3);
    CHECK_CONTAINS(world.host_log(), "PM launch refused: workspace-missing (");
}

TEST_CASE("the PM launches a coder with its tool and hands it work by message") {
    World world;
    world.start();
    world.launch("pm");
    const std::string launched =
        world.ask("pm", "/run/mosaic/mosaic-runner tool launch '{\"instance\":\"coder\"}'");
    CHECK_CONTAINS(launched, "\"run\":\"r");
    CHECK_CONTAINS(launched, "\"instance\":\"coder\"");
    const auto lines = world.wait_log_count("launch", 2);
    CHECK(text(lines[1], "instance") == "coder");
    CHECK(text(lines[1], "launchedBy") == "pm");
    const std::string answer =
        world.ask("pm",
                  "/run/mosaic/mosaic-runner tool message_send '{\"to\":\"coder\",\"body\":\"echo "
                  "from-$(pwd)\",\"wait\":20}'");
    CHECK_CONTAINS(answer, "from-" + world.workspace("coder"));
}

TEST_CASE("a session gets a refusal's code alone and the human its reason") {
    World world;
    world.start();
    world.launch("pm");
    world.launch("coder");
    const std::string refused = world.ask(
        "pm", "/run/mosaic/mosaic-runner tool launch '{\"instance\":\"coder\"}' 2>&1 || true");
    CHECK_CONTAINS(refused, "instance-running");
    CHECK(trim(refused) == "instance-running");
    CHECK(world.launch_refused("coder") == "instance-running");
    CHECK(!world.refusal_message.empty());
    const auto lines = world.wait_log_count("refused", 2);
    for (const json::Value& line : lines) {
        CHECK(text(line, "code") == "instance-running");
        CHECK(text(line, "instance") == "coder");
        CHECK(!text(line, "reason").empty());
    }
    CHECK(text(lines[0], "by") == "pm");
    CHECK(text(lines[1], "by") == "jordan");
    size_t refused_events = 0;
    for (const json::Value& event : world.events()) {
        refused_events += text(event, "type") == "action.refused" ? 1U : 0U;
    }
    CHECK(refused_events == 2);
}

TEST_CASE("a role without the launch tool can't reach launch.sock") {
    World world;
    world.start();
    world.launch("coder");
    const std::string answer = world.ask(
        "coder",
        "ls " + world.bus_host() +
            "; /run/mosaic/mosaic-runner tool launch '{\"instance\":\"reviewer\"}' 2>&1 || true");
    CHECK_CONTAINS(answer, "bus.sock");
    CHECK(!contains(answer, "launch.sock"));
    CHECK(!contains(answer, "admin.sock"));
    CHECK_CONTAINS(answer, "unknown-tool");
    CHECK(world.sessions().size() == 1);
}

TEST_CASE("a turn finds its request and the run's facts in its environment") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const std::string answer =
        world.ask("coder",
                  "echo run=$MOSAIC_RUN_ID; echo ws=$MOSAIC_WORKSPACE; "
                  "echo dir=$MOSAIC_RUN_DIR; echo model=$MOSAIC_MODEL; "
                  "echo provider=$MOSAIC_PROVIDER; echo thinking=$MOSAIC_THINKING; "
                  "echo tmp=$TMPDIR; echo home=$HOME; cat \"$MOSAIC_REQUEST_FILE\"");
    CHECK_CONTAINS(answer, "run=" + run);
    CHECK_CONTAINS(answer, "ws=" + world.workspace("coder"));
    CHECK_CONTAINS(answer, "dir=" + world.run_directory(run));
    CHECK_CONTAINS(answer, std::string("model=") + kModel);
    CHECK_CONTAINS(answer, std::string("provider=") + kProvider);
    CHECK_CONTAINS(answer, std::string("thinking=") + kThinking);
    CHECK_CONTAINS(answer, "tmp=/tmp");
    CHECK_CONTAINS(answer, "home=" + world.run_directory(run) + "/rw/home");
    CHECK_CONTAINS(answer, "Current state, read at ");
    CHECK_CONTAINS(answer, "Launches: allowed (never switched).");
    CHECK_CONTAINS(answer, "Open tasks: 0.");
    CHECK_CONTAINS(answer, " from jordan, sent ");
    CHECK_CONTAINS(answer, ", class REQUEST:");
}

TEST_CASE("a turn that fails answers with its failure and the session goes on") {
    World world;
    world.start();
    world.launch("coder");
    const std::string answer = world.ask("coder", "echo half-done; exit 9");
    CHECK_CONTAINS(answer, "9");
    CHECK(trim(world.ask("coder", "echo next")) == "next");
}

TEST_CASE("what a turn leaves running is gone when the turn is over") {
    World world;
    world.start();
    world.launch("coder");
    CHECK(trim(world.ask("coder", "setsid sleep 1000 & sleep 1000 & echo started")) == "started");
    const std::string left = world.ask("coder", "cat /proc/[0-9]*/comm");
    CHECK(!contains(left, "sleep"));
}

TEST_CASE("a message to a role that doesn't run waits for its next run") {
    World world;
    world.start();
    LineStream admin = world.admin();
    const json::Value sent = admin.request(
        "message.send",
        object(
            {{"to", "coder"}, {"class", "REQUEST"}, {"body", "echo late > late.txt; echo done"}}));
    REQUIRE_MESSAGE(*sent.find("ok") == json::Value(true), json::dump(sent));
    world.launch("coder");
    CHECK(wait_for_change({world.workspace("coder")},
                          [&] { return exists(world.workspace("coder") + "/late.txt"); }));
    const json::Value reply =
        admin.request("message.receive",
                      object({{"wait", true}, {"in_reply_to", text(*sent.find("result"), "id")}}));
    CHECK(trim(text(*reply.find("result")->find("message"), "body")) == "done");
}

TEST_CASE("ps and log work from the files when no host runs") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    world.kill();
    const auto rows = world.ps();
    REQUIRE(rows.size() == 1);
    CHECK(text(rows[0], "run") == run);
    CHECK(*rows[0].find("live") == json::Value(true));
    const Finished log = world.mosaic({"log", "--json"});
    CHECK(log.exit.code == 0);
    REQUIRE(log.json_lines().size() == 1);
    CHECK(text(log.json_lines()[0], "run") == run);
    const Finished launch = world.mosaic({"launch", "reviewer"});
    CHECK(launch.exit.code == 1);
    CHECK_CONTAINS(launch.err, "admin.sock");
    world.start();
    CHECK(text(world.wait_log("end", run), "reason") == "host-lost");
}
