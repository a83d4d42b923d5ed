// Goal: what was acknowledged survives the broker's death at any instant, on the same sockets.

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <csignal>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fixture.h"

using namespace mosaic;
using namespace mosaic::broker::test;

namespace {

// Sends numbered messages, several under way at once, until the connection breaks. Plain system
// calls and no doctest: it runs until the broker is killed under it.
struct Sender {
    std::vector<std::pair<int64_t, std::string>> acknowledged;  // number, id
    int64_t next = 0;

    void run(const std::string& path, size_t kill_after, pid_t broker) {
        Line line(connect_to(path));
        wire::LineBuffer in(limits::kFrameBytesMax);
        const size_t before = acknowledged.size();
        bool killed = false;
        std::string buffer(65536, '\0');
        for (int i = 0; i < 8; ++i) {
            post(line.fd());
        }
        while (true) {
            const ssize_t got = recv(line.fd(), buffer.data(), buffer.size(), 0);
            if (got <= 0) {
                return;
            }
            in.append({buffer.data(), static_cast<size_t>(got)});
            while (const auto text = in.next()) {
                const auto frame = wire::decode_frame(*text);
                const auto& reply = std::get<wire::Reply>(*frame);
                if (reply.ok) {
                    acknowledged.emplace_back(reply.id, text_of(reply.result, "id"));
                }
                post(line.fd());
            }
            if (!killed && acknowledged.size() - before >= kill_after) {
                killed = true;
                kill(broker, SIGKILL);
            }
        }
    }

    void post(int fd) {
        const int64_t number = next++;
        const std::string bytes = wire::encode(wire::Request{
            number, "message.send", "", letter({"coder", ""}, std::to_string(number)).to_value()});
        static_cast<void>(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL));
    }
};

}  // namespace

TEST_CASE(
    "a broker killed under a stream of messages keeps each acknowledged one, once, in order") {
    World world;
    world.start_configured();
    auto coder = world.session({"coder", ""}, kCoderRun);
    Sender sender;
    for (const size_t kill_after : {1U, 7U, 40U, 100U, 3U}) {
        sender.run(world.admin_path, kill_after, world.broker());
        const Ended ended = world.wait_end();
        CHECK(ended.signal == SIGKILL);
        world.start_configured();
    }
    REQUIRE(sender.acknowledged.size() >= 151);

    // The session that was there all the time connects again and is who it was.
    coder.line = std::make_unique<Line>(coder.runner->connect(world.bus_path));
    world.claim(coder);
    std::map<std::string, std::string> found;  // body, id
    int64_t last = -1;
    while (true) {
        const auto reply = coder.ask("message.receive", kNothing);
        const auto result = wire::MessageReceiveResult::from(reply.result);
        REQUIRE(result);
        if (!result->message) {
            break;
        }
        const int64_t number = std::stoll(result->message->body);
        CHECK(number > last);  // in order, none twice
        last = number;
        found[result->message->body] = result->message->id;
        REQUIRE(coder.ask("message.ack", wire::MessageAckArgs{result->message->id}.to_value()).ok);
    }
    for (const auto& [number, id] : sender.acknowledged) {
        CHECK(found[std::to_string(number)] == id);
    }
    // Events: without gaps, one for each message, the claim once.
    const auto events = world.all_events();
    size_t sent = 0;
    size_t claims = 0;
    for (size_t i = 0; i < events.size(); ++i) {
        CHECK(*events[i].find("seq")->integer() == static_cast<int64_t>(i) + 1);
        sent += text_of(events[i], "type") == "message.sent" ? 1U : 0U;
        claims += text_of(events[i], "type") == "role.claimed" ? 1U : 0U;
    }
    CHECK(sent == found.size());
    CHECK(claims == 1);
}

TEST_CASE("after a kill the runs, claims, switches and ends are what they were") {
    World world;
    world.start_configured();
    const auto coder = world.session({"coder", "t1"}, kCoderRun);
    const auto pm = world.session({"pm", ""}, kPmRun);
    REQUIRE(world.admin()->ask("launches.revoke", kNothing).ok);
    wire::EndLaunchArgs end;
    end.seat = pm.seat;
    end.run = pm.run;
    end.reason = EndReason::failed;
    end.exit_code = 7;
    end.process = pm.runner->identity();
    REQUIRE(world.host->ask("endLaunch", end.to_value()).ok);
    world.send_signal(SIGKILL);
    static_cast<void>(world.wait_end());
    world.start_configured();

    const auto bound = wire::BoundResult::from(
        world.host->ask("bound", wire::BoundArgs{{kPmRun, kCoderRun, kOtherRun}}.to_value())
            .result);
    REQUIRE(bound);
    REQUIRE(bound->bound.size() == 1);
    CHECK(bound->bound[0].run == kCoderRun);
    CHECK(bound->bound[0].seat == coder.seat);
    CHECK(bound->bound[0].claimed);
    CHECK(bound->known == std::vector<std::string>{kPmRun, kCoderRun});
    end.reason = EndReason::host_lost;
    const auto again =
        wire::EndLaunchResult::from(world.host->ask("endLaunch", end.to_value()).result);
    REQUIRE(again);
    CHECK(*again == wire::EndLaunchResult{EndReason::failed, 7, "", "", false});
    wire::AuthorizeLaunchArgs launch;
    launch.caller = coder.seat;
    launch.caller_run = kCoderRun;
    launch.target = {"pm", ""};
    CHECK(world.host->ask("authorizeLaunch", launch.to_value()).error == "launch-revoked");
}

TEST_CASE("who connects while the broker is away is served by the next one") {
    World world;
    world.start_configured();
    const auto coder = world.session({"coder", ""}, kCoderRun);
    world.send_signal(SIGKILL);
    static_cast<void>(world.wait_end());
    CHECK(coder.line->closed());
    Line early(coder.runner->connect(world.bus_path));
    const int64_t id = early.post("role.claim", wire::ClaimArgs{kCoderRun}.to_value(), coder.cap);
    world.start_configured();
    CHECK(early.wait_reply(id).ok);
    CHECK(world.host->wait_request().verb == "claimed");
}
