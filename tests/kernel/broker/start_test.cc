// Goal: how the program starts and ends.

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "fixture.h"

using namespace mosaic;
using namespace mosaic::broker::test;

namespace {

std::string bytes_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("the end of the control pair ends the broker with code 0") {
    World world;
    world.start_configured();
    const Ended ended = world.stop();
    CHECK(ended.code == 0);
    CHECK(ended.signal == 0);
    CHECK(ended.log.empty());
}

TEST_CASE("a host that goes right after its requests loses none of them") {
    World world;
    world.start_configured();
    for (int i = 0; i < 300; ++i) {
        wire::RefuseArgs args{{"coder", ""}, "busy", "r", "pm"};
        world.host->post("refuse", args.to_value());
    }
    CHECK(world.stop().code == 0);
    world.start_configured();
    CHECK(world.all_events().size() == 300);
}

TEST_CASE("SIGTERM ends the broker with code 0, SIGPIPE and SIGXFSZ don't") {
    World world;
    world.start_configured();
    world.send_signal(SIGPIPE);
    world.send_signal(SIGXFSZ);
    CHECK(world.host->ask("bound", wire::BoundArgs{}.to_value()).ok);
    world.send_signal(SIGTERM);
    CHECK(world.wait_end().code == 0);
}

TEST_CASE("nobody is accepted before config, and who waited is served then") {
    World world;
    world.start();
    const auto human = world.admin();
    const int64_t id = human->post("sessions", kNothing);
    // The control pair is served meanwhile, and the human isn't.
    CHECK(world.host->ask("bound", wire::BoundArgs{}.to_value()).error == "bad-request");
    pollfd early{human->fd(), POLLIN, 0};
    CHECK(poll(&early, 1, 0) == 0);
    REQUIRE(world.host->ask("config", acme().to_value()).ok);
    CHECK(human->wait_reply(id).ok);
}

TEST_CASE(
    "a damaged store ends the start with code 3, path, cause and remedy, and stays as it is") {
    World world;
    std::ofstream(world.store) << std::string(8192, 'x');
    const std::string before = bytes_of(world.store);
    world.start();
    const Ended ended = world.wait_end();
    CHECK(ended.code == 3);
    CHECK(ended.log.find(world.store) != std::string::npos);
    CHECK(ended.log.find("damaged") != std::string::npos);
    CHECK(ended.log.find("restore it from a backup") != std::string::npos);
    CHECK(bytes_of(world.store) == before);
}

TEST_CASE("a store that can't be made ends the start with code 1") {
    World world;
    world.store = world.directory + "/nowhere/broker.sqlite";
    world.start();
    const Ended ended = world.wait_end();
    CHECK(ended.code == 1);
    CHECK(ended.log.find(world.store) != std::string::npos);
}

TEST_CASE("no capability is in the store or the log") {
    World world;
    world.start_configured();
    const auto session = world.session({"coder", ""}, kCoderRun);
    REQUIRE(session.ask("message.send", letter({"pm", ""}, "x").to_value()).ok);
    CHECK(session.line->ask("message.send", kNothing, "wrong").error == "unknown-capability");
    for (const char* suffix : {"", "-wal", "-shm"}) {
        CHECK(bytes_of(world.store + suffix).find(session.cap) == std::string::npos);
    }

    struct stat facts {};

    REQUIRE(stat(world.store.c_str(), &facts) == 0);
    CHECK((facts.st_mode & 07777) == 0600);
    CHECK(world.stop().log.find(session.cap) == std::string::npos);
}
