// Goal: the verbs over the sockets: what is pushed, relayed and shared fairly.

#include <doctest/doctest.h>
#include <sys/resource.h>

#include "fixture.h"

using namespace mosaic;
using namespace mosaic::broker::test;

namespace {

json::Value wait_args(const std::string& in_reply_to = "") {
    return wire::MessageReceiveArgs{true, in_reply_to}.to_value();
}

wire::Message message_in(const wire::Reply& reply) {
    REQUIRE_MESSAGE(reply.ok, reply.message);
    const auto result = wire::MessageReceiveResult::from(reply.result);
    REQUIRE(result);
    REQUIRE(result->message);
    return *result->message;
}

}  // namespace

TEST_CASE("a request travels to the role and its reply back to who waits for it") {
    World world;
    world.start_configured();
    const auto coder = world.session({"coder", ""}, kCoderRun);
    const int64_t waiting = coder.line->post("message.receive", wait_args(), coder.cap);
    const auto human = world.admin();
    const auto sent = human->ask("message.send", letter({"coder", ""}, "how?").to_value());
    REQUIRE(sent.ok);
    const int64_t answer = human->post("message.receive", wait_args(text_of(sent.result, "id")));
    const auto request = message_in(coder.line->wait_reply(waiting));
    CHECK(request.body == "how?");
    CHECK(request.from == "jordan");
    auto reply = letter({"jordan", ""}, "so");
    reply.message_class = wire::MessageClass::reply;
    reply.in_reply_to = request.id;
    REQUIRE(coder.ask("message.send", reply.to_value()).ok);
    REQUIRE(coder.ask("message.ack", wire::MessageAckArgs{request.id}.to_value()).ok);
    CHECK(message_in(human->wait_reply(answer)).body == "so");
}

TEST_CASE("an unacked message comes again on the next connection") {
    World world;
    world.start_configured();
    auto coder = world.session({"coder", ""}, kCoderRun);
    REQUIRE(world.admin()->ask("message.send", letter({"coder", ""}, "one").to_value()).ok);
    CHECK(message_in(coder.ask("message.receive", wait_args())).body == "one");
    coder.line = std::make_unique<Line>(coder.runner->connect(world.bus_path));
    CHECK(message_in(coder.ask("message.receive", wait_args())).body == "one");
}

TEST_CASE("the host hears of a claim and of a release once they are durable") {
    World world;
    world.start_configured();
    const auto coder = world.session({"coder", ""}, kCoderRun);
    REQUIRE(coder.ask("role.release", kNothing).ok);
    const auto note = world.host->wait_request();
    CHECK(note.verb == "released");
    CHECK(text_of(note.args, "run") == kCoderRun);
}

TEST_CASE("the human's launches and stops are relayed, each answer to its own request") {
    World world;
    world.start_configured();
    const auto first = world.admin();
    const auto second = world.admin();
    const json::Value launch = json::Object{{"instance", "coder"}};
    const int64_t a = first->post("launch", launch);
    const auto asked_a = world.host->wait_request();
    const int64_t b = second->post("stop", json::Object{{"target", "coder"}});
    const auto asked_b = world.host->wait_request();
    const int64_t c = first->post("launch", json::Object{{"instance", "pm"}});
    const auto asked_c = world.host->wait_request();
    CHECK(asked_a.verb == "launch");
    CHECK(asked_a.args == launch);
    CHECK(asked_b.verb == "stop");
    // Answers in another order than the questions.
    const json::Value result = wire::LaunchResult{kPmRun, "pm", "script", "echo"}.to_value();
    world.host->answer(wire::reply_ok(asked_c.id, result));
    world.host->answer(
        wire::reply_error(asked_b.id, "not-found", "no running session has run id coder"));
    world.host->answer(wire::reply_error(asked_a.id, "capacity-full", "2 of 2"));
    CHECK(first->wait_reply(c).result == result);
    const auto refused = first->wait_reply(a);
    CHECK(refused.error == "capacity-full");
    CHECK(refused.message == "2 of 2");
    CHECK(second->wait_reply(b).error == "not-found");
}

TEST_CASE("a caller that hung up meanwhile doesn't disturb the host's answer to others") {
    World world;
    world.start_configured();
    auto gone = world.admin();
    gone->post("launch", json::Object{{"instance", "coder"}});
    const auto asked = world.host->wait_request();
    gone.reset();
    world.host->answer(wire::reply_error(asked.id, "busy", ""));
    world.host->answer(wire::reply_error(9999, "busy", ""));
    CHECK(world.admin()->ask("sessions", kNothing).ok);
}

TEST_CASE("an allowed change that the host refuses is allowed still; one that is made is not") {
    World world;
    world.start();
    auto config = acme();
    config.roles[0].gated.emplace_back("instances.set");
    REQUIRE(world.host->ask("config", config.to_value()).ok);
    const auto pm = world.session({"pm", ""}, kPmRun);
    const json::Value list = json::Object{{"instances", json::Array{"coder"}}};
    const auto asked = pm.ask("instances.set", list);
    CHECK(asked.error == "decision-required");
    REQUIRE(world.admin()->ask("decide", wire::DecideArgs{asked.decision, true, ""}.to_value()).ok);
    const auto change = [&](bool ok) {
        const int64_t id = pm.line->post("instances.set", list, pm.cap);
        auto request = world.host->wait_request();
        while (request.verb == "needed") {
            request = world.host->wait_request();  // that a decision waits
        }
        CHECK(request.verb == "configChange");
        world.host->answer(ok ? wire::reply_ok(request.id, kNothing)
                              : wire::reply_error(request.id, "config-changed", ""));
        return pm.line->wait_reply(id);
    };
    CHECK(change(false).error == "config-changed");
    CHECK(change(false).error == "config-changed");
    CHECK(change(true).ok);
    CHECK(pm.ask("instances.set", list).error == "decision-required");
}

TEST_CASE("a host that ends leaves the human's open requests with host-unavailable") {
    World world;
    world.start_configured();
    const auto human = world.admin();
    const int64_t id = human->post("launch", json::Object{{"instance", "coder"}});
    REQUIRE(world.host->wait_request().verb == "launch");
    CHECK(world.stop().code == 0);
    CHECK(human->wait_reply(id).error == "host-unavailable");
}

TEST_CASE("who follows events sees each as it happens") {
    World world;
    world.start_configured();
    const auto human = world.admin();
    int64_t since = 0;
    for (const char* verb : {"launches.revoke", "launches.allow", "launches.revoke"}) {
        const int64_t id = human->post("events", wire::EventsArgs{since, true}.to_value());
        REQUIRE(world.admin()->ask(verb, kNothing).ok);
        const auto reply = human->wait_reply(id);
        const json::Array& page = *reply.result.find("events")->array();
        REQUIRE(page.size() == 1);
        CHECK(text_of(page[0], "type") == "launches.switched");
        since = *reply.result.find("next")->integer();
    }
}

TEST_CASE("another human in the configuration ends the connections of the one before") {
    World world;
    world.start_configured();
    const auto before = world.admin();
    REQUIRE(before->ask("sessions", kNothing).ok);
    auto config = acme();
    config.human = "robin";
    REQUIRE(world.host->ask("config", config.to_value()).ok);
    CHECK(before->closed());
    CHECK(world.admin()->ask("message.send", letter({"robin", ""}, "x").to_value()).ok);
}

TEST_CASE("a human who changes that name with a request of his own hears what came of it") {
    World world;
    world.start_configured();
    const auto human = world.admin();
    const int64_t id = human->post("reload", kNothing);
    const auto asked = world.host->wait_request();
    REQUIRE(asked.verb == "reload");
    auto config = acme();
    config.human = "robin";
    // The new configuration is in force a turn before the answer comes.
    REQUIRE(world.host->ask("config", config.to_value()).ok);
    world.host->answer(wire::reply_ok(asked.id, kNothing));
    CHECK(human->wait_reply(id).ok);
    CHECK(human->closed());
}

TEST_CASE("many requests at once are one commit each turn, and all are answered in order") {
    World world;
    world.start_configured();
    const auto human = world.admin();
    std::string burst;
    for (int64_t id = 1; id <= 400; ++id) {
        burst += wire::encode(
            wire::Request{id, "message.send", "", letter({"coder", ""}, "x").to_value()});
    }
    human->send_bytes(burst);
    for (int64_t id = 1; id <= 400; ++id) {
        CHECK(text_of(human->wait_reply(id).result, "id") == "m" + std::to_string(id));
    }
}

TEST_CASE("a full disk refuses what writes, keeps what was acknowledged, and passes") {
    World world;
    world.start_configured();
    const auto coder = world.session({"coder", ""}, kCoderRun);
    const auto human = world.admin();
    REQUIRE(human->ask("message.send", letter({"coder", ""}, "kept").to_value()).ok);
    rlimit before{};
    REQUIRE(prlimit(world.broker(), RLIMIT_FSIZE, nullptr, &before) == 0);
    const rlimit full{4096, before.rlim_max};
    REQUIRE(prlimit(world.broker(), RLIMIT_FSIZE, &full, nullptr) == 0);
    CHECK(human->ask("message.send", letter({"coder", ""}, "lost").to_value()).error ==
          "storage-unavailable");
    CHECK(world.host->ask("refuse", wire::RefuseArgs{{"coder", ""}, "busy", "", "pm"}.to_value())
              .error == "storage-unavailable");
    CHECK(human->ask("sessions", kNothing).ok);
    const auto kept = message_in(coder.ask("message.receive", kNothing));
    CHECK(kept.body == "kept");
    REQUIRE(prlimit(world.broker(), RLIMIT_FSIZE, &before, nullptr) == 0);
    REQUIRE(human->ask("message.send", letter({"coder", ""}, "later").to_value()).ok);
    REQUIRE(coder.ask("message.ack", wire::MessageAckArgs{kept.id}.to_value()).ok);
    CHECK(message_in(coder.ask("message.receive", kNothing)).body == "later");
    const Ended ended = world.stop();
    CHECK(ended.log.find("storage-unavailable") != std::string::npos);
    CHECK(ended.log.find("can be written again") != std::string::npos);
}
