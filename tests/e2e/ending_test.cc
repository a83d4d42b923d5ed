// Goal: each way in which a run can end has its reason, in the launch log and at the broker, frees
// the seat and leaves nothing. Method: the tests' stand-in runner, told how to end; signals from
// outside.

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>

#include <string>
#include <utility>
#include <vector>

#include "e2e/puppet.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

// A coder that has claimed, whose end the test decides.
struct Running {
    World& world;
    LineStream admin;
    int64_t id = 0;
    Puppet puppet;
    LineStream bus;

    Running(World& w, const PuppetMaster& master)
        : world(w),
          admin(w.admin()),
          puppet(master.launch(admin, id)),
          bus(puppet.claim(puppet.capability())) {
        REQUIRE(*admin.reply(id).find("ok") == json::Value(true));
    }

    [[nodiscard]] json::Value entry() const { return *world.session(puppet.run()); }
};

// What the broker recorded as the end of a run.
json::Value ended_event(const World& world, std::string_view run) {
    json::Value found;
    int count = 0;
    for (const json::Value& event : world.events()) {
        if (text(event, "type") == "session.ended" && text(event, "run") == run) {
            found = event;
            ++count;
        }
    }
    CHECK(count == 1);
    return found;
}

void check_end(World& world,
               std::string_view run,
               std::string_view reason,
               int code,
               std::string_view signal) {
    const json::Value line = world.wait_log("end", run);
    const json::Value event = ended_event(world, run);
    for (const json::Value& record : {line, event}) {
        CHECK(text(record, "reason") == reason);
        if (signal.empty()) {
            CHECK(is_null(record, "signal"));
            CHECK(number(record, "exitCode") == code);
        } else {
            CHECK(is_null(record, "exitCode"));
            CHECK(text(record, "signal") == signal);
        }
    }
    CHECK(world.wait_sessions(0));
    size_t lines = 0;
    for (const json::Value& end : world.log("end")) {
        lines += text(end, "run") == run ? 1U : 0U;
    }
    CHECK(lines == 1);
}

}  // namespace

TEST_CASE("a runner's exit code decides the reason of its end") {
    World world(World::Runner::puppet);
    world.start();
    const PuppetMaster master(world, "coder");
    const std::vector<std::pair<int, const char*>> table = {
        {0, "stopped"},
        {1, "failed"},
        {7, "failed"},
        {19, "failed"},
        {20, "founder-credentials"},
        {21, "claim-refused"},
        {22, "session-invalid"},
        {23, "broker-unreachable"},
        {24, "failed"},
        {127, "failed"},
        {128, "failed"},
        {200, "failed"},
        {255, "failed"},
    };
    for (const auto& [code, reason] : table) {
        CAPTURE(code);
        Running running(world, master);
        running.puppet.exit(code);
        check_end(world, running.puppet.run(), reason, code, "");
        // Why, in the runner's own last words.
        const json::Value end = world.wait_log("end", running.puppet.run());
        const json::Value* detail = end.find("detail");
        const bool quoted = detail != nullptr && detail->string() != nullptr &&
                            contains(*detail->string(), "told to exit with");
        CHECK(quoted == (code != 0));
    }
}

TEST_CASE("an exit code of 128 and a signal's number reads as killed") {
    World world(World::Runner::puppet);
    world.start();
    const PuppetMaster master(world, "coder");
    const std::vector<std::pair<int, const char*>> table = {
        {129, "SIGHUP"}, {134, "SIGABRT"}, {137, "SIGKILL"}, {139, "SIGSEGV"}, {143, "SIGTERM"}};
    for (const auto& [code, signal] : table) {
        CAPTURE(code);
        Running running(world, master);
        running.puppet.exit(code);
        check_end(world, running.puppet.run(), "killed", 0, signal);
    }
}

TEST_CASE("a killed runner and a killed bwrap both end the run as killed") {
    World world(World::Runner::puppet);
    world.start();
    const PuppetMaster master(world, "coder");
    {
        Running running(world, master);
        ::kill(runner_pid(running.entry()), SIGKILL);
        check_end(world, running.puppet.run(), "killed", 0, "SIGKILL");
    }
    for (const auto& [number, name] :
         std::vector<std::pair<int, const char*>>{{SIGKILL, "SIGKILL"}, {SIGTERM, "SIGTERM"}}) {
        CAPTURE(name);
        Running running(world, master);
        const pid_t runner = runner_pid(running.entry());
        running.puppet.let_outlive();
        ::kill(outer_pid(running.entry()), number);
        check_end(world, running.puppet.run(), "killed", 0, name);
        CHECK(wait_gone(runner));
    }
}

TEST_CASE("a real runner that is killed frees its seat and keeps unanswered messages") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    LineStream admin = world.admin();
    const json::Value sent = admin.request(
        "message.send",
        object({{"to", "coder"},
                {"class", "REQUEST"},
                {"body", "echo . >> started; [ -e go ] || exec sleep 1000; echo answered"}}));
    const std::string id = text(*sent.find("result"), "id");
    REQUIRE(wait_for_change({world.workspace("coder")},
                            [&] { return exists(world.workspace("coder") + "/started"); }));
    ::kill(runner_pid(*world.session(run)), SIGKILL);
    CHECK(text(world.wait_log("end", run), "reason") == "killed");
    REQUIRE(world.wait_sessions(0));
    write_text(world.workspace("coder") + "/go", "");
    world.launch("coder");
    const json::Value reply =
        admin.request("message.receive", object({{"wait", true}, {"in_reply_to", id}}));
    CHECK(trim(text(*reply.find("result")->find("message"), "body")) == "answered");
}

TEST_CASE("a runner that exits before its claim fails the launch") {
    World world(World::Runner::puppet);
    world.start();
    const PuppetMaster master(world, "coder");
    LineStream admin = world.admin();
    SUBCASE("after it has the capability") {
        const int64_t id = admin.ask("launch", object({{"instance", "coder"}}));
        Puppet puppet = master.accept();
        puppet.capability();
        puppet.exit(21);
        const json::Value reply = admin.reply(id);
        CHECK(text(reply, "error") == "launch-failed");
        check_end(world, puppet.run(), "claim-refused", 21, "");
        CHECK_CONTAINS(text(reply, "message"), "claim-refused (puppet: told to exit with 21)");
    }
    SUBCASE("by a signal") {
        const int64_t id = admin.ask("launch", object({{"instance", "coder"}}));
        Puppet puppet = master.accept();
        puppet.capability();
        ::kill(runner_pid(*world.session(puppet.run())), SIGKILL);
        CHECK(text(admin.reply(id), "error") == "launch-failed");
        check_end(world, puppet.run(), "killed", 0, "SIGKILL");
    }
    SUBCASE("with its standard input closed") {
        master.set_mode("close-stdin");
        const int64_t id = admin.ask("launch", object({{"instance", "coder"}}));
        Puppet puppet = master.accept();
        puppet.exit(22);
        CHECK(text(admin.reply(id), "error") == "launch-failed");
        CHECK(text(world.wait_log("end", puppet.run()), "reason") == "session-invalid");
    }
    CHECK(world.wait_sessions(0));
    CHECK(world.host().running());
}

TEST_CASE("a runner that exits at once fails each launch and the seat stays free") {
    World world(World::Runner::puppet);
    world.start();
    const PuppetMaster master(world, "coder");
    for (const char* mode : {"exit 0", "exit 1", "exit 21", "exit 137"}) {
        CAPTURE(mode);
        master.set_mode(mode);
        CHECK(world.launch_refused("coder") == "launch-failed");
        CHECK(world.wait_sessions(0));
    }
    CHECK(world.log("launch").empty());
    // Each failed launch has exactly one line: refused before it was bound, end after.
    CHECK(world.log().size() == 4);
    master.set_mode("");
    Running again(world, master);
}

TEST_CASE("a runner that never claims is killed when its time is over") {
    World world(World::Runner::puppet);
    world.system.set("limits", object({{"claimMs", 1500}}));
    world.start();
    const PuppetMaster master(world, "coder");
    LineStream admin = world.admin();
    const int64_t id = admin.ask("launch", object({{"instance", "coder"}}));
    Puppet puppet = master.accept();
    puppet.capability();
    const json::Value entry = *world.session(puppet.run());
    CHECK(text(admin.reply(id), "error") == "launch-failed");
    const json::Value end = world.wait_log("end", puppet.run());
    CHECK(text(end, "reason") == "failed");
    CHECK_CONTAINS(text(end, "detail"), "claim");
    CHECK(wait_gone(runner_pid(entry)));
    CHECK(wait_gone(outer_pid(entry)));
    CHECK(world.wait_sessions(0));
    // The seat is free again.
    Running again(world, master);
}

TEST_CASE("a host that was stopped for longer than a launch may take gives it that time back") {
    constexpr int kClaimMs = 6'000;
    World world(World::Runner::puppet);
    world.system.set("limits", object({{"claimMs", kClaimMs}}));
    world.start();
    const PuppetMaster master(world, "coder");
    LineStream admin = world.admin();
    int64_t id = 0;
    Puppet puppet = master.launch(admin, id);
    const std::string capability = puppet.capability();
    // Its deadline comes and goes while the host can't do anything about it.
    world.host().signal(SIGSTOP);
    ::poll(nullptr, 0, kClaimMs + 1'000);
    world.host().signal(SIGCONT);
    const LineStream bus = puppet.claim(capability);
    const json::Value reply = admin.reply(id);
    CHECK_MESSAGE(*reply.find("ok") == json::Value(true), json::dump(reply));
    CHECK(world.session(puppet.run()).has_value());
    puppet.exit(0);
    check_end(world, puppet.run(), "stopped", 0, "");
}

TEST_CASE("the capability stops working with the end and not before") {
    World world(World::Runner::puppet);
    world.start();
    const PuppetMaster master(world, "coder");
    Running running(world, master);
    const json::Value reply = running.bus.request("role.release", json::Object{}, "");
    CHECK(*reply.find("ok") == json::Value(false));
    running.puppet.exit(0);
    CHECK(running.bus.closed());
    check_end(world, running.puppet.run(), "stopped", 0, "");
}
