// Goal: a warm seat is what a launch would have made, only earlier: it is taken, made again behind
// it, thrown away when the launch would be another today, and until then it is nobody's: no seat,
// no room, no role, no event, no line. Method: the real host, sandboxes and commands.

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

bool is_warm(const json::Value& entry) {
    const json::Value* warm = entry.find("warm");
    return warm != nullptr && *warm == json::Value(true);
}

std::vector<json::Value> warm_of(const World& world, std::string_view instance) {
    std::vector<json::Value> out;
    for (const json::Value& entry : world.sessions()) {
        if (is_warm(entry) && text(entry, "instance") == instance) {
            out.push_back(entry);
        }
    }
    return out;
}

// Waits for so many warm seats of the instance, none of them of these runs.
std::vector<json::Value> wait_warm(const World& world,
                                   std::string_view instance,
                                   size_t count = 1,
                                   const std::vector<std::string>& not_these = {}) {
    std::vector<json::Value> found;
    const bool there = wait_for_change({world.bus_host()}, [&] {
        found = warm_of(world, instance);
        return found.size() == count &&
               std::none_of(found.begin(), found.end(), [&](const json::Value& entry) {
                   return std::find(not_these.begin(), not_these.end(), text(entry, "run")) !=
                          not_these.end();
               });
    });
    REQUIRE_MESSAGE((there && world.wait_counted_warm(found.size())),
                    "no such warm seats; the host's log:\n"
                        << world.host_log());
    return found;
}

// Nothing is left of it, and nothing was ever said of it.
void check_gone(const World& world, const json::Value& entry) {
    const std::string run = text(entry, "run");
    CAPTURE(run);
    CHECK(wait_gone(runner_pid(entry)));
    CHECK(wait_gone(outer_pid(entry)));
    CHECK(wait_for_change({world.bus_host(), world.data + "/launches/acme"}, [&] {
        return !world.session(run) && !exists(world.run_directory(run));
    }));
    for (const json::Value& line : world.log()) {
        const json::Value* named = line.find("run");
        CHECK((named == nullptr || *named != json::Value(run)));
    }
    for (const json::Value& event : world.events()) {
        const json::Value* named = event.find("run");
        CHECK((named == nullptr || *named != json::Value(run)));
    }
}

int64_t stage(const json::Value& launch, std::string_view name) {
    return number(*launch.find("stages"), name);
}

size_t count_ends(const World& world, std::string_view run) {
    size_t ends = 0;
    for (const json::Value& event : world.events()) {
        ends += text(event, "type") == "session.ended" && text(event, "run") == run ? 1U : 0U;
    }
    return ends;
}

void reload(const World& world) {
    LineStream admin = world.admin();
    const json::Value reply = admin.request("reload", json::Object{});
    REQUIRE_MESSAGE(*reply.find("ok") == json::Value(true), json::dump(reply));
}

}  // namespace

TEST_CASE("a launch takes a warm seat and another is made behind it") {
    World world;
    world.role("coder").set("warm", 1);
    world.start();
    const json::Value seat = wait_warm(world, "coder").front();
    const std::string run = text(seat, "run");
    CHECK(seat.find("launchedBy") == nullptr);
    CHECK(seat.find("at") == nullptr);
    const auto ps = world.ps();
    REQUIRE(ps.size() == 1);
    CHECK(text(ps.front(), "state") == "warm");
    CHECK(*ps.front().find("live") == json::Value(true));
    CHECK_CONTAINS(world.mosaic({"ps"}).out, "warm");
    CHECK_CONTAINS(world.mosaic({"doctor"}).out, "1 warm");
    // Nobody runs, for whoever asks by the seat's name.
    CHECK_CONTAINS(world.mosaic({"stop", "coder"}).err, "no session of coder is running");

    CHECK(text(world.launch("coder"), "run") == run);
    const json::Value line = world.wait_log("launch", run);
    CHECK(text(line, "launchedBy") == "jordan");
    CHECK(stage(line, "prepared") == 0);
    CHECK(stage(line, "spawned") == 0);
    CHECK(stage(line, "persisted") == 0);
    CHECK(stage(line, "checked") <= stage(line, "authorized"));
    CHECK(stage(line, "authorized") <= stage(line, "bound"));
    CHECK(stage(line, "bound") <= stage(line, "claimed"));
    CHECK_CONTAINS(world.host_log(), "launched coder as " + run);
    CHECK_CONTAINS(world.host_log(), "from a warm seat");
    CHECK(trim(world.ask("coder", "echo $MOSAIC_RUN_ID")) == run);
    // Its entry is one like any other by now.
    CHECK(wait_for_change({world.bus_host()}, [&] {
        const auto entry = world.session(run);
        return entry && !is_warm(*entry) && text(*entry, "launchedBy") == "jordan";
    }));
    const json::Value behind = wait_warm(world, "coder").front();
    CHECK(text(behind, "run") != run);
    CHECK(world.launch_refused("coder") == "instance-running");
    world.stop_run("coder");
    world.wait_log("end", run);
    CHECK(text(world.launch("coder"), "run") == text(behind, "run"));
    const json::Value last = wait_warm(world, "coder", 1, {run, text(behind, "run")}).front();
    world.stop();
    CHECK(world.sessions().empty());
    CHECK(wait_gone(runner_pid(last), 0));
    CHECK_FALSE(exists(world.run_directory(text(last, "run"))));
    CHECK(world.log("end").size() == 2);
}

TEST_CASE("warm seats take no room and serve no thread") {
    World world;
    world.role("coder").set("warm", 2);
    world.start();
    const auto seats = wait_warm(world, "coder", 2);
    const std::string thread = text(world.launch("coder", "t1"), "run");
    for (const json::Value& seat : seats) {
        CHECK(text(seat, "run") != thread);
    }
    for (const char* instance : {"pm", "reviewer", "tester"}) {
        world.launch(instance);
    }
    // Four of four: two warm ones beside them count for nothing, and get nobody past the limit.
    CHECK(world.launch_refused("coder") == "capacity-full");
    CHECK(warm_of(world, "coder").size() == 2);
    world.stop_run("tester");
    const std::string taken = text(world.launch("coder"), "run");
    CHECK(std::any_of(seats.begin(), seats.end(), [&](const json::Value& seat) {
        return text(seat, "run") == taken;
    }));
    CHECK(world.launch_refused("tester") == "capacity-full");
}

TEST_CASE("a warm seat that would be made otherwise today is thrown away") {
    World world;
    world.role("coder").set("warm", 1);
    world.start();
    const json::Value seat = wait_warm(world, "coder").front();
    SUBCASE("for another contract") {
        write_text(world.root + "/config/roles/coder.md", "# another coder\n");
    }
    SUBCASE("for another workspace at the same place") {
        std::filesystem::rename(world.workspace("coder"), world.workspace("coder") + ".old");
        std::filesystem::create_directory(world.workspace("coder"));
    }
    const std::string run = text(world.launch("coder"), "run");
    CHECK(run != text(seat, "run"));
    check_gone(world, seat);
    const json::Value line = world.wait_log("launch", run);
    CHECK(stage(line, "prepared") > 0);
    CHECK(trim(world.ask("coder", "echo there")) == "there");
    // The one that is made now fits again.
    const std::string next = text(wait_warm(world, "coder").front(), "run");
    world.stop_run("coder");
    CHECK(text(world.launch("coder"), "run") == next);
}

TEST_CASE("another configuration makes other warm seats") {
    World world;
    world.role("coder").set("warm", 1);
    world.start();
    const json::Value seat = wait_warm(world, "coder").front();
    SUBCASE("another route") {
        world.set_var("coder", "script.command", "echo other; sh");
        world.write_config();
        reload(world);
        const json::Value other = wait_warm(world, "coder", 1, {text(seat, "run")}).front();
        check_gone(world, seat);
        CHECK(text(world.launch("coder"), "run") == text(other, "run"));
        CHECK_CONTAINS(world.ask("coder", "true"), "other");
    }
    SUBCASE("fewer") {
        world.role("coder").set("warm", 0);
        world.write_config();
        reload(world);
        check_gone(world, seat);
        CHECK(warm_of(world, "coder").empty());
        world.launch("coder");
    }
    SUBCASE("more") {
        world.role("coder").set("warm", 3);
        world.write_config();
        reload(world);
        const auto seats = wait_warm(world, "coder", 3);
        CHECK(std::any_of(seats.begin(), seats.end(), [&](const json::Value& one) {
            return text(one, "run") == text(seat, "run");
        }));
    }
    SUBCASE("the same") {
        reload(world);
        CHECK(text(world.launch("coder"), "run") == text(seat, "run"));
    }
}

TEST_CASE("a warm seat that ends by itself is made again") {
    World world;
    world.role("coder").set("warm", 1);
    world.start();
    const json::Value seat = wait_warm(world, "coder").front();
    ::kill(runner_pid(seat), SIGKILL);
    const json::Value other = wait_warm(world, "coder", 1, {text(seat, "run")}).front();
    check_gone(world, seat);
    CHECK_CONTAINS(world.host_log(), "a warm seat of coder failed");
    CHECK(text(world.launch("coder"), "run") == text(other, "run"));
}

TEST_CASE("a stop by its run throws a warm seat away") {
    World world;
    world.role("coder").set("warm", 1);
    world.start();
    const json::Value seat = wait_warm(world, "coder").front();
    world.stop_run(text(seat, "run"));
    check_gone(world, seat);
    wait_warm(world, "coder", 1, {text(seat, "run")});
}

TEST_CASE("one that can't be made is told of once and made when it can be") {
    World world;
    world.role("coder").set("warm", 1);
    const std::string workspace = world.workspace("coder");
    std::filesystem::remove_all(workspace);
    world.start();
    CHECK(wait_for_change({world.root}, [&] {
        return contains(world.host_log(), "no warm seat of coder can be made: workspace-missing");
    }));
    CHECK(world.launch_refused("coder") == "workspace-missing");
    std::filesystem::create_directory(workspace);
    wait_warm(world, "coder");
}

TEST_CASE("a killed host's warm seats leave nothing to the next") {
    World world;
    world.role("coder").set("warm", 2);
    world.start();
    const auto seats = wait_warm(world, "coder", 2);
    world.kill();
    world.role("coder").set("warm", 0);
    world.write_config();
    world.start();
    CHECK(world.sessions().empty());
    for (const json::Value& seat : seats) {
        CHECK(wait_gone(runner_pid(seat), 0));
        CHECK(wait_gone(outer_pid(seat), 0));
        check_gone(world, seat);
    }
    world.launch("coder");
}

TEST_CASE("a run whose entry was still warm when its host died has one end") {
    World world;
    world.role("coder").set("warm", 1);
    world.start();
    const json::Value seat = wait_warm(world, "coder").front();
    const std::string run = text(seat, "run");
    REQUIRE(text(world.launch("coder"), "run") == run);
    bool ended_before = false;
    SUBCASE("it lived") {}
    SUBCASE("its end was recorded and its entry not yet removed") {
        world.stop_run("coder");
        world.wait_log("end", run);
        ended_before = true;
    }
    world.kill();
    // As the file is until the change of the entry is on the disk.
    json::Value file = *json::parse(read_text(world.bus_host() + "/sessions.json"), {16});
    json::Array& entries = *file.find("sessions")->array();
    entries.clear();
    entries.push_back(seat);
    write_text(world.bus_host() + "/sessions.json", json::dump(file), 0600);
    world.role("coder").set("warm", 0);
    world.write_config();
    world.start();
    CHECK(world.sessions().empty());
    CHECK(wait_gone(runner_pid(seat), 0));
    CHECK(text(world.wait_log("end", run), "reason") == (ended_before ? "stopped" : "host-lost"));
    CHECK(world.log("end").size() == 1);
    CHECK(count_ends(world, run) == 1);
    CHECK(exists(world.run_directory(run)));
    world.launch("coder");
}
