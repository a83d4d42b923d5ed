// Goal: what one session uses up of what its user has in common leaves the host and the others
// working. Method: sessions that use up one thing each and hold on to it.

#include <doctest/doctest.h>

#include <csignal>
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
