// Goal: what programs of a turn get on tools.sock. Method: the real program; the test is a client,
// the broker and the host.

#include "kernel/runner/scene.h"
#include "wire/codes.h"

using namespace scene;

namespace {

std::string ask(Peer& client, const std::string& line) {
    client.send(line + "\n");
    const auto answer = client.line();
    return answer.value_or("closed");
}

json::Value id_result(const std::string& id) {
    return json::Value(json::Object{{"id", id}});
}

}  // namespace

TEST_CASE("calls of the wrong form are answered with what is wrong") {
    Scene s;
    s.session.typed = {"launch", "message_send"};
    s.start();
    auto [broker, receive] = s.claimed();
    Peer c = s.tools();
    CHECK(ask(c, "{") == R"({"ok":false,"error":"bad-request: byte 1: not valid JSON"})");
    CHECK(ask(c, R"({"tool":1})").find("/tool: expected a string") != std::string::npos);
    CHECK(ask(c, R"({"tool":"nope","args":{}})") ==
          R"({"ok":false,"error":"refused: unknown-tool"})");
    CHECK(ask(c, R"({"tool":"message_send","args":{"to":"pm"}})").find("/body") !=
          std::string::npos);
    CHECK(
        ask(c, R"({"tool":"message_send","args":{"to":"pm","body":"x","frob":1}})").find("frob") !=
        std::string::npos);
    CHECK(ask(c, R"({"tool":"message_send","args":{"to":"pm","body":"x","wait":"5"}})")
              .find("/wait") != std::string::npos);
    CHECK(ask(c, R"({"tool":"message_send","args":{"to":"pm","body":"x","class":"SHOUT"}})")
              .find("REQUEST, REPLY or NOTE") != std::string::npos);
    CHECK(ask(c, R"({"tool":"launch","args":{"instance":"coder"}})") ==
          R"({"ok":false,"error":"refused: not-authorized"})");
}

TEST_CASE("a tool that the role wasn't granted is unknown to it") {
    Scene s;
    s.session.typed = {"launch"};
    s.start();
    auto [broker, receive] = s.claimed();
    Peer c = s.tools();
    CHECK(ask(c, R"({"tool":"message_send","args":{"to":"pm","body":"x"}})") ==
          R"({"ok":false,"error":"refused: unknown-tool"})");
}

TEST_CASE("a line past the limit is answered and the connection closed") {
    Scene s;
    s.start();
    auto [broker, receive] = s.claimed();
    Peer c = s.tools();
    c.send(std::string(limits::kToolLineBytesMax + 1, 'x'));
    CHECK(c.line() == R"({"ok":false,"error":"bad-request"})");
    CHECK_FALSE(c.line().has_value());
}

TEST_CASE("message_send gives the id, and with wait the reply") {
    Scene s;
    s.start();
    auto [broker, receive] = s.claimed();
    Peer c = s.tools();
    c.send(R"({"tool":"message_send","args":{"to":"pm","thread":"t","body":"a"}})"
           "\n");
    auto send = broker.expect("message.send");
    // With a key of its own, so that sent again it is stored once.
    CHECK(json::dump(send.args).starts_with(
        R"({"to":"pm","thread":"t","class":"REQUEST","body":"a","key":")"));
    broker.ok(send, id_result("m7"));
    CHECK(c.line() == R"({"ok":true,"result":{"id":"m7"}})");

    c.send(R"({"tool":"message_send","args":{"to":"pm","body":"b","wait":600}})"
           "\n");
    broker.ok(broker.expect("message.send"), id_result("m8"));
    auto wait = broker.expect("message.receive");
    CHECK(*wait.args.find("in_reply_to")->string() == "m8");
    broker.ok(wait, delivery("m9", "the answer", wire::MessageClass::reply));
    CHECK(c.line() ==
          R"({"ok":true,"result":{"id":"m8","reply":{"from":"pm","body":"the answer"}}})");

    c.send(R"({"tool":"message_send","args":{"to":"pm","body":"c"}})"
           "\n");
    broker.send(R"({"id":)" + std::to_string(broker.expect("message.send").id) +
                R"(,"ok":false,"error":"decision-required","message":"ask","decision":"d4"})"
                "\n");
    CHECK(c.line() == R"({"ok":false,"error":"decision-required: d4: ask"})");
}

TEST_CASE("a wait that runs out says so, and the reply that comes later is a turn of its own") {
    Scene s;
    s.adapter("echo \"$MOSAIC_MESSAGE_ID $MOSAIC_MESSAGE_CLASS\" > ../late; echo > ../gate");
    REQUIRE(::mkfifo((s.root + "/gate").c_str(), 0600) == 0);
    s.start();
    auto [broker, receive] = s.claimed();
    Peer c = s.tools();
    c.send(R"({"tool":"message_send","args":{"to":"pm","body":"b","wait":1}})"
           "\n");
    broker.ok(broker.expect("message.send"), id_result("m8"));
    const auto wait = broker.expect("message.receive");
    CHECK(c.line() == R"({"ok":true,"result":{"id":"m8","reply":null}})");
    broker.ok(wait, delivery("m9", "late", wire::MessageClass::reply));
    read_text(s.root + "/gate");
    CHECK(read_text(s.root + "/late") == "m9 REPLY\n");
}

TEST_CASE("calls of several clients run beside each other and beside a turn") {
    Scene s;
    REQUIRE(::mkfifo((s.root + "/gate").c_str(), 0600) == 0);
    s.adapter("read x < ../gate; echo $x");
    s.start();
    auto [broker, receive] = s.claimed();
    broker.ok(receive, delivery("m1", "x"));
    const UniqueFd gate(::open((s.root + "/gate").c_str(), O_WRONLY | O_CLOEXEC));
    Peer a = s.tools();
    Peer b = s.tools();
    a.send(R"({"tool":"message_send","args":{"to":"pm","body":"a"}})"
           "\n");
    const auto from_a = broker.expect("message.send");
    b.send(R"({"tool":"message_send","args":{"to":"pm","body":"b"}})"
           "\n");
    const auto from_b = broker.expect("message.send");
    broker.ok(from_b, id_result("mb"));
    CHECK(b.line() == R"({"ok":true,"result":{"id":"mb"}})");
    broker.ok(from_a, id_result("ma"));
    CHECK(a.line() == R"({"ok":true,"result":{"id":"ma"}})");
    REQUIRE(::write(gate.get(), "end\n", 4) == 4);
    CHECK(*broker.expect("message.send").args.find("body")->string() == "end\n");
}

TEST_CASE("several lines in one write are answered in order, after an end of file too") {
    Scene s;
    s.start();
    auto [broker, receive] = s.claimed();
    Peer c = s.tools();
    c.send(R"({"tool":"message_send","args":{"to":"pm","body":"1"}})"
           "\n"
           R"({"tool":"message_send","args":{"to":"pm","body":"2"}})"
           "\n{\n");
    c.half_close();
    broker.ok(broker.expect("message.send"), id_result("m1"));
    broker.ok(broker.expect("message.send"), id_result("m2"));
    CHECK(c.line() == R"({"ok":true,"result":{"id":"m1"}})");
    CHECK(c.line() == R"({"ok":true,"result":{"id":"m2"}})");
    CHECK(c.line().value_or("").find("bad-request") != std::string::npos);
    CHECK_FALSE(c.line().has_value());
}

TEST_CASE("the seventeenth client waits for a place") {
    Scene s;
    s.start();
    auto [broker, receive] = s.claimed();
    std::vector<Peer> clients;
    for (size_t i = 0; i < limits::kToolClientsMax; ++i) {
        clients.push_back(s.tools());
        CHECK(ask(clients.back(), "{").find("bad-request") != std::string::npos);
    }
    Peer late = s.tools();
    late.send("{\n");
    // The others are served meanwhile, the late one isn't.
    CHECK(ask(clients[0], "{").find("bad-request") != std::string::npos);
    pollfd quiet{late.fd(), POLLIN, 0};
    CHECK(::poll(&quiet, 1, 0) == 0);
    clients.pop_back();
    CHECK(late.line().value_or("").find("bad-request") != std::string::npos);
}

TEST_CASE("of two clients that come together for the last place one waits") {
    Scene s;
    s.start();
    auto [broker, receive] = s.claimed();
    std::vector<Peer> clients;
    for (size_t i = 1; i < limits::kToolClientsMax; ++i) {
        clients.push_back(s.tools());
        CHECK(ask(clients.back(), "{").find("bad-request") != std::string::npos);
    }
    // Together: while the runner doesn't look.
    REQUIRE(::kill(s.pid(), SIGSTOP) == 0);
    siginfo_t stopped{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(s.pid()), &stopped, WSTOPPED) == 0);
    Peer last = s.tools();
    Peer late = s.tools();
    last.send("{\n");
    late.send("{\n");
    REQUIRE(::kill(s.pid(), SIGCONT) == 0);
    CHECK(last.line().value_or("").find("bad-request") != std::string::npos);
    CHECK(ask(clients[0], "{").find("bad-request") != std::string::npos);
    pollfd quiet{late.fd(), POLLIN, 0};
    CHECK(::poll(&quiet, 1, 0) == 0);
    clients.pop_back();
    CHECK(late.line().value_or("").find("bad-request") != std::string::npos);
}

TEST_CASE("launch goes to the host with the capability over one kept connection") {
    Scene s;
    s.session.launch_socket = s.root + "/launch.sock";
    const UniqueFd listener = Scene::listen(s.session.launch_socket);
    s.start();
    auto [broker, receive] = s.claimed();
    Peer c = s.tools();
    c.send(R"({"tool":"launch","args":{"instance":"coder","thread":"t"}})"
           "\n");
    Peer host = Scene::accept(listener);
    const auto line = host.line();
    REQUIRE(line.has_value());
    const auto request = wire::decode_launch_request(*line);
    REQUIRE(request.has_value());
    CHECK(request->cap == kCapability);
    CHECK(request->seat == Seat{"coder", "t"});
    host.send(wire::encode_launch_reply({"r0123456789ac", "coder", "script", "m"}));
    CHECK(c.line() == R"({"ok":true,"result":{"run":"r0123456789ac","instance":"coder",)"
                      R"("harness":"script","model":"m"}})");

    c.send(R"({"tool":"launch","args":{"instance":"coder"}})"
           "\n");
    REQUIRE(host.line().has_value());
    host.send(wire::encode_launch_refusal(Refusal::instance_running, "", ""));
    CHECK(c.line() == R"({"ok":false,"error":"instance-running"})");
    c.send(R"({"tool":"launch","args":{"instance":"coder"}})"
           "\n");
    REQUIRE(host.line().has_value());
    host.send(wire::encode_launch_refusal(Refusal::decision_required, "d1", ""));
    CHECK(c.line() == R"({"ok":false,"error":"decision-required: d1"})");

    // A host that goes away answers what was under way; the next call finds it again.
    c.send(R"({"tool":"launch","args":{"instance":"coder"}})"
           "\n");
    REQUIRE(host.line().has_value());
    host.close();
    CHECK(c.line().value_or("").find("host-unavailable") != std::string::npos);
    c.send(R"({"tool":"launch","args":{"instance":"coder"}})"
           "\n");
    Peer again = Scene::accept(listener);
    REQUIRE(again.line().has_value());
}

TEST_CASE("a rebuilt path to launch.sock doesn't get the capability") {
    Scene s;
    REQUIRE(::mkdir((s.root + "/host").c_str(), 0700) == 0);
    s.session.launch_socket = s.root + "/host/launch.sock";
    const UniqueFd real = Scene::listen(s.session.launch_socket);
    s.start();
    auto [broker, receive] = s.claimed();
    std::filesystem::rename(s.root + "/host", s.root + "/moved");
    REQUIRE(::mkdir((s.root + "/host").c_str(), 0700) == 0);
    const UniqueFd fake = Scene::listen(s.session.launch_socket);
    Peer c = s.tools();
    c.send(R"({"tool":"launch","args":{"instance":"coder"}})"
           "\n");
    Peer host = Scene::accept(real);
    REQUIRE(host.line().has_value());
}

TEST_CASE("tasks and questions are the broker's to answer") {
    Scene s;
    s.session.typed = {"task_create", "task_list", "decision_request"};
    s.start();
    auto [broker, receive] = s.claimed();
    Peer c = s.tools();
    c.send(R"({"tool":"task_create","args":{"title":"t","role":"coder"}})"
           "\n");
    const auto create = broker.expect("task.create");
    CHECK(json::dump(create.args) == R"({"title":"t","to":"coder"})");
    broker.ok(create, id_result("t1"));
    CHECK(c.line() == R"({"ok":true,"result":{"id":"t1"}})");
    c.send(R"({"tool":"decision_request","args":{"question":"q"}})"
           "\n");
    broker.refuse(broker.expect("decision.request"), "quota-exceeded");
    CHECK(c.line() == R"({"ok":false,"error":"quota-exceeded"})");
    CHECK(ask(c, R"({"tool":"task_update","args":{"id":"t1","state":"done"}})") ==
          R"({"ok":false,"error":"refused: unknown-tool"})");
    // A broker that is lost in between is asked again, and its answer is passed on.
    c.send(R"({"tool":"task_list","args":{}})"
           "\n");
    broker.expect("task.list");
    broker.close();
    Peer back = s.broker();
    back.ok(back.expect("role.claim"));
    back.expect("message.receive");
    back.ok(back.expect("task.list"), json::Value(json::Object{{"tasks", json::Array{}}}));
    CHECK(c.line() == R"({"ok":true,"result":{"tasks":[]}})");
}

TEST_CASE("a message that is sent again to the next broker has the key it had") {
    Scene s;
    s.session.typed = {"message_send"};
    s.start();
    auto [broker, receive] = s.claimed();
    Peer c = s.tools();
    const auto send_one = [&c] {
        c.send(R"({"tool":"message_send","args":{"to":"pm","body":"x"}})"
               "\n");
    };
    send_one();
    const auto key_of = [](const wire::Request& request) {
        const auto args = wire::MessageSendArgs::from(request.args);
        REQUIRE(args);
        CHECK_FALSE(args->key.empty());
        return args->key;
    };
    const std::string key = key_of(broker.expect("message.send"));
    broker.close();
    Peer back = s.broker();
    back.ok(back.expect("role.claim"));
    back.expect("message.receive");
    const auto again = back.expect("message.send");
    CHECK(key_of(again) == key);
    back.ok(again, id_result("m1"));
    CHECK(c.line() == R"({"ok":true,"result":{"id":"m1"}})");
    send_one();
    CHECK(key_of(back.expect("message.send")) != key);
}

TEST_CASE("the shell client prints results, and errors with their own status") {
    Scene s;
    s.session.typed = {"message_send"};
    const std::string tool = std::string(MOSAIC_RUNNER) + " tool ";
    s.adapter(tool + "message_send '{\"to\":\"pm\",\"body\":\"hi\"}'; echo $?\n" + tool +
              "launch '{}' 2>&1; echo $?\n" + tool + "message_send '[' 2>/dev/null; echo $?\n" +
              tool + "message_send 2>/dev/null; echo $?\n" + "MOSAIC_RUN_DIR=/nonexistent " + tool +
              "message_send '{}' 2>/dev/null; echo $?\n");
    s.start();
    auto [broker, receive] = s.claimed();
    broker.ok(receive, delivery("m1", "x"));
    broker.ok(broker.expect("message.send"), id_result("m2"));
    const auto send = broker.expect("message.send");
    CHECK(*send.args.find("body")->string() ==
          "{\"id\":\"m2\"}\n0\nrefused: unknown-tool\n1\n4\n4\n1\n");
}
