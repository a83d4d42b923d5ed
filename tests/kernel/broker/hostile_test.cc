// Goal: a peer that doesn't keep to the protocol harms itself alone.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "fixture.h"

using namespace mosaic;
using namespace mosaic::broker::test;

namespace {

// Writes until the broker takes no more or has closed; returns whether it has closed.
bool write_until_stuck(int fd, const std::string& bytes, size_t bytes_max) {
    for (size_t sent = 0; sent < bytes_max;) {
        const ssize_t wrote = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (wrote > 0) {
            sent += static_cast<size_t>(wrote);
            continue;
        }
        if (errno != EAGAIN) {
            return true;
        }
        pollfd room{fd, POLLOUT, 0};
        if (poll(&room, 1, 20'000) != 1) {
            return false;
        }
    }
    return false;
}

// Open files of a process.
size_t descriptors_of(pid_t pid) {
    const auto list = std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd");
    return static_cast<size_t>(std::distance(begin(list), end(list)));
}

}  // namespace

TEST_CASE("ten thousand strangers at the socket leave nothing behind and delay nobody for good") {
    // Each is closed before a byte of it is read, so holding them all costs the stranger alone; its
    // own limit of open files says how many it can hold at once.
    constexpr size_t kStrangers = 10'000;
    rlimit limit{};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const size_t held_max = std::min<size_t>(limit.rlim_cur / 2, kStrangers);
    World world;
    world.start_configured();
    const auto human = world.admin();
    REQUIRE(human->ask("sessions", kNothing).ok);
    const size_t before = descriptors_of(world.broker());
    std::vector<UniqueFd> held(held_max);
    for (size_t i = 0; i < kStrangers; ++i) {
        held[i % held_max] = connect_to(world.bus_path);
        REQUIRE(held[i % held_max].valid());
    }
    const auto session = world.session({"coder", ""}, kCoderRun);
    CHECK(session.ask("message.receive", kNothing).ok);
    CHECK(descriptors_of(world.broker()) == before + 1);
}

TEST_CASE("a session that calls the human's verbs is told so and loses nothing") {
    World world;
    world.start_configured();
    const auto session = world.session({"pm", ""}, kPmRun);
    for (const char* verb : {"launches.allow",
                             "launches.revoke",
                             "decide",
                             "decisions",
                             "sessions",
                             "events",
                             "stop",
                             "launch"}) {
        CAPTURE(verb);
        const auto reply = session.ask(verb, kNothing);
        CHECK_FALSE(reply.ok);
        CHECK((reply.error == "not-human" || reply.error == "unknown-verb"));
    }
    CHECK(session.ask("message.receive", kNothing).ok);
}

TEST_CASE("without descriptors to spare humans wait and runs are bound and claim and end") {
    World world;
    world.start_configured();
    // A quarter is kept from the human's connections, 16 from the runners'.
    constexpr rlimit kFew = {80, 80};
    REQUIRE(prlimit(world.broker(), RLIMIT_NOFILE, &kFew, nullptr) == 0);
    std::vector<std::unique_ptr<Line>> humans;
    for (size_t i = 0; i < limits::kAdminClientsMax; ++i) {
        humans.push_back(world.admin());
    }
    const int64_t id = humans.back()->post("sessions", kNothing);
    REQUIRE(humans.front()->ask("sessions", kNothing).ok);
    const auto session = world.session({"coder", ""}, kCoderRun);
    CHECK(session.ask("message.receive", kNothing).ok);
    wire::EndLaunchArgs end;
    end.seat = session.seat;
    end.run = session.run;
    end.process = session.runner->identity();
    CHECK(world.host->ask("endLaunch", end.to_value()).ok);
    pollfd early{humans.back()->fd(), POLLIN, 0};
    CHECK(poll(&early, 1, 0) == 0);
    // Some go, and those who wait are served.
    humans.erase(humans.begin(), humans.begin() + 30);
    CHECK(humans.back()->wait_reply(id).ok);
    const auto ended = world.stop();
    CHECK(ended.code == 0);
    // Said once and not every 100 ms.
    const std::string told = "no more connections are accepted now";
    CHECK(ended.log.find(told) != std::string::npos);
    CHECK(ended.log.find(told) == ended.log.rfind(told));
}

TEST_CASE("beside a session that floods another's claim and message come in a few turns") {
    World world;
    world.start_configured();
    const auto flooder = world.session({"coder", ""}, kCoderRun);
    Runner runner;
    const std::string cap = world.bind(runner, {"pm", ""}, kPmRun);
    Line other(runner.connect(world.bus_path));
    constexpr int64_t kFlood = 500;
    std::string flood;
    for (int64_t id = 1; id <= kFlood; ++id) {
        flood += wire::encode(
            wire::Request{id, "message.send", flooder.cap, letter({"pm", ""}, "x").to_value()});
    }
    // Held still, the broker finds the whole flood first.
    world.send_signal(SIGSTOP);
    const ssize_t queued =
        send(flooder.line->fd(), flood.data(), flood.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    REQUIRE(queued == static_cast<ssize_t>(flood.size()));
    const int64_t claim = other.post("role.claim", wire::ClaimArgs{kPmRun}.to_value(), cap);
    const int64_t sent = other.post("message.send", letter({"coder", ""}, "hello").to_value(), cap);
    world.send_signal(SIGCONT);
    REQUIRE(other.wait_reply(claim).ok);
    const std::string id = text_of(other.wait_reply(sent).result, "id");
    // Messages are numbered as they are served: so few of the flood came before it.
    CHECK(std::stoll(id.substr(1)) <= 6 * static_cast<int64_t>(limits::kTurnLinesPerConnectionMax));
}

TEST_CASE("a line without an end is answered too-large and closed, others are served") {
    World world;
    world.start_configured();
    const auto session = world.session({"coder", ""}, kCoderRun);
    const std::string piece(65536, 'x');
    CHECK(write_until_stuck(session.line->fd(), piece, 64 * limits::kFrameBytesMax));
    const auto reply = session.line->wait_reply(0);
    CHECK(reply.error == "too-large");
    CHECK(world.admin()->ask("sessions", kNothing).ok);
}

TEST_CASE("a line of exactly the limit is read, one byte more isn't") {
    World world;
    world.start_configured();
    const auto human = world.admin();
    const std::string head = R"({"id":5,"verb":"x","args":{"a":")";
    const std::string tail = R"("}})";
    const std::string fill(limits::kFrameBytesMax - head.size() - tail.size(), 'a');
    human->send_bytes(head + fill + tail + "\n");
    CHECK(human->wait_reply(5).error == "unknown-verb");
    human->send_bytes(head + fill + "a" + tail + "\n");
    CHECK(human->wait_reply(0).error == "too-large");
    CHECK(human->closed());
}

TEST_CASE("a frame that comes byte by byte is as good as one in a piece") {
    World world;
    world.start_configured();
    const auto human = world.admin();
    for (const char c : std::string("{\"id\":3,\"verb\":\"sessions\",\"args\":{}}\n")) {
        human->send_bytes(std::string(1, c));
    }
    CHECK(human->wait_reply(3).ok);
}

TEST_CASE(
    "what isn't a frame is bad-request with its id where it has one, and the next is served") {
    World world;
    world.start_configured();
    const auto human = world.admin();
    for (const char* line : {"",
                             "{",
                             "[]",
                             "null",
                             "\xff\xfe",
                             R"({"id":"x","verb":"y"})",
                             R"({"id":1,"ok":true,"result":{}})",
                             R"({"id":-4,"verb":"sessions"})",
                             R"({"id":1,"id":1,"verb":"sessions"})",
                             R"([[[[[[[[[[[[]]]]]]]]]]]])"}) {
        human->send_bytes(std::string(line) + "\n");
        CHECK(human->wait_reply(0).error == "bad-request");
    }
    human->send_bytes("{\"id\":7,\"verb\":\"sessions\",\"more\":1}\n");
    CHECK(human->wait_reply(7).error == "bad-request");
    human->send_bytes("{\"id\":8,\"verb\":\"sessions\",\"args\":[]}\n");
    CHECK(human->wait_reply(8).error == "bad-request");
    CHECK(human->ask("sessions", kNothing).ok);
}

TEST_CASE("a peer that asks and never reads is closed, others are served") {
    World world;
    world.start_configured();
    const auto session = world.session({"coder", ""}, kCoderRun);
    REQUIRE(
        world.admin()
            ->ask("message.send",
                  letter({"coder", ""}, std::string(limits::kMessageBodyBytesMax, 'x')).to_value())
            .ok);
    const std::string ask =
        wire::encode(wire::Request{1, "message.receive", session.cap, json::Object{}});
    CHECK(write_until_stuck(session.line->fd(), ask, ask.size() * 100'000));
    CHECK(world.admin()->ask("sessions", kNothing).ok);
    // Its message waits for its next connection.
    Line again(session.runner->connect(world.bus_path));
    CHECK(again.ask("message.receive", kNothing, session.cap).ok);
}

TEST_CASE("past the open requests that one connection may have nothing more is read of it") {
    World world;
    world.start_configured();
    const auto human = world.admin();
    const auto other = world.admin();
    std::string flood;
    const auto most = static_cast<int64_t>(limits::kBusOutstandingMax);
    for (int64_t id = 1; id <= most; ++id) {
        flood +=
            wire::encode(wire::Request{id, "events", "", wire::EventsArgs{0, true}.to_value()});
    }
    flood += wire::encode(wire::Request{1000, "sessions", "", kNothing});
    human->send_bytes(flood);
    // Some turns later the line behind them still has no answer.
    for (int i = 0; i < 20; ++i) {
        REQUIRE(other->ask("sessions", kNothing).ok);
    }
    pollfd early{human->fd(), POLLIN, 0};
    CHECK(poll(&early, 1, 0) == 0);
    REQUIRE(other->ask("launches.revoke", kNothing).ok);
    for (int64_t id = 1; id <= most; ++id) {
        CHECK(human->wait_reply(id).ok);
    }
    CHECK(human->wait_reply(1000).ok);
}

TEST_CASE("a flood on one connection delays another's request by a bounded number of turns") {
    constexpr int64_t kFlood = 400;
    static_assert(kFlood < limits::kQueuedPerSenderMax);
    World world;
    world.start_configured();
    const auto flooder = world.session({"coder", ""}, kCoderRun);
    const auto human = world.admin();
    std::string flood;
    for (int64_t id = 1; id <= kFlood; ++id) {
        flood += wire::encode(
            wire::Request{id, "message.send", flooder.cap, letter({"pm", ""}, "again").to_value()});
    }
    // Held still, the broker finds both at once: the whole flood first in its queue.
    world.send_signal(SIGSTOP);
    REQUIRE(send(flooder.line->fd(), flood.data(), flood.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
            static_cast<ssize_t>(flood.size()));
    const int64_t id = human->post("launches.revoke", kNothing);
    world.send_signal(SIGCONT);
    REQUIRE(human->wait_reply(id).ok);
    for (int64_t sent = 1; sent <= kFlood; ++sent) {
        REQUIRE(flooder.line->wait_reply(sent).ok);
    }
    // In the order in which they were decided.
    std::vector<std::string> types;
    for (const json::Value& event : world.all_events()) {
        types.push_back(text_of(event, "type"));
    }
    const auto switched = std::find(types.begin(), types.end(), "launches.switched");
    REQUIRE(switched != types.end());
    CHECK(std::count(types.begin(), types.end(), "message.sent") == kFlood);
    const auto before = std::count(types.begin(), switched, "message.sent");
    CHECK(before <= 16);  // of two lines a turn
}

TEST_CASE("a peer that writes its requests and closes its half gets its answers") {
    World world;
    world.start_configured();
    const auto human = world.admin();
    const int64_t id = human->post("sessions", kNothing);
    REQUIRE(shutdown(human->fd(), SHUT_WR) == 0);
    CHECK(human->wait_reply(id).ok);
    CHECK(human->closed());
}

TEST_CASE("peers that come and go with requests open leave nothing behind") {
    World world;
    world.start_configured();
    for (int i = 0; i < 200; ++i) {
        const auto human = world.admin();
        human->post("message.receive", wire::MessageReceiveArgs{true, ""}.to_value());
        human->post("events", wire::EventsArgs{1'000'000, true}.to_value());
        // Served, so that those who left before it have been seen to leave, too.
        REQUIRE(human->ask("sessions", kNothing).ok);
    }
    const auto human = world.admin();
    REQUIRE(human->ask("message.send", letter({"jordan", ""}, "x").to_value()).ok);
    CHECK(human->ask("sessions", kNothing).ok);
}
