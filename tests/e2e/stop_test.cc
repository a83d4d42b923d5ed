// Goal: what `mosaic stop` and the host's own stop promise, with and without a host, also when the
// runner doesn't listen. Method: real runs and, for a runner that ignores SIGTERM, the tests'
// stand-in.

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <random>
#include <string>

#include "e2e/puppet.h"

using namespace mosaic;
using namespace mosaic::e2e;

TEST_CASE("stop takes a run id and an instance and names what it stopped") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const Finished by_run = world.mosaic({"stop", run, "--json"});
    CHECK(by_run.exit.code == 0);
    CHECK(json::dump(by_run.json()) ==
          R"({"stopped":true,"business":"acme","instance":"coder","run":")" + run + "\"}");
    const std::string again = text(world.launch("coder"), "run");
    const Finished by_name = world.mosaic({"stop", "coder", "--json"});
    CHECK(by_name.exit.code == 0);
    CHECK(text(by_name.json(), "run") == again);
}

TEST_CASE("stop of an unknown run says so and fails") {
    World world;
    world.start();
    const Finished finished = world.mosaic({"stop", "r000000000000"});
    CHECK(finished.exit.code == 1);
    CHECK_CONTAINS(finished.out + finished.err, "no running session has run id r000000000000");
    const Finished by_name = world.mosaic({"stop", "coder"});
    CHECK(by_name.exit.code == 1);
}

TEST_CASE("stop works without a host") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const json::Value entry = *world.session(run);
    world.kill();
    world.stop_run(run);
    CHECK(wait_gone(runner_pid(entry)));
    CHECK(wait_gone(outer_pid(entry)));
    // The entry is stale now: the next host ends it.
    const Finished stale = world.mosaic({"stop", run, "--json"});
    CHECK(*stale.json().find("stopped") == json::Value(false));
    CHECK(text(stale.json(), "reason") == "run " + run + " is not running (stale entry)");
    world.start();
    CHECK(text(world.wait_log("end", run), "reason") == "host-lost");
    CHECK(world.sessions().empty());
}

TEST_CASE("stop never signals a process that isn't a session's runner") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    world.kill();
    // The entry now names this test: alive, with its right start time, and no runner.
    json::Value file =
        *json::parse(read_text(world.bus_host() + "/sessions.json"), {.depth_max = 16});
    const json::Value original = file;
    json::Value& entry = file.find("sessions")->array()->front();
    entry.set("pid", int64_t{::getpid()});
    entry.set("startTime", start_time_of(::getpid()));
    entry.set("runnerPid", int64_t{::getpid()});
    entry.set("runnerStartTime", start_time_of(::getpid()));
    write_text(world.bus_host() + "/sessions.json", json::dump(file), 0600);
    const Finished finished = world.mosaic({"stop", run});
    CHECK(finished.exit.code == 1);
    CHECK_CONTAINS(finished.out + finished.err, "is not a session runner; refusing to signal it");
    write_text(world.bus_host() + "/sessions.json", json::dump(original), 0600);
    world.start();
    CHECK(text(world.wait_log("end", run), "reason") == "host-lost");
}

TEST_CASE("a runner that ignores SIGTERM is killed after the timeout") {
    World world(World::Runner::puppet);
    world.start();
    const PuppetMaster master(world, "coder");
    LineStream admin = world.admin();
    const int64_t launch = admin.ask("launch", object({{"instance", "coder"}}));
    Puppet puppet = master.accept();
    LineStream bus = puppet.claim(puppet.capability());
    REQUIRE(*admin.reply(launch).find("ok") == json::Value(true));
    puppet.make_deaf();
    const Finished finished = world.mosaic({"stop", "coder", "--timeout", "1", "--json"});
    CAPTURE(finished.err);
    CHECK(finished.exit.code == 0);
    const json::Value end = world.wait_log("end", puppet.run());
    CHECK(text(end, "reason") == "killed");
    CHECK(text(end, "signal") == "SIGKILL");
    CHECK(is_null(end, "exitCode"));
}

TEST_CASE("a stopping host refuses launches and ends every session") {
    World world(World::Runner::puppet);
    world.system.set("limits", object({{"stopTimeoutMs", 4000}}));
    world.start();
    const PuppetMaster master(world, "coder");
    LineStream admin = world.admin();
    const int64_t launch = admin.ask("launch", object({{"instance", "coder"}}));
    Puppet puppet = master.accept();
    LineStream bus = puppet.claim(puppet.capability());
    REQUIRE(*admin.reply(launch).find("ok") == json::Value(true));
    puppet.make_deaf();
    world.host().signal(SIGTERM);
    // Requests go through one loop in order, but the signal and the request come by different ways:
    // ask until the stop has begun. The seat runs, so no launch can be granted before that.
    std::string code;
    do {
        const json::Value reply = admin.request("launch", object({{"instance", "coder"}}));
        code = text(reply, "error");
    } while (code == "instance-running");
    CHECK(code == "host-stopping");
    const auto exit = world.host().wait();
    REQUIRE(exit.has_value());
    CHECK(exit->code == 0);
    const auto ends = world.log("end");
    REQUIRE(ends.size() == 1);
    CHECK(text(ends[0], "reason") == "killed");
    CHECK(world.sessions().empty());
}

TEST_CASE("SIGTERM and SIGINT stop the host with every end recorded") {
    for (const int number : {SIGTERM, SIGINT}) {
        CAPTURE(number);
        World world;
        world.start({.pm = true, .more_arguments = {}, .more_env = {}, .inherited = {}});
        world.wait_log_count("launch", 1);
        world.launch("coder");
        world.launch("reviewer");
        world.host().signal(number);
        const auto exit = world.host().wait();
        REQUIRE(exit.has_value());
        CHECK(exit->code == 0);
        const auto ends = world.log("end");
        CHECK(ends.size() == 3);
        for (const json::Value& end : ends) {
            CHECK(text(end, "reason") == "stopped");
        }
        CHECK(world.sessions().empty());
        CHECK(world.processes().empty());
    }
}

TEST_CASE("a host with a busy turn stops within its stop timeout") {
    World world;
    world.start();
    world.launch("coder");
    LineStream admin = world.admin();
    const json::Value sent = admin.request(
        "message.send",
        object(
            {{"to", "coder"}, {"class", "REQUEST"}, {"body", "echo on > busy; exec sleep 1000"}}));
    REQUIRE(*sent.find("ok") == json::Value(true));
    REQUIRE(wait_for_change({world.workspace("coder")},
                            [&] { return exists(world.workspace("coder") + "/busy"); }));
    world.stop();
    REQUIRE(world.log("end").size() == 1);
    CHECK(text(world.log("end")[0], "reason") == "stopped");
}

TEST_CASE("two hundred launches stopped at random moments leave no survivor") {
    World world;
    world.start();
    std::mt19937 random(20260201);
    LineStream launcher = world.admin();
    LineStream stopper = world.admin();
    for (int i = 0; i < 200; ++i) {
        CAPTURE(i);
        const int64_t launch = launcher.ask("launch", object({{"instance", "coder"}}));
        // Not a wait for anything: the moment is what varies, over the whole of a launch.
        ::poll(nullptr, 0, static_cast<int>(random() % 60));
        // Refused as long as there is no run yet; what counts is what is left afterwards.
        stopper.request("stop", object({{"target", "coder"}}));
        const json::Value reply = launcher.reply(launch);
        if (*reply.find("ok") == json::Value(true)) {
            stopper.request("stop", object({{"target", text(*reply.find("result"), "run")}}));
        }
        REQUIRE(world.wait_sessions(0));
    }
    CHECK(world.survivors().empty());
    world.launch("coder");
}
