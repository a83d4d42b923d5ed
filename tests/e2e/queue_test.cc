// Goal: the queue for set-up loses no turn, whatever happens to a launch that waits in it.

#include <doctest/doctest.h>
#include <signal.h>

#include "e2e/harness.h"
#include "e2e/puppet.h"

using namespace mosaic;
using namespace mosaic::e2e;

TEST_CASE("a launch that is stopped as its turn comes gives the turn back") {
    World world(World::Runner::puppet);
    world.system.set("limits", object({{"setupInFlight", 1}}));
    world.start();
    const PuppetMaster master(world, "coder");
    LineStream admin = world.admin();
    for (int round = 0; round < 4; ++round) {
        CAPTURE(round);
        int64_t first = 0;
        Puppet puppet = master.launch(admin, first);
        const std::string capability = puppet.capability();
        LineStream bus = puppet.connect(world.bus_host() + "/bus.sock");
        REQUIRE(bus.valid());
        const int64_t second = admin.ask("launch", object({{"instance", "reviewer"}}));
        // When two later launches were refused, the second one is authorized: it waits for the turn
        // that the first one has.
        for (int i = 0; i < 2; ++i) {
            const json::Value refused = admin.request("launch", object({{"instance", "nobody"}}));
            CHECK(text(refused, "error") == "instance-not-listed");
        }
        // A broker that wakes up finds the first one's claim and the second one's stop together.
        const pid_t broker = world.broker_pid();
        ::kill(broker, SIGSTOP);
        const int64_t claim = bus.ask("role.claim", object({{"run", puppet.run()}}), capability);
        const int64_t stop = admin.ask("stop", object({{"target", "reviewer"}, {"timeoutMs", 0}}));
        ::kill(broker, SIGCONT);
        CHECK(*bus.reply(claim).find("ok") == json::Value(true));
        CHECK(*admin.reply(first).find("ok") == json::Value(true));
        CHECK(*admin.reply(stop).find("ok") == json::Value(true));
        CHECK(text(admin.reply(second), "error") == "launch-failed");
        puppet.exit(0);
        REQUIRE(world.wait_sessions(0));
    }
}
