// Goal: what a hostile or clumsy runner can do on launch.sock and bus.sock, and who is served there
// at all. Method: the tests' stand-in runner hands its own connections to the test, so that bytes
// of any kind travel on a connection that the host knows as the recorded runner's.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "e2e/puppet.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

// A PM whose runner is ours, claimed, with its capability and both sockets.
struct Stage {
    World world{World::Runner::puppet};
    LineStream admin;
    std::unique_ptr<PuppetMaster> pm_master;
    std::unique_ptr<PuppetMaster> coder_master;
    std::unique_ptr<Puppet> pm;
    std::string capability;
    LineStream bus;
    LineStream launch;

    Stage() {
        world.start();
        admin = world.admin();
        pm_master = std::make_unique<PuppetMaster>(world, "pm");
        coder_master = std::make_unique<PuppetMaster>(world, "coder");
        const int64_t id = admin.ask("launch", object({{"instance", "pm"}}));
        pm = std::make_unique<Puppet>(pm_master->accept());
        capability = pm->capability();
        bus = pm->claim(capability);
        REQUIRE(*admin.reply(id).find("ok") == json::Value(true));
        launch = connect();
    }

    LineStream connect() {
        LineStream stream = pm->connect(world.bus_host() + "/launch.sock");
        REQUIRE(stream.valid());
        return stream;
    }

    std::string line(std::string_view instance) const {
        return R"({"cap":")" + capability + R"(","instance":")" + std::string(instance) + "\"}\n";
    }

    // A launch of the coder, up to the claim.
    Puppet run_coder() {
        Puppet coder = coder_master->accept();
        coder_bus = coder.claim(coder.capability());
        return coder;
    }

    LineStream coder_bus;
};

std::string error_of(const std::optional<std::string>& line) {
    REQUIRE(line.has_value());
    const auto value = json::parse(*line);
    REQUIRE_MESSAGE(value.has_value(), *line);
    CHECK(*value->find("ok") == json::Value(false));
    return text(*value, "error");
}

}  // namespace

TEST_CASE("a request line of any wrong shape is answered bad-request and changes nothing") {
    Stage s;
    const std::string cap = s.capability;
    const std::vector<std::string> lines = {
        "",
        "hello",
        "{",
        "[]",
        "1",
        "null",
        "{}",
        R"({"cap":")" + cap + "\"}",
        R"({"instance":"coder"})",
        R"({"cap":1,"instance":"coder"})",
        R"({"cap":")" + cap + R"(","instance":7})",
        R"({"cap":")" + cap + R"(","instance":null})",
        R"({"cap":")" + cap + R"(","instance":"coder","extra":1})",
        R"({"cap":")" + cap + R"(","instance":"coder","instance":"coder"})",
        R"({"cap":")" + cap + R"(","instance":"reviewer","\u0069nstance":"coder"})",
        R"({"cap":")" + cap + R"(","cap":")" + cap + R"(","instance":"coder"})",
        R"({"cap":")" + cap + R"(","instance":""})",
        R"({"cap":")" + cap + R"(","instance":"../coder"})",
        R"({"cap":")" + cap + R"(","instance":"Coder"})",
        R"({"cap":")" + cap + R"(","instance":"-coder"})",
        R"({"cap":")" + cap + R"(","instance":"coder\u0000x"})",
        R"({"cap":")" + cap + R"(","instance":")" + std::string(65, 'a') + "\"}",
        R"({"cap":")" + cap + R"(","instance":"coder","thread":""})",
        R"({"cap":")" + cap + R"(","instance":"coder","thread":"a/b"})",
        R"({"cap":")" + cap + R"(","instance":"coder"} x)",
        R"({"cap":")" + cap + R"(","instance":"coder"}{})",
        R"({"cap":")" + cap + R"(","instance":"coder",})",
        R"({"cap":")" + cap + R"(","instance":"coder","x":tru})",
        R"({"cap":")" + cap + R"(","instance":"coder","x":[[[[[[[[[[1]]]]]]]]]]})",
        R"({"cap":")" + cap + "\",\"instance\":\"co\xFF\"}",
        R"({"cap":")" + cap + "\",\"instance\":\"coder\"}\r\r{",
        "\xEF\xBB\xBF{}",
    };
    for (const std::string& line : lines) {
        CAPTURE(line);
        REQUIRE(s.launch.send(line + "\n"));
        CHECK(error_of(s.launch.line()) == "bad-request");
    }
    CHECK(s.world.sessions().size() == 1);
    CHECK(s.world.log("refused").empty());
    // The connection is still good.
    REQUIRE(s.launch.send(s.line("nobody")));
    CHECK(error_of(s.launch.line()) == "instance-not-listed");
}

TEST_CASE("a capability that is unknown is answered after the shape is right") {
    Stage s;
    for (const std::string& cap : {std::string(64, '0'), std::string("x"), std::string(43, 'A')}) {
        CAPTURE(cap);
        REQUIRE(s.launch.send(R"({"cap":")" + cap + R"(","instance":"coder"})" + "\n"));
        CHECK(error_of(s.launch.line()) == "unknown-capability");
        REQUIRE(s.launch.send(R"({"cap":")" + cap + R"(","instance":"../x"})" + "\n"));
        CHECK(error_of(s.launch.line()) == "bad-request");
    }
    CHECK(s.world.log("refused").empty());
}

TEST_CASE("requests that arrive in one piece or in many are answered one by one in their order") {
    Stage s;
    REQUIRE(s.launch.send(s.line("aaa") + "nonsense\n" + s.line("bbb")));
    CHECK(error_of(s.launch.line()) == "instance-not-listed");
    CHECK(error_of(s.launch.line()) == "bad-request");
    CHECK(error_of(s.launch.line()) == "instance-not-listed");
    const std::string line = s.line("ccc");
    for (const char byte : line) {
        REQUIRE(s.launch.send({&byte, 1}));
    }
    CHECK(error_of(s.launch.line()) == "instance-not-listed");
    // A slow refusal must not overtake: the first of these launches, the second is refused at once.
    REQUIRE(s.launch.send(s.line("coder") + s.line("ddd")));
    Puppet coder = s.run_coder();
    const auto granted = s.launch.line();
    REQUIRE(granted.has_value());
    CHECK_CONTAINS(*granted, "\"ok\":true");
    CHECK_CONTAINS(*granted, coder.run());
    CHECK(error_of(s.launch.line()) == "instance-not-listed");
}

TEST_CASE("a request is answered after its sender has closed its half") {
    Stage s;
    REQUIRE(s.launch.send(s.line("nobody")));
    s.launch.finish_sending();
    CHECK(error_of(s.launch.line()) == "instance-not-listed");
    CHECK(s.launch.closed());
}

TEST_CASE("a line past the limit is answered bad-request and the connection closed") {
    Stage s;
    REQUIRE(s.launch.send(std::string(size_t{65} * 1024, 'x')));
    CHECK(error_of(s.launch.line()) == "bad-request");
    CHECK(s.launch.closed());
    // One of 64 KiB exactly is read.
    LineStream again = s.connect();
    std::string line = s.line("nobody");
    line.insert(line.size() - 2, std::string(size_t{64} * 1024 + 1 - line.size(), ' '));
    REQUIRE(line.size() == size_t{64} * 1024 + 1);
    REQUIRE(again.send(line));
    CHECK(error_of(again.line()) == "instance-not-listed");
}

TEST_CASE("an endless line ends at the limit and costs others nothing") {
    Stage s;
    const std::string piece(size_t{32} * 1024, 'y');
    int pieces = 0;
    while (pieces < 2048 && s.launch.send(piece)) {
        ++pieces;
    }
    // 64 MiB would have been 2,048 pieces.
    CHECK(pieces < 512);
    CHECK(s.admin.request("sessions", json::Object{}).find("result") != nullptr);
}

TEST_CASE("an unfinished line delays nobody else") {
    Stage s;
    REQUIRE(s.launch.send("{\"cap\":\""));
    CHECK(*s.admin.request("sessions", json::Object{}).find("ok") == json::Value(true));
    s.launch.close();
    LineStream again = s.connect();
    REQUIRE(again.send(s.line("nobody")));
    CHECK(error_of(again.line()) == "instance-not-listed");
}

TEST_CASE("a caller that never reads its answers is bounded and harms nobody") {
    Stage s;
    // Non-blocking in effect: once the host stops reading, the socket's own buffer fills.
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    const std::string line = s.line("nobody");
    int sent = 0;
    while (sent < 200'000) {
        if (::send(s.launch.fd(), line.data(), line.size(), flags) < 0) {
            if (errno != EAGAIN) {
                break;
            }
            if (s.launch.fd() >= 0 && sent > 100) {
                break;
            }
        }
        ++sent;
    }
    CHECK(*s.admin.request("sessions", json::Object{}).find("ok") == json::Value(true));
    CHECK(s.world.mosaic({"ps", "--json"}).exit.code == 0);
}

TEST_CASE("more than sixteen waiting requests are all answered in order") {
    Stage s;
    std::string all = s.line("coder");
    for (int i = 0; i < 40; ++i) {
        all += s.line("x" + std::to_string(i));
    }
    REQUIRE(s.launch.send(all));
    Puppet coder = s.run_coder();
    REQUIRE(contains(*s.launch.line(), coder.run()));
    for (int i = 0; i < 40; ++i) {
        CHECK(error_of(s.launch.line()) == "instance-not-listed");
    }
}

TEST_CASE("a caller that hangs up during its launch changes nothing") {
    Stage s;
    REQUIRE(s.launch.send(s.line("coder")));
    Puppet coder = s.coder_master->accept();
    s.launch.close();
    LineStream bus = coder.claim(coder.capability());
    const json::Value line = s.world.wait_log("launch", coder.run());
    CHECK(text(line, "launchedBy") == "pm");
    CHECK(s.world.session(coder.run()).has_value());
}

TEST_CASE("a new connection of a run replaces its older one") {
    Stage s;
    LineStream second = s.connect();
    CHECK(s.launch.closed());
    REQUIRE(second.send(s.line("nobody")));
    CHECK(error_of(second.line()) == "instance-not-listed");
    LineStream bus = s.pm->connect(s.world.bus_host() + "/bus.sock");
    CHECK(s.bus.closed());
    const json::Value reply =
        bus.request("message.receive", object({{"wait", false}}), s.capability);
    CHECK(*reply.find("ok") == json::Value(true));
}

TEST_CASE("only the recorded runner is served whatever capability is sent") {
    Stage s;
    // This test is of the same user, holds a live capability, and is no runner.
    LineStream launch = LineStream::connect(s.world.bus_host() + "/launch.sock");
    if (launch.valid()) {
        launch.send(s.line("coder"));
        CHECK(!launch.line().has_value());
        CHECK(launch.closed());
    }
    LineStream bus = LineStream::connect(s.world.bus_host() + "/bus.sock");
    if (bus.valid()) {
        bus.send(R"({"id":1,"verb":"message.receive","cap":")" + s.capability +
                 "\",\"args\":{\"wait\":false}}\n");
        CHECK(!bus.line().has_value());
        CHECK(bus.closed());
    }
    CHECK(s.world.sessions().size() == 1);
    // The real one's connections were not disturbed.
    REQUIRE(s.launch.send(s.line("nobody")));
    CHECK(error_of(s.launch.line()) == "instance-not-listed");
}

TEST_CASE("a capability works on its own runner's connections only") {
    Stage s;
    REQUIRE(s.launch.send(s.line("coder")));
    Puppet coder = s.coder_master->accept();
    const std::string coder_capability = coder.capability();
    LineStream coder_bus = coder.claim(coder_capability);
    REQUIRE(s.launch.line().has_value());
    // The PM's runner with the coder's capability, and the other way round.
    json::Value reply =
        s.bus.request("message.receive", object({{"wait", false}}), coder_capability);
    CHECK(text(reply, "error") == "unknown-capability");
    reply = coder_bus.request("message.receive", object({{"wait", false}}), s.capability);
    CHECK(text(reply, "error") == "unknown-capability");
    REQUIRE(s.launch.send(R"({"cap":")" + coder_capability + R"(","instance":"reviewer"})" + "\n"));
    CHECK(error_of(s.launch.line()) == "unknown-capability");
    // Both are as good as before on their own.
    reply = coder_bus.request("message.receive", object({{"wait", false}}), coder_capability);
    CHECK(*reply.find("ok") == json::Value(true));
}

TEST_CASE("a claim with another run's id or before delivery is refused") {
    Stage s;
    const int64_t id = s.admin.ask("launch", object({{"instance", "coder"}}));
    Puppet coder = s.coder_master->accept();
    const std::string capability = coder.capability();
    LineStream bus = coder.connect(s.world.bus_host() + "/bus.sock");
    json::Value reply = bus.request("role.claim", object({{"run", s.pm->run()}}), capability);
    CHECK(*reply.find("ok") == json::Value(false));
    reply = bus.request("role.claim", object({{"run", coder.run()}}), std::string(64, '0'));
    CHECK(text(reply, "error") == "unknown-capability");
    reply = bus.request("role.claim", object({{"run", coder.run()}}), capability);
    CHECK(*reply.find("ok") == json::Value(true));
    // The same again is the same answer.
    reply = bus.request("role.claim", object({{"run", coder.run()}}), capability);
    CHECK(*reply.find("ok") == json::Value(true));
    CHECK(*s.admin.reply(id).find("ok") == json::Value(true));
}

TEST_CASE("frames of any wrong shape on bus.sock harm nobody") {
    Stage s;
    const std::vector<std::string> lines = {
        "{",
        "[]",
        R"({"id":1})",
        R"({"id":1,"verb":"nothing","cap":")" + s.capability + R"(","args":{}})",
        R"({"id":1,"verb":"role.claim","args":{}})",
        R"({"id":1,"verb":"message.ack","cap":")" + s.capability + R"(","args":{"id":7}})",
        R"({"id":1,"verb":"message.send","cap":")" + s.capability +
            R"(","args":{"to":"nobody","class":"REQUEST","body":"x"}})",
    };
    for (const std::string& line : lines) {
        CAPTURE(line);
        LineStream bus = s.pm->connect(s.world.bus_host() + "/bus.sock");
        REQUIRE(bus.valid());
        REQUIRE(bus.send(line + "\n"));
        const auto answer = bus.line();
        // A reply that says no, or a closed connection: never a yes.
        if (answer.has_value()) {
            CHECK_CONTAINS(*answer, "\"ok\":false");
        } else {
            CHECK(bus.closed());
        }
    }
    CHECK(*s.admin.request("sessions", json::Object{}).find("ok") == json::Value(true));
}

TEST_CASE("a capability is dead once its run has ended") {
    Stage s;
    LineStream other = s.connect();
    const std::string capability = s.capability;
    s.pm->exit(0);
    s.world.wait_log("end", s.pm->run());
    CHECK(other.closed());
    CHECK(s.bus.closed());
    // The next PM's runner can't use it either.
    int64_t id = 0;
    Puppet next = s.pm_master->launch(s.admin, id);
    LineStream bus = next.claim(next.capability());
    REQUIRE(*s.admin.reply(id).find("ok") == json::Value(true));
    LineStream launch = next.connect(s.world.bus_host() + "/launch.sock");
    REQUIRE(launch.send(R"({"cap":")" + capability + R"(","instance":"coder"})" + "\n"));
    CHECK(error_of(launch.line()) == "unknown-capability");
    const json::Value reply = bus.request("message.receive", object({{"wait", false}}), capability);
    CHECK(text(reply, "error") == "unknown-capability");
}

TEST_CASE("admin.sock refuses a process of a session") {
    Stage s;
    // From inside the path doesn't exist...
    LineStream inside = s.pm->connect(s.world.bus_host() + "/admin.sock");
    CHECK(!inside.valid());
    // ... and a frame that isn't JSON, from the human, is answered or closed, and nothing more.
    LineStream human = s.world.admin();
    REQUIRE(human.send("what\n"));
    const auto answer = human.line();
    if (answer.has_value()) {
        CHECK_CONTAINS(*answer, "bad-request");
    }
    CHECK(*s.world.admin().request("sessions", json::Object{}).find("ok") == json::Value(true));
}

TEST_CASE("a session that has released its role is not authorized to launch") {
    Stage stage;
    const json::Value released =
        stage.bus.request("role.release", json::Object{}, stage.capability);
    REQUIRE_MESSAGE(*released.find("ok") == json::Value(true), json::dump(released));
    REQUIRE(stage.launch.send(stage.line("coder")));
    CHECK(error_of(stage.launch.line()) == "not-authorized");
    const auto refused = stage.world.wait_log_count("refused", 1);
    CHECK(text(refused[0], "code") == "not-authorized");
    CHECK(text(refused[0], "by") == "pm");
    // The broker's own refusal: one event, not two.
    size_t events = 0;
    for (const json::Value& event : stage.world.events()) {
        events += text(event, "type") == "action.refused" ? 1U : 0U;
    }
    CHECK(events == 1);
}

TEST_CASE("a session's launch is refused when the broker doesn't answer") {
    Stage stage;
    const pid_t broker = stage.world.broker_pid();
    REQUIRE(broker > 0);
    REQUIRE(::kill(broker, SIGSTOP) == 0);
    REQUIRE(stage.launch.send(stage.line("coder")));
    CHECK(error_of(stage.launch.line()) == "broker-unavailable");
    ::kill(broker, SIGCONT);
    // Neither the seat nor the room is lost.
    REQUIRE(stage.launch.send(stage.line("coder")));
    const Puppet coder = stage.run_coder();
    CHECK_CONTAINS(stage.launch.line().value_or(""), coder.run());
}
