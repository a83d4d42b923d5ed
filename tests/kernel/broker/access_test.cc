// Goal: who is served is decided by what the kernel says of the peer, before a byte is read.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>

#include "fixture.h"

using namespace mosaic;
using namespace mosaic::broker::test;

TEST_CASE("a process that is no run's runner is closed without an answer, capability or not") {
    World world;
    world.start_configured();
    const auto session = world.session({"coder", ""}, kCoderRun);
    Runner stranger;
    Line theirs(stranger.connect(world.bus_path));
    Line ours(connect_to(world.bus_path));  // the test itself is no runner either
    for (Line* line : {&theirs, &ours}) {
        CHECK(line->closed());
        CHECK_FALSE(line->has_reply(1));
    }
    CHECK(session.ask("message.receive", kNothing).ok);
}

TEST_CASE("a runner's pid with another start time is a stranger") {
    World world;
    world.start_configured();
    Runner runner;
    wire::BindLaunchArgs args;
    args.seat = {"coder", ""};
    args.run = kCoderRun;
    args.harness = "script";
    args.launched_by = "jordan";
    args.process = runner.identity();
    args.process.runner_start_time += "1";
    REQUIRE(world.host->ask("bindLaunch", args.to_value()).ok);
    CHECK(Line(runner.connect(world.bus_path)).closed());
}

TEST_CASE("a new connection of a run replaces the older one") {
    World world;
    world.start_configured();
    auto session = world.session({"coder", ""}, kCoderRun);
    Line newer(session.runner->connect(world.bus_path));
    CHECK(newer.ask("message.receive", kNothing, session.cap).ok);
    CHECK(session.line->closed());
    CHECK(newer.ask("message.receive", kNothing, session.cap).ok);
}

TEST_CASE("a capability works on its own run's connection only") {
    World world;
    world.start_configured();
    const auto coder = world.session({"coder", ""}, kCoderRun);
    const auto pm = world.session({"pm", ""}, kPmRun);
    CHECK(pm.line->ask("message.receive", kNothing, coder.cap).error == "unknown-capability");
    CHECK(pm.line->ask("message.receive", kNothing).error == "unknown-capability");
    CHECK(pm.ask("message.receive", kNothing).ok);
}

TEST_CASE("the end of a run closes its connection and refuses its runner") {
    World world;
    world.start_configured();
    const auto session = world.session({"coder", ""}, kCoderRun);
    session.line->post(
        "message.receive", wire::MessageReceiveArgs{true, ""}.to_value(), session.cap);
    wire::EndLaunchArgs args;
    args.seat = session.seat;
    args.run = session.run;
    args.process = session.runner->identity();
    REQUIRE(world.host->ask("endLaunch", args.to_value()).ok);
    CHECK(session.line->closed());
    CHECK(Line(session.runner->connect(world.bus_path)).closed());
}

TEST_CASE("admin.sock refuses a session's processes and peers that have exited") {
    World world;
    world.start_configured();
    const auto session = world.session({"pm", ""}, kPmRun);
    Line inside(session.runner->connect(world.admin_path));
    CHECK(inside.wait_reply(0).error == "not-human");
    CHECK(inside.closed());

    // Accepted only after its process has gone: the broker is held still meanwhile.
    Runner brief;
    world.send_signal(SIGSTOP);
    Line orphan(brief.connect(world.admin_path));
    brief.kill();
    world.send_signal(SIGCONT);
    CHECK(orphan.wait_reply(0).error == "not-human");
    CHECK(orphan.closed());
    CHECK(world.admin()->ask("sessions", kNothing).ok);
}

TEST_CASE("the human's connections are bounded, and one that closes makes room") {
    World world;
    world.start_configured();
    std::vector<std::unique_ptr<Line>> open;
    for (size_t i = 0; i < limits::kAdminClientsMax; ++i) {
        open.push_back(world.admin());
        REQUIRE(open.back()->ask("sessions", kNothing).ok);
    }
    const auto refused = world.admin();
    CHECK(refused->wait_reply(0).error == "quota-exceeded");
    CHECK(refused->closed());
    // Seen as closed by the time a later request of another connection is answered.
    open.pop_back();
    REQUIRE(open.back()->ask("sessions", kNothing).ok);
    CHECK(world.admin()->ask("sessions", kNothing).ok);
}

TEST_CASE("without free descriptors callers wait, without a busy loop, and are served later") {
    World world;
    world.start_configured();
    const auto session = world.session({"coder", ""}, kCoderRun);
    rlimit limit{};
    REQUIRE(prlimit(world.broker(), RLIMIT_NOFILE, nullptr, &limit) == 0);
    const rlimit none{4, limit.rlim_max};
    REQUIRE(prlimit(world.broker(), RLIMIT_NOFILE, &none, nullptr) == 0);
    const auto human = world.admin();
    const int64_t id = human->post("sessions", kNothing);
    CHECK(session.ask("message.receive", kNothing).ok);  // who is connected is served
    REQUIRE(prlimit(world.broker(), RLIMIT_NOFILE, &limit, nullptr) == 0);
    CHECK(human->wait_reply(id).ok);
}
