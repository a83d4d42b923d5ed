// Goal: a host that is killed at any moment loses nothing: the next one ends what is left, once,
// and every seat can be launched again; it never signals a stranger. Method: SIGKILL at chosen and
// at random moments, doctored entries, then a fresh host on the same data root.

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "e2e/puppet.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

json::Value read_sessions_file(const World& world) {
    return *json::parse(read_text(world.bus_host() + "/sessions.json"), {.depth_max = 16});
}

void write_sessions_file(const World& world, const json::Value& value) {
    write_text(world.bus_host() + "/sessions.json", json::dump(value), 0600);
}

size_t ends_of(const World& world, std::string_view run) {
    size_t lines = 0;
    for (const json::Value& end : world.log("end")) {
        lines += text(end, "run") == run ? 1U : 0U;
    }
    size_t events = 0;
    for (const json::Value& event : world.events()) {
        events += text(event, "type") == "session.ended" && text(event, "run") == run ? 1U : 0U;
    }
    CHECK(events == 1);
    return lines;
}

// A runner lives before the broker has heard of its run; what isn't bound has no end.
void wait_bound(const World& world, std::string_view run) {
    LineStream admin = world.admin();
    for (int64_t seen = 0;;) {
        const json::Value reply =
            admin.request("events", object({{"since", seen}, {"follow", true}}));
        const json::Value* result = reply.find("result");
        REQUIRE_MESSAGE(result != nullptr, json::dump(reply));
        for (const json::Value& event : *result->find("events")->array()) {
            seen = number(event, "seq");
            if (text(event, "type") == "session.bound" && text(event, "run") == run) {
                return;
            }
        }
    }
}

// How a host with --pm ends that can signal only what it has started itself: to it, whatever was
// there before doesn't die. Nothing where the kernel can't do that.
std::optional<Exit> start_unable_to_kill_others(World& world) {
    struct RulesetAttr {
        uint64_t handled_access_fs = 0;
        uint64_t handled_access_net = 0;
        uint64_t scoped = 0;
    };

    constexpr uint64_t kScopeSignal = 2;  // Linux 6.12, include/uapi/linux/landlock.h
    RulesetAttr attr;
    attr.scoped = kScopeSignal;
    const UniqueFd scope(
        static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0)));
    if (!scope.valid()) {
        return std::nullopt;
    }
    // The domain is this thread's and its children's.
    std::optional<Exit> exit;
    std::thread([&] {
        if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
            ::syscall(SYS_landlock_restrict_self, scope.get(), 0) == 0) {
            exit = world.start_fails(
                {.pm = true, .more_arguments = {}, .more_env = {}, .inherited = {}});
        }
    }).join();
    REQUIRE(exit.has_value());
    return exit;
}

}  // namespace

TEST_CASE("sessions outlive a killed host and the next one ends them") {
    World world;
    world.start();
    const std::string coder = text(world.launch("coder"), "run");
    const std::string reviewer = text(world.launch("reviewer"), "run");
    const std::string thread = text(world.launch("tester", "t1"), "run");
    const auto entries = world.sessions();
    REQUIRE(entries.size() == 3);
    world.kill();
    for (const json::Value& entry : entries) {
        CHECK(!start_time_of(runner_pid(entry)).empty());
    }
    world.start();
    for (const json::Value& entry : entries) {
        CHECK(wait_gone(runner_pid(entry), 0));
        CHECK(wait_gone(outer_pid(entry), 0));
    }
    CHECK(world.sessions().empty());
    for (const std::string& run : {coder, reviewer, thread}) {
        CHECK(text(world.wait_log("end", run), "reason") == "host-lost");
        CHECK(ends_of(world, run) == 1);
        CHECK(exists(world.run_directory(run)));
    }
    world.launch("coder");
    world.launch("reviewer");
    world.launch("tester", "t1");
    CHECK(trim(world.ask("coder", "echo back")) == "back");
}

TEST_CASE("a session that died after its host did is ended too") {
    World world;
    world.start();
    const std::string gone = text(world.launch("coder"), "run");
    const std::string outer_gone = text(world.launch("reviewer"), "run");
    const json::Value entry = *world.session(gone);
    const json::Value half = *world.session(outer_gone);
    world.kill();
    ::kill(runner_pid(entry), SIGKILL);
    REQUIRE(wait_gone(runner_pid(entry)));
    REQUIRE(wait_gone(outer_pid(entry)));
    ::kill(outer_pid(half), SIGKILL);
    world.start();
    CHECK(wait_gone(runner_pid(half), 0));
    for (const std::string& run : {gone, outer_gone}) {
        CHECK(text(world.wait_log("end", run), "reason") == "host-lost");
        CHECK(ends_of(world, run) == 1);
    }
    CHECK(world.sessions().empty());
    world.launch("coder");
    world.launch("reviewer");
}

TEST_CASE("messages that were acknowledged outlive a killed host") {
    World world;
    world.start();
    LineStream admin = world.admin();
    const json::Value sent = admin.request(
        "message.send", object({{"to", "coder"}, {"class", "REQUEST"}, {"body", "echo kept"}}));
    REQUIRE(*sent.find("ok") == json::Value(true));
    world.kill();
    world.start();
    world.launch("coder");
    admin = world.admin();
    const json::Value reply =
        admin.request("message.receive",
                      object({{"wait", true}, {"in_reply_to", text(*sent.find("result"), "id")}}));
    CHECK(trim(text(*reply.find("result")->find("message"), "body")) == "kept");
}

TEST_CASE("an entry that names a stranger ends host-lost and the stranger lives") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const json::Value real = *world.session(run);
    world.kill();
    ::kill(runner_pid(real), SIGKILL);
    REQUIRE(wait_gone(outer_pid(real)));
    // A live process of ours that only looks the part: bwrap, without this run's directory.
    Child stranger = Child::start({"/usr/bin/bwrap",
                                   "--ro-bind",
                                   "/",
                                   "/",
                                   "--unshare-pid",
                                   "--as-pid-1",
                                   "--die-with-parent",
                                   "--",
                                   "/bin/sleep",
                                   "1000"},
                                  world.environment(),
                                  {});
    Child sleeper = Child::start({"/bin/sleep", "1000"}, world.environment(), {});
    json::Value file = read_sessions_file(world);
    json::Value& entry = file.find("sessions")->array()->front();
    SUBCASE("with the right start times") {
        entry.set("pid", int64_t{stranger.pid()});
        entry.set("startTime", start_time_of(stranger.pid()));
        entry.set("runnerPid", int64_t{sleeper.pid()});
        entry.set("runnerStartTime", start_time_of(sleeper.pid()));
    }
    SUBCASE("with other start times") {
        entry.set("pid", int64_t{stranger.pid()});
        entry.set("runnerPid", int64_t{sleeper.pid()});
    }
    SUBCASE("of the test itself") {
        entry.set("pid", int64_t{::getpid()});
        entry.set("startTime", start_time_of(::getpid()));
        entry.set("runnerPid", int64_t{::getpid()});
        entry.set("runnerStartTime", start_time_of(::getpid()));
    }
    write_sessions_file(world, file);
    world.start();
    CHECK(text(world.wait_log("end", run), "reason") == "host-lost");
    CHECK(world.sessions().empty());
    CHECK(!stranger.wait(0).has_value());
    CHECK(!sleeper.wait(0).has_value());
    world.launch("coder");
}

TEST_CASE("pids of another boot are never signalled") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    world.kill();
    ::kill(runner_pid(*world.session(run)), SIGKILL);
    REQUIRE(wait_gone(outer_pid(*world.session(run))));
    Child sleeper = Child::start({"/bin/sleep", "1000"}, world.environment(), {});
    json::Value file = read_sessions_file(world);
    file.set("bootId", "00000000-0000-4000-8000-000000000000");
    json::Value& entry = file.find("sessions")->array()->front();
    entry.set("runnerPid", int64_t{sleeper.pid()});
    entry.set("runnerStartTime", start_time_of(sleeper.pid()));
    write_sessions_file(world, file);
    world.start();
    CHECK(text(world.wait_log("end", run), "reason") == "host-lost");
    CHECK(!sleeper.wait(0).has_value());
}

TEST_CASE("a session that no entry names is found and ended") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const json::Value entry = *world.session(run);
    world.kill();
    json::Value file = read_sessions_file(world);
    file.set("sessions", json::Array{});
    write_sessions_file(world, file);
    // A reader of the run's own file is no session.
    Child tail = Child::start(
        {"/usr/bin/tail", "-f", world.run_directory(run) + "/runner.log"}, world.environment(), {});
    world.start();
    CHECK(wait_gone(runner_pid(entry), 0));
    CHECK(wait_gone(outer_pid(entry), 0));
    CHECK(text(world.wait_log("end", run), "reason") == "host-lost");
    CHECK(ends_of(world, run) == 1);
    CHECK(!tail.wait(0).has_value());
    world.launch("coder");
}

TEST_CASE("a run of an entry that the broker has never heard of gets its end") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    world.stop_run(run);
    world.wait_log("end", run);
    REQUIRE(world.wait_sessions(0));
    world.kill();
    json::Value file = read_sessions_file(world);
    file.find("sessions")
        ->array()
        ->push_back(object({{"business", "acme"},
                            {"instance", "coder"},
                            {"run", "r0123456789ab"},
                            {"runDir", world.run_directory("r0123456789ab")},
                            {"pid", 4'194'303},
                            {"startTime", "1"},
                            {"runnerPid", 4'194'302},
                            {"runnerStartTime", "1"},
                            {"launchedBy", "jordan"},
                            {"harness", "script"},
                            {"provider", kProvider},
                            {"model", kModel},
                            {"at", "2026-01-01T00:00:00.000Z"}}));
    write_sessions_file(world, file);
    world.start();
    CHECK(text(world.wait_log("end", "r0123456789ab"), "reason") == "host-lost");
    // The ended run isn't ended a second time.
    CHECK(ends_of(world, run) == 1);
    CHECK(ends_of(world, "r0123456789ab") == 1);
}

TEST_CASE("an entry of a run whose end was recorded gets no second end") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const json::Value file = read_sessions_file(world);
    world.stop_run(run);
    world.wait_log("end", run);
    REQUIRE(world.wait_sessions(0));
    world.kill();
    write_sessions_file(world, file);
    world.start();
    CHECK(world.sessions().empty());
    CHECK(ends_of(world, run) == 1);
    CHECK(text(world.log("end")[0], "reason") == "stopped");
    world.launch("coder");
}

TEST_CASE("an interrupted replacement of sessions.json is ignored and cleared away") {
    World world;
    world.start();
    world.kill();
    const auto before = names_in(world.bus_host());
    write_text(world.bus_host() + "/sessions.json.tmp", "{\"half", 0600);
    world.start();
    CHECK(world.sessions().empty());
    world.launch("coder");
    world.stop_run("coder");
    CHECK(world.wait_sessions(0));
    for (const std::string& name : names_in(world.bus_host())) {
        CHECK(!contains(name, "tmp"));
    }
}

TEST_CASE("a host killed before its claim leaves no session and no held role") {
    World world(World::Runner::puppet);
    world.start();
    const PuppetMaster master(world, "coder");
    std::string run;
    {
        LineStream admin = world.admin();
        admin.ask("launch", object({{"instance", "coder"}}));
        Puppet puppet = master.accept();
        run = puppet.run();
        SUBCASE("with the capability delivered") {
            puppet.capability();
        }
        SUBCASE("with the capability not read") {
            wait_bound(world, run);
        }
        world.kill();
        world.start();
        CHECK(world.sessions().empty());
    }
    CHECK(text(world.wait_log("end", run), "reason") == "host-lost");
    CHECK(ends_of(world, run) == 1);
    LineStream admin = world.admin();
    const int64_t id = admin.ask("launch", object({{"instance", "coder"}}));
    Puppet puppet = master.accept();
    LineStream bus = puppet.claim(puppet.capability());
    CHECK(*admin.reply(id).find("ok") == json::Value(true));
}

TEST_CASE("hosts killed at random moments of launches lose nothing") {
    World world;
    std::mt19937 random(20260131);
    std::set<std::string> runs;
    for (int round = 0; round < 12; ++round) {
        CAPTURE(round);
        world.start();
        for (const char* seat : {"coder", "reviewer", "tester"}) {
            world.admin().ask("launch", object({{"instance", seat}}));
        }
        // Not a wait for anything: the moment itself is what varies, over the whole of a launch.
        const int moment = static_cast<int>(random() % 120);
        ::poll(nullptr, 0, moment);
        world.kill();
    }
    world.start();
    CHECK(world.sessions().empty());
    // No bound run without exactly one end.
    std::map<std::string, int> open;
    for (const json::Value& event : world.events()) {
        if (text(event, "type") == "session.bound") {
            ++open[text(event, "run")];
        } else if (text(event, "type") == "session.ended") {
            --open[text(event, "run")];
        }
    }
    for (const auto& [run, count] : open) {
        CAPTURE(run);
        CHECK(count == 0);
    }
    world.launch("coder");
    world.launch("reviewer");
    world.launch("tester");
    // What lives now is what was just launched: three outer bwraps with their runners, host and
    // broker.
    CHECK(world.sessions().size() == 3);
}

TEST_CASE("a leftover that doesn't die takes room until it is gone") {
    World world(World::Runner::puppet);
    world.launch_block().set(
        "models", json::Array{object({{"provider", kProvider}, {"model", kModel}, {"max", 1}})});
    world.start();
    const PuppetMaster coder(world, "coder");
    const PuppetMaster reviewer(world, "reviewer");
    LineStream admin = world.admin();
    int64_t id = 0;
    Puppet stuck = coder.launch(admin, id);
    LineStream bus = stuck.claim(stuck.capability());
    REQUIRE(*admin.reply(id).find("ok") == json::Value(true));
    stuck.let_outlive();
    world.kill();
    const auto exit = start_unable_to_kill_others(world);
    if (!exit) {
        MESSAGE("skipped: this kernel has no Landlock scopes");
        return;
    }
    // It served when it had waited ten seconds, and had no room for the PM.
    CHECK(exit->code == 3);
    CHECK_CONTAINS(world.host_log(), "of an earlier host doesn't die");
    CHECK_CONTAINS(world.host_log(), "PM launch refused: capacity-full");
    CHECK_CONTAINS(world.host_log(), "sessions: 1 of 1");
    CHECK(world.session(stuck.run()).has_value());
    CHECK(world.log("end").empty());
    // A host that can kill it ends it, and the room is free.
    world.start();
    CHECK(text(world.wait_log("end", stuck.run()), "reason") == "host-lost");
    LineStream again = world.admin();
    Puppet next = reviewer.launch(again, id);
    bus = next.claim(next.capability());
    CHECK(*again.reply(id).find("ok") == json::Value(true));
    next.exit(0);
    world.wait_log("end", next.run());
}
