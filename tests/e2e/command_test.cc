// Goal: the commands say what a person needs to know, and see a broker's death through. Method: the
// real `mosaic` beside a real host.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>

#include <string>
#include <vector>

#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

// A command that runs beside the test.
struct Background {
    std::string out;
    Child child;

    Background(const World& world, std::vector<std::string> arguments)
        : out(world.root + "/background.out") {
        arguments.insert(arguments.begin(), world.prefix() + "/bin/mosaic");
        arguments.insert(arguments.end(), {"--config", world.system_file, "--data", world.data});
        const UniqueFd file(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
        REQUIRE(file.valid());
        child = Child::start(
            arguments, world.environment(), {.out = file.get(), .err = file.get(), .extra = {}});
    }
};

}  // namespace

TEST_CASE("a wait for a reply outlives the broker") {
    World world;
    world.start();
    world.launch("coder");
    const std::string coder = world.workspace("coder");
    Background send(world,
                    {"send",
                     "coder",
                     "touch started; while ! [ -e go ]; do sleep 0.05; done; echo answered",
                     "--wait",
                     "60"});
    REQUIRE(wait_for_change({coder}, [&] { return exists(coder + "/started"); }));
    const pid_t broker = world.broker_pid();
    REQUIRE(broker > 0);
    ::kill(broker, SIGKILL);
    REQUIRE(wait_gone(broker));
    write_text(coder + "/go", "");
    const auto exit = send.child.wait();
    REQUIRE(exit.has_value());
    CHECK(exit->code == 0);
    CHECK(trim(read_text(send.out)) == "answered");
}

TEST_CASE("followed events go on after the broker was killed") {
    World world;
    world.start();
    Background events(world, {"events", "--follow", "--json"});
    const auto comes = [&](const std::string& word) {
        return wait_for_change({world.root}, [&] { return contains(read_text(events.out), word); });
    };
    world.launch("coder");
    REQUIRE(comes("role.claimed"));
    const pid_t broker = world.broker_pid();
    ::kill(broker, SIGKILL);
    REQUIRE(wait_gone(broker));
    world.stop_run("coder");
    CHECK(comes("session.ended"));
    // None twice.
    const std::string all = read_text(events.out);
    CHECK(all.find("role.claimed") == all.rfind("role.claimed"));
    // Without a host there is nothing to wait for.
    world.stop();
    const auto exit = events.child.wait();
    REQUIRE(exit.has_value());
    CHECK(exit->code == 1);
    CHECK_CONTAINS(read_text(events.out), "admin.sock");
}

TEST_CASE("a message to a role that doesn't run says that it waits") {
    World world;
    world.start();
    const Finished sent = world.mosaic({"send", "coder", "later"});
    CHECK(sent.exit.code == 0);
    CHECK_CONTAINS(sent.err, "coder isn't running");
    world.launch("coder");
    const Finished now = world.mosaic({"send", "coder", "echo now"});
    CHECK(now.exit.code == 0);
    CHECK(now.err.empty());
    const Finished empty = world.mosaic({"send", "coder", ""});
    CHECK(empty.exit.code == 2);
    CHECK_CONTAINS(empty.err, "empty");
}

TEST_CASE("a stop of an instance names its runs of threads") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder", "t2"), "run");
    const Finished stopped = world.mosaic({"stop", "coder"});
    CHECK(stopped.exit.code == 1);
    CHECK_CONTAINS(stopped.err, run);
    CHECK_CONTAINS(stopped.err, "--thread t2");
    CHECK(world.mosaic({"stop", "coder", "--thread", "t2"}).exit.code == 0);
}

TEST_CASE("ps without a host says so and shows what the files say") {
    World world;
    world.start();
    world.launch("coder");
    CHECK(world.mosaic({"ps"}).err.empty());
    // It dies with its host, and has the socket for as long as it lives.
    const pid_t broker = world.broker_pid();
    world.kill();
    REQUIRE(wait_gone(broker));
    const Finished ps = world.mosaic({"ps"});
    CHECK(ps.exit.code == 0);
    CHECK_CONTAINS(ps.err, "no host runs");
    CHECK_CONTAINS(ps.out, "coder");
    CHECK(world.mosaic({"ps", "--json"}).err.empty());
    world.start();
}

TEST_CASE("what isn't a command line is said in JSON too when that was asked for") {
    World world;
    world.write_config();
    const Finished wrong = world.mosaic({"lunch", "coder", "--json"});
    CHECK(wrong.exit.code == 4);
    CHECK_CONTAINS(wrong.err, "lunch");
    const json::Value said = wrong.json();
    CHECK(*said.find("ok") == json::Value(false));
    CHECK(text(said, "error") == "usage");
    CHECK_CONTAINS(text(said, "message"), "lunch");
}

TEST_CASE("config shows what is in force and where a file is wrong") {
    World world;
    world.system.set("limits", object({{"runsKept", 7}}));
    world.write_config();
    const Finished shown = world.mosaic({"config", "--json"});
    CHECK(shown.exit.code == 0);
    const json::Value all = *json::parse(shown.out);
    const json::Value* limits = all.find("system")->find("limits");
    CHECK(*limits->find("runsKept") == json::Value(7));
    CHECK(*limits->find("claimMs") == json::Value(10'000));
    const json::Value* coder = all.find("businesses")->find("acme")->find("roles")->find("coder");
    REQUIRE(coder != nullptr);
    CHECK(text(*coder, "workspace") == world.workspace("coder"));
    CHECK_CONTAINS(world.mosaic({"config"}).out, "system.limits.runsKept");
    world.business.set("humann", "jordan");
    world.write_config();
    const Finished wrong = world.mosaic({"config"});
    CHECK(wrong.exit.code == 3);
    CHECK_CONTAINS(wrong.err, "humann");
}

TEST_CASE("service install writes a unit that pins what the shell finds") {
    World world;
    world.write_config();
    const std::string unit = world.root + "/xdg/systemd/user/mosaic-host@.service";
    const Finished printed = world.mosaic({"service", "install", "--print"});
    CHECK(printed.exit.code == 0);
    CHECK(!exists(unit));
    CHECK_CONTAINS(printed.out, "ExecStart=" + world.prefix() + "/bin/mosaic-host --business %i");
    CHECK_CONTAINS(printed.out, "PATH=" + world.prefix() + "/bin:");
    // The service's user manager knows nothing of --config.
    CHECK_CONTAINS(printed.out, "MOSAIC_CONFIG=" + world.system_file + "\"");
    // No module that is on has such a program.
    const Finished unknown = world.mosaic({"service", "install", "--nosuch", "/bin/true"});
    CHECK(unknown.exit.code == 1);
    CHECK_CONTAINS(unknown.err, "nosuch");
    CHECK(!exists(unit));
    CHECK(world.mosaic({"service", "install"}).exit.code == 0);
    CHECK(read_text(unit) == printed.out);
    world.system.set("dataRoot", world.root + "/roots");
    world.write_config();
    CHECK_CONTAINS(world.mosaic({"service", "install", "--print"}).err,
                   "make that " + world.root + "/roots/%i");
}
