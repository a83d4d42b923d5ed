// Goal: what one session uses up of what its user has in common leaves the host and the others
// working. Method: sessions that use up one thing each and hold on to it.

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <set>
#include <string>

#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

// Sends a script that nobody waits for; it makes the file `done` in the workspace.
void use_up(const World& world, const std::string& script) {
    REQUIRE(world.mosaic({"send", "coder", script}).exit.code == 0);
    const std::string workspace = world.workspace("coder");
    REQUIRE(wait_for_change({workspace}, [&] { return exists(workspace + "/done"); }));
}

// The numbers of a process's open files.
std::set<rlim_t> descriptors_of(pid_t pid) {
    std::set<rlim_t> open;
    for (const std::string& name : names_in("/proc/" + std::to_string(pid) + "/fd")) {
        open.insert(std::stoul(name));
    }
    return open;
}

// A limit that leaves so many numbers unused.
rlim_t limit_that_leaves(const std::set<rlim_t>& open, size_t unused) {
    rlim_t limit = 0;
    for (size_t left = unused; left > 0 || limit <= *open.rbegin(); ++limit) {
        left -= left > 0 && !open.contains(limit) ? 1U : 0U;
    }
    return limit;
}

// The lowest number that isn't in use: what the next descriptor is called.
rlim_t lowest_unused(const std::set<rlim_t>& open) {
    rlim_t number = 0;
    while (open.contains(number)) {
        ++number;
    }
    return number;
}

// The host's limit of open files, lower while this lives. Only the soft one: it has to come back.
class FewDescriptors {
  public:
    FewDescriptors(pid_t pid, rlim_t most) : pid_(pid) {
        REQUIRE(::prlimit(pid_, RLIMIT_NOFILE, nullptr, &before_) == 0);
        const rlimit few{most, before_.rlim_max};
        REQUIRE(::prlimit(pid_, RLIMIT_NOFILE, &few, nullptr) == 0);
    }

    FewDescriptors(const FewDescriptors&) = delete;
    FewDescriptors& operator=(const FewDescriptors&) = delete;

    ~FewDescriptors() { CHECK(::prlimit(pid_, RLIMIT_NOFILE, &before_, nullptr) == 0); }

  private:
    pid_t pid_;
    rlimit before_{};
};

void check_others_work(World& world) {
    CHECK(trim(world.ask("reviewer", "echo works")) == "works");
    world.launch("tester");
    CHECK(trim(world.ask("tester", "echo works >/dev/shm/x; cat /dev/shm/x")) == "works");
}

}  // namespace

TEST_CASE("descriptors that a session keeps in flight keep no broker from being replaced") {
    World world;
    world.start();
    world.launch("coder");
    world.launch("reviewer");
    // The kernel counts them for the user: beyond the limit nobody of that user passes any.
    use_up(world,
           "exec /usr/bin/python3 - <<'END'\n"
           "import array, os, socket, time\n"
           "null = os.open('/dev/null', os.O_RDONLY)\n"
           "pairs, sent = [], 0\n"
           "try:\n"
           "    while sent < 8000:\n"
           "        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
           "        pairs.append(pair)\n"
           "        pair[0].setblocking(False)\n"
           "        try:\n"
           "            while sent < 8000:\n"
           "                pair[0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,\n"
           "                                          array.array('i', [null] * 200))])\n"
           "                sent += 200\n"
           "        except BlockingIOError:\n"
           "            pass\n"
           "except OSError:\n"
           "    pass\n"
           "open('done', 'w').write(str(sent))\n"
           "time.sleep(600)\n"
           "END");
    const pid_t broker = world.broker_pid();
    ::kill(broker, SIGKILL);
    REQUIRE(wait_gone(broker));
    check_others_work(world);
    CHECK(world.broker_pid() != broker);
}

TEST_CASE("a session that fills its shared memory and its open files leaves the others working") {
    World world;
    world.start();
    world.launch("coder");
    world.launch("reviewer");
    use_up(world,
           "cat /dev/zero >/dev/shm/full 2>/dev/null; exec /usr/bin/python3 - <<'END'\n"
           "import os, time\n"
           "held = []\n"
           "try:\n"
           "    while True:\n"
           "        held.append(os.open('/dev/null', os.O_RDONLY))\n"
           "except OSError:\n"
           "    os.close(held.pop())\n"
           "open('done', 'w').close()\n"
           "time.sleep(600)\n"
           "END");
    check_others_work(world);
}

TEST_CASE("however few descriptors a host has left a launch leaves nothing behind and ends go on") {
    World world;
    world.start();
    world.launch("reviewer");
    size_t granted = 0;
    for (size_t unused = 0; granted < 3; ++unused) {
        CAPTURE(unused);
        REQUIRE(unused < 60);
        world.launch("tester");
        const size_t before = world.log("end").size();
        {
            const pid_t host = world.host().pid();
            const FewDescriptors few(host, limit_that_leaves(descriptors_of(host), unused));
            LineStream admin = world.admin();
            const json::Value reply = admin.request("launch", object({{"instance", "coder"}}));
            if (*reply.find("ok") == json::Value(true)) {
                ++granted;
                world.stop_run("coder");
            } else {
                CHECK_MESSAGE(contains(text(reply, "message"), std::strerror(EMFILE)),
                              json::dump(reply));
            }
            world.stop_run("tester");
            CHECK(trim(world.ask("reviewer", "echo works")) == "works");
        }
        const bool ended = wait_for_change({world.bus_host(), world.data + "/launches"}, [&] {
            return world.sessions().size() == 1 && world.log("end").size() > before;
        });
        CHECK(ended);
    }
    const std::string runs = world.data + "/launches/acme";
    const size_t known = world.log("end").size() + 1;
    CHECK_MESSAGE(wait_for_change({runs}, [&] { return names_in(runs).size() == known; }),
                  names_in(runs).size() << " directories of " << known << " runs");
}

TEST_CASE("a host without descriptors to spare accepts nobody and launches and ends all the same") {
    World world;
    world.launch_block().find("models")->array()->front().set("max", 60);
    world.start();
    world.launch("pm");
    // They hold so many of the host's descriptors that a quarter is more than a launch needs. One
    // after the other, so that each takes the numbers that the one before it needed for a moment.
    for (int i = 0; i < 48; ++i) {
        world.launch("coder", "t" + std::to_string(i));
    }
    const std::string pm = world.workspace("pm");
    {
        // A quarter of the limit is kept from connections, and so is all that is left here: with a
        // few to spare, for what still was open for a moment when we looked.
        const rlim_t lowest = lowest_unused(descriptors_of(world.host().pid()));
        const FewDescriptors few(world.host().pid(), lowest + lowest / 3 - 4);
        // One accept was asked for before: a stranger has it.
        LineStream stranger = LineStream::connect(world.bus_host() + "/launch.sock");
        REQUIRE(stranger.valid());
        REQUIRE(stranger.closed());
        const std::string script =
            "/run/mosaic/mosaic-runner tool launch '{\"instance\":\"tester\"}' >answer; : >done";
        REQUIRE(world.mosaic({"send", "pm", ": >asks; " + script}).exit.code == 0);
        REQUIRE(wait_for_change({pm}, [&] { return exists(pm + "/asks"); }));
        for (int i = 0; i < 3; ++i) {
            const std::string run = text(world.launch("reviewer"), "run");
            CHECK(trim(world.ask("reviewer", "echo works")) == "works");
            world.stop_run(run);
            world.wait_log("end", run);
        }
        CHECK_FALSE(exists(pm + "/done"));
    }
    REQUIRE(wait_for_change({pm}, [&] { return exists(pm + "/done"); }));
    CHECK_CONTAINS(read_text(pm + "/answer"), "\"instance\":\"tester\"");
    CHECK(trim(world.ask("tester", "echo works")) == "works");
}
