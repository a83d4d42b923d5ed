// Goal: a data root that can't be written any more refuses what needs it, with the reason, and
// costs nothing that runs already. Method: directories without the right to write.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>

#include <string>

#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

void set_mode(const std::string& path, mode_t mode) {
    REQUIRE(::chmod(path.c_str(), mode) == 0);
}

}  // namespace

TEST_CASE("directories that can't be written any more refuse launches and sessions run on") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    world.launch("reviewer");
    const std::string runs = world.data + "/launches/acme";
    const auto before = names_in(runs);
    set_mode(runs, 0500);
    CHECK(world.launch_refused("tester") == "storage-unavailable");
    CHECK_CONTAINS(world.refusal_message, "0500");
    CHECK(names_in(runs) == before);
    CHECK(trim(world.ask("coder", "echo works")) == "works");
    set_mode(runs, 0700);
    // Now the place of sessions.json: an end is recorded at the broker and in the log at once, its
    // entry goes when it can, and so does that of a launch that fails for want of an entry.
    set_mode(world.bus_host(), 0500);
    const json::Value reviewer = *world.session_of("reviewer");
    REQUIRE(::kill(runner_pid(reviewer), SIGKILL) == 0);
    CHECK(text(world.wait_log("end", text(reviewer, "run")), "reason") == "killed");
    LineStream admin = world.admin();
    const int64_t asked = admin.ask("launch", object({{"instance", "tester"}}));
    const auto ends = world.wait_log_count("end", 2);
    CHECK(text(ends[1], "instance") == "tester");
    CHECK_CONTAINS(text(ends[1], "detail"), "Permission denied");
    CHECK(world.sessions().size() == 2);
    CHECK(trim(world.ask("coder", "echo works")) == "works");
    set_mode(world.bus_host(), 0700);
    const json::Value refused = admin.reply(asked);
    CHECK(text(refused, "error") == "storage-unavailable");
    CHECK_CONTAINS(text(refused, "message"), "Permission denied");
    REQUIRE(world.wait_sessions(1));
    CHECK(world.session(run).has_value());
    world.launch("tester");
    world.launch("reviewer");
}
