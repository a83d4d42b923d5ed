// Goal: what commands say to the broker and what they make of its answers. Method: the real program
// against admin.sock, served by a script.

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>
#include <variant>

#include "support.h"

using namespace mosaic;
using namespace mosaic::test;

namespace {

const char* const kLaunched =
    R"({"run":"r0123456789ab","instance":"coder","harness":"script","model":"shell"})";

json::Value message(const std::string& id, const std::string& body) {
    return parsed(R"({"message":{"id":")" + id + R"(","from":"coder","class":"REPLY","body":)" +
                  json::dump(json::Value(body)) +
                  R"(,"at":"2026-01-31T12:34:56.789Z"},"state":{"readAt":"x",)"
                  R"("launchesAllowed":true,"openTasks":0}})");
}

const char* const kNothing =
    R"({"message":null,"state":{"readAt":"x","launchesAllowed":true,"openTasks":0}})";

Exchange ok(const std::string& verb, json::Value result) {
    Exchange out;
    out.verb = verb;
    out.result = std::move(result);
    return out;
}

Exchange ok(const std::string& verb, const char* result) {
    return ok(verb, parsed(result));
}

Exchange refuse(const std::string& verb, const std::string& code, const std::string& text) {
    Exchange out;
    out.verb = verb;
    out.error = code;
    out.message = text;
    return out;
}

Finished at(const Scratch& scratch, std::vector<std::string> arguments, int standard_input = -1) {
    arguments.insert(arguments.end(), {"--data", scratch / "data"});
    return run_mosaic(scratch, std::move(arguments), standard_input);
}

// The read end of a pipe that holds `text` and then ends.
UniqueFd input_of(const std::string& text) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    const UniqueFd write(ends[1]);
    REQUIRE(::write(write.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    return UniqueFd(ends[0]);
}

UniqueFd listen_at(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(path.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, path.c_str(), path.size());
    UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener.get(), 4) == 0);
    return listener;
}

// The first request of a connection; an empty one when there is none.
wire::Request read_request(int client) {
    wire::LineBuffer lines(size_t{1} << 20U);
    std::array<char, 4096> buffer{};
    while (true) {
        if (const auto line = lines.next()) {
            auto frame = wire::decode_frame(*line);
            auto* request = frame ? std::get_if<wire::Request>(&*frame) : nullptr;
            return request != nullptr ? std::move(*request) : wire::Request{};
        }
        const ssize_t n = ::recv(client, buffer.data(), buffer.size(), 0);
        if (n <= 0) {
            return {};
        }
        lines.append({buffer.data(), static_cast<size_t>(n)});
    }
}

}  // namespace

TEST_CASE("launch prints the reply object and exits 0") {
    const Scratch scratch;
    Server server(scratch, {ok("launch", kLaunched)});
    const Finished done = at(scratch, {"launch", "coder", "--thread", "t1", "--json"});
    CHECK(done.exit_code == 0);
    CHECK(done.out == std::string(R"({"ok":true,"result":)") + kLaunched + "}\n");
    CHECK(done.err.empty());
    const auto requests = server.requests();
    REQUIRE(requests.size() == 1);
    CHECK(json::dump(requests[0].args) == R"({"instance":"coder","thread":"t1"})");
    CHECK(requests[0].cap.empty());
}

TEST_CASE("a refused launch prints code and message and exits 3 whatever the code") {
    for (const std::string code : {"capacity-full", "bad-request", "launch-failed", "busy"}) {
        CAPTURE(code);
        const Scratch scratch;
        Server server(scratch, {refuse("launch", code, "2 of \x1b[31m2")});
        const Finished done = at(scratch, {"launch", "coder", "--json"});
        CHECK(done.exit_code == 3);
        const json::Value reply = done.json();
        CHECK(*reply.find("ok") == json::Value(false));
        CHECK(*reply.find("error") == json::Value(code));
        CHECK(*reply.find("message") == json::Value("2 of \x1b[31m2"));
        CHECK(done.err == "mosaic: " + code + ": 2 of \\u001b[31m2\n");
    }
}

TEST_CASE("without a host a command names the socket and exits 1") {
    const Scratch scratch;
    scratch.make_directory("data");
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"launch", "coder"},
                                               {"send", "coder", "x"},
                                               {"inbox"},
                                               {"events"},
                                               {"launches", "allow"},
                                               {"decide", "d1", "allow"}}) {
        const Finished done = at(scratch, arguments);
        CHECK(done.exit_code == 1);
        CHECK(done.out.empty());
        CHECK(done.err.find(scratch / "data/bus-host/admin.sock" + " doesn't answer") !=
              std::string::npos);
        CHECK(done.err.find("`mosaic-host --business ID --data " + scratch / "data" + "` starts") !=
              std::string::npos);
    }
}

TEST_CASE("a broker that closes instead of answering is told as such") {
    const Scratch scratch;
    Server server(scratch, {});
    const Finished done = at(scratch, {"launches", "revoke", "--json"});
    CHECK(done.exit_code == 1);
    CHECK(done.err.find("admin.sock doesn't answer") != std::string::npos);
    CHECK(*done.json().find("error") == json::Value("host-unavailable"));
}

TEST_CASE("who isn't taken for the human exits 3") {
    const Scratch scratch;
    Exchange refused = refuse("launches.allow", "not-human", "pid 7 descends from a session");
    refused.anonymous = true;
    Server server(scratch, {refused});
    const Finished done = at(scratch, {"launches", "allow"});
    CHECK(done.exit_code == 3);
    CHECK(done.err == "mosaic: not-human: pid 7 descends from a session\n");
}

TEST_CASE("send prints the message's id") {
    const Scratch scratch;
    Server server(scratch, {ok("message.send", R"({"id":"m1"})")});
    const Finished done = at(scratch, {"send", "coder", "do it", "--thread", "t1", "--json"});
    CHECK(done.exit_code == 0);
    CHECK(done.out == "{\"id\":\"m1\"}\n");
    const auto requests = server.requests();
    REQUIRE(requests.size() == 1);
    const auto args = wire::MessageSendArgs::from(requests[0].args);
    REQUIRE(args.has_value());
    CHECK(args->to == Seat{"coder", "t1"});
    CHECK(args->body == "do it");
    CHECK(args->message_class == wire::MessageClass::request);
}

TEST_CASE("send --wait prints the reply to that message") {
    const Scratch scratch;
    Server server(
        scratch,
        {ok("message.send", R"({"id":"m1"})"), ok("message.receive", message("m2", "done\nit"))});
    const Finished done = at(scratch, {"send", "coder", "x", "--wait", "20", "--json"});
    CHECK(done.exit_code == 0);
    CHECK(done.out == R"({"id":"m1","reply":{"from":"coder","body":"done\nit"}})"
                      "\n");
    const auto requests = server.requests();
    REQUIRE(requests.size() == 2);
    const auto args = wire::MessageReceiveArgs::from(requests[1].args);
    REQUIRE(args.has_value());
    CHECK(args->wait);
    CHECK(args->in_reply_to == "m1");
}

TEST_CASE("a message to the human is said to be in the inbox") {
    const Scratch scratch;
    Server server(scratch, {ok("message.send", R"({"id":"m1","inbox":true})")});
    const Finished done = at(scratch, {"send", "jordan", "x"});
    CHECK(done.exit_code == 0);
    CHECK(done.out == "m1\n");
    CHECK(done.err ==
          "mosaic: note: jordan is no role but the human; the message is in the inbox\n");
}

TEST_CASE("send --wait exits 1 when no reply came in time, and still tells the id") {
    const Scratch scratch;
    Exchange silent = ok("message.receive", "{}");
    silent.silent = true;
    Server server(scratch, {ok("message.send", R"({"id":"m1"})"), silent});
    const Finished done = at(scratch, {"send", "coder", "x", "--wait", "0.05", "--json"});
    CHECK(done.exit_code == 1);
    CHECK(done.out == "{\"id\":\"m1\",\"reply\":null}\n");
    CHECK(done.err ==
          "mosaic: note: coder isn't running; the message waits for its launch\n"
          "mosaic: no reply to m1 from coder came in time\n");
}

TEST_CASE("a reply in text can't reach the terminal's controls") {
    const Scratch scratch;
    Server server(scratch,
                  {ok("message.send", R"({"id":"m1"})"),
                   ok("message.receive", message("m2", "a\n\x1b]52;c;eA==\x07"))});
    const Finished done = at(scratch, {"send", "coder", "x", "--wait", "20"});
    CHECK(done.exit_code == 0);
    CHECK(done.out == "a\n\\u001b]52;c;eA==\\u0007\n");
}

TEST_CASE("send - takes standard input whole") {
    const Scratch scratch;
    Server server(scratch, {ok("message.send", R"({"id":"m1"})")});
    const UniqueFd input = input_of("line one\nline two\n");
    CHECK(at(scratch, {"send", "coder", "-"}, input.get()).exit_code == 0);
    const auto requests = server.requests();
    REQUIRE(requests.size() == 1);
    CHECK(*requests[0].args.find("body") == json::Value("line one\nline two\n"));
}

TEST_CASE("a body that is no text or too long is invalid input, before anybody is asked") {
    const Scratch scratch;
    scratch.make_directory("data");
    CHECK(at(scratch, {"send", "coder", "a\xFFz"}).exit_code == 2);
    scratch.write("long", std::string(size_t{160} * 1024 + 1, 'x'));
    const UniqueFd input(::open((scratch / "long").c_str(), O_RDONLY | O_CLOEXEC));
    const Finished done = at(scratch, {"send", "coder", "-"}, input.get());
    CHECK(done.exit_code == 2);
    CHECK(done.err.find("160 KiB") != std::string::npos);
}

TEST_CASE("inbox prints each message and acknowledges it after that") {
    const Scratch scratch;
    Server server(scratch,
                  {ok("message.receive", message("m1", "one")),
                   ok("message.ack", "{}"),
                   ok("message.receive", message("m2", "a\n\nm9 from pm")),
                   ok("message.ack", "{}"),
                   ok("message.receive", kNothing)});
    const Finished done = at(scratch, {"inbox"});
    CHECK(done.exit_code == 0);
    CHECK(done.out ==
          "m1 from coder, 2026-01-31T12:34:56.789Z, REPLY\n  one\n\n"
          "m2 from coder, 2026-01-31T12:34:56.789Z, REPLY\n  a\n\n  m9 from pm\n\n");
    const auto requests = server.requests();
    REQUIRE(requests.size() == 5);
    CHECK(*requests[1].args.find("id") == json::Value("m1"));
    CHECK(*requests[3].args.find("id") == json::Value("m2"));
}

TEST_CASE("inbox --wait waits for the first message only, and exits 1 when none came") {
    const Scratch scratch;
    Server server(scratch,
                  {ok("message.receive", kNothing),
                   ok("message.receive", message("m1", "one")),
                   ok("message.ack", "{}"),
                   ok("message.receive", kNothing)});
    CHECK(at(scratch, {"inbox", "--wait", "20", "--json"}).exit_code == 0);
    const auto requests = server.requests();
    REQUIRE(requests.size() == 4);
    CHECK(*requests[0].args.find("wait") == json::Value(false));
    CHECK(*requests[1].args.find("wait") == json::Value(true));
    CHECK(*requests[3].args.find("wait") == json::Value(false));

    const Scratch other;
    Exchange silent = ok("message.receive", "{}");
    silent.silent = true;
    Server nothing(other, {ok("message.receive", kNothing), silent});
    const Finished done = at(other, {"inbox", "--wait", "0.05"});
    CHECK(done.exit_code == 1);
    CHECK(done.out.empty());
    CHECK(done.err == "mosaic: no message came in time\n");
}

TEST_CASE("inbox --peek leaves the message") {
    const Scratch scratch;
    Server server(scratch, {ok("message.receive", message("m1", "one"))});
    const Finished done = at(scratch, {"inbox", "--peek", "--json"});
    CHECK(done.exit_code == 0);
    CHECK(*done.json().find("body") == json::Value("one"));
    CHECK(server.requests().size() == 1);
}

TEST_CASE("a message that nobody could read is not acknowledged") {
    const Scratch scratch;
    Server server(scratch, {ok("message.receive", message("m1", "one"))});
    Running running(MOSAIC_PROGRAM,
                    mosaic_argv({"inbox", "--data", scratch / "data"}),
                    small_environment(scratch / "home"));
    running.close_output();
    CHECK(running.wait_exit().exit_code == 1);
    CHECK(server.requests().size() == 1);
}

TEST_CASE("events prints batches until there are no more") {
    const Scratch scratch;
    Server server(
        scratch,
        {ok("events",
            R"({"events":[{"seq":8,"at":"T","type":"role.claimed","instance":"coder"}],"next":8})"),
         ok("events", R"({"events":[{"seq":9,"at":"T","type":"x","to":"a\nb"}],"next":9})"),
         ok("events", R"({"events":[],"next":9})")});
    const Finished done = at(scratch, {"events", "--since", "7"});
    CHECK(done.exit_code == 0);
    CHECK(done.out == "8 T role.claimed instance=coder\n9 T x to=a b\n");
    const auto requests = server.requests();
    REQUIRE(requests.size() == 3);
    CHECK(json::dump(requests[0].args) == R"({"since":7,"follow":false})");
    CHECK(json::dump(requests[2].args) == R"({"since":9,"follow":false})");
}

TEST_CASE("events --follow prints what comes and ends with the host") {
    const Scratch scratch;
    Exchange last = ok("events", R"({"events":[{"seq":2,"at":"T","type":"y"}],"next":2})");
    last.closes = true;
    Server server(scratch,
                  {ok("events", R"({"events":[{"seq":1,"at":"T","type":"x"}],"next":1})"), last});
    const Finished done = at(scratch, {"events", "--follow", "--json"});
    CHECK(done.exit_code == 1);
    CHECK(done.out.starts_with(
        "{\"seq\":1,\"at\":\"T\",\"type\":\"x\"}\n{\"seq\":2,\"at\":\"T\",\"type\":\"y\"}\n"));
    const auto requests = server.requests();
    REQUIRE(requests.size() >= 2);
    CHECK(*requests[1].args.find("follow") == json::Value(true));
    CHECK(*requests[1].args.find("since") == json::Value(1));
}

TEST_CASE("events --follow ends when nobody reads it any more") {
    const Scratch scratch;
    Exchange silent = ok("events", "{}");
    silent.silent = true;
    Server server(scratch,
                  {ok("events", R"({"events":[{"seq":1,"at":"T","type":"x"}],"next":1})"), silent});
    Running running(MOSAIC_PROGRAM,
                    mosaic_argv({"events", "--follow", "--data", scratch / "data"}),
                    small_environment(scratch / "home"));
    CHECK(running.line() == "1 T x");
    running.close_output();
    CHECK(running.wait_exit().exit_code == 1);
}

TEST_CASE("stop asks a host that answers, with its timeout, and prints the result") {
    const Scratch scratch;
    const std::string result =
        R"({"stopped":true,"business":"acme","instance":"coder","run":"r0123456789ab"})";
    Server server(scratch, {ok("stop", result.c_str())});
    const Finished done = at(scratch, {"stop", "coder", "--timeout", "2.5", "--json"});
    CHECK(done.exit_code == 0);
    CHECK(done.out == result + "\n");
    const auto requests = server.requests();
    REQUIRE(requests.size() == 1);
    const auto args = wire::StopArgs::from(requests[0].args);
    REQUIRE(args.has_value());
    CHECK(args->target == "coder");
    CHECK(args->timeout_ms == 2500);
}

TEST_CASE("a stop whose broker died is asked again for what is left of its time") {
    constexpr int kTimeoutMs = 50;
    const Scratch scratch;
    scratch.make_directory("data/bus-host");
    const UniqueFd listener = listen_at(scratch / "data/bus-host/admin.sock");
    std::vector<int64_t> timeouts;
    std::thread broker([&] {
        for (int life = 0; life < 2; ++life) {
            const UniqueFd client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
            const auto request = read_request(client.get());
            timeouts.push_back(*request.args.find("timeoutMs")->integer());
            // The first one takes all the time that there is, and dies.
            if (life == 0) {
                ::poll(nullptr, 0, 2 * kTimeoutMs);
            } else {
                const std::string reply =
                    wire::encode(wire::reply_ok(request.id, parsed(R"({"stopped":true})")));
                ::send(client.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
            }
        }
    });
    const Finished done = at(scratch, {"stop", "coder", "--timeout", "0.05", "--json"});
    broker.join();
    CHECK(done.exit_code == 0);
    REQUIRE(timeouts.size() == 2);
    CHECK(timeouts[1] == 0);
}

TEST_CASE("an unknown run is an error with the host's text, exit 1") {
    const Scratch scratch;
    Server server(scratch, {refuse("stop", "not-found", "no running session has run id nope")});
    const Finished done = at(scratch, {"stop", "nope"});
    CHECK(done.exit_code == 1);
    CHECK(done.err == "mosaic: not-found: no running session has run id nope\n");
}

TEST_CASE("tasks are read page by page and shown as a table or as JSON") {
    const char* const first =
        R"({"tasks":[{"id":"t1","role":"coder","state":"doing","title":"a\u001b[2Jb","note":"n",)"
        R"("by":"pm","at":"AT","updatedBy":"coder","updatedAt":"THEN"}],"next":"t1"})";
    const char* const second =
        R"({"tasks":[{"id":"t2","role":"pm","state":"open","title":"c","by":"pm","at":"AT"}]})";
    const Scratch scratch;
    Server server(scratch, {ok("task.list", first), ok("task.list", second)});
    const Finished shown = at(scratch, {"tasks", "--role", "coder", "--state", "open"});
    CHECK(shown.exit_code == 0);
    CHECK(shown.out.find("t1  coder  doing  pm  AT") != std::string::npos);
    CHECK(shown.out.find("t2  pm     open   pm  AT") != std::string::npos);
    CHECK(shown.out.find('\x1b') == std::string::npos);
    const auto requests = server.requests();
    REQUIRE(requests.size() == 2);
    CHECK(json::dump(requests[0].args) == R"({"to":"coder","state":"open"})");
    CHECK(json::dump(requests[1].args) == R"({"to":"coder","state":"open","after":"t1"})");

    const Scratch other;
    Server again(other, {ok("task.list", first), ok("task.list", second)});
    const Finished json = at(other, {"tasks", "--json"});
    REQUIRE(json.json().array() != nullptr);
    CHECK(json.json().array()->size() == 2);
    CHECK(*json.json().array()->at(1).find("id")->string() == "t2");
    const Scratch none;
    Server empty(none, {ok("task.list", R"({"tasks":[]})")});
    CHECK(at(none, {"tasks"}).out == "no tasks\n");
    const Scratch nobody;
    Server unknown(nobody, {refuse("task.list", "not-found", "no role nobody")});
    const Finished refused = at(nobody, {"tasks", "--role", "nobody"});
    CHECK(refused.exit_code == 1);
    CHECK(refused.err == "mosaic: not-found: no role nobody\n");
}

TEST_CASE("what waits for a decision is listed and shown whole and escaped") {
    const Scratch scratch;
    Server server(scratch,
                  {ok("decisions",
                      R"({"decisions":[{"id":"d1","instance":"pm","verb":"limits.set",)"
                      R"("state":"pending","at":"2026-01-01"}],"next":"d1"})"),
                   ok("decisions",
                      R"({"decisions":[{"id":"d2","instance":"pm","thread":"t","verb":"x",)"
                      R"("state":"allowed","at":"2026-01-02"}]})")});
    const Finished list = at(scratch, {"decisions"});
    CHECK(list.out ==
          "ID  STATE    BY    VERB        ASKED\n"
          "d1  pending  pm    limits.set  2026-01-01\n"
          "d2  allowed  pm/t  x           2026-01-02\n"
          "\nThe whole of one: mosaic decisions ID\n");
    const auto requests = server.requests();
    REQUIRE(requests.size() == 2);
    CHECK(json::dump(requests[1].args) == R"({"after":"d1"})");
    const std::string one = R"({"decisions":[{"id":"d1","instance":"pm","verb":"limits.set",)"
                            R"("state":"pending","at":"2026-01-01",)"
                            "\"args\":{\"instance\":\"a\xC2\x9B\xE2\x80\x8B"
                            R"(\u001b[2Jz"}}]})";
    const Scratch other;
    Server whole(other, {ok("decisions", one.c_str())});
    CHECK(at(other, {"decisions", "d1"}).out ==
          "d1 pending: pm asks for limits.set, 2026-01-01\n"
          "{\n  \"instance\": \"a\\u009b\\u200b\\u001b[2Jz\"\n}\n");
    CHECK(json::dump(whole.requests().at(0).args) == R"({"id":"d1"})");
    const Scratch third;
    Server as_json(third, {ok("decisions", one.c_str())});
    const std::string out = at(third, {"decisions", "d1", "--json"}).out;
    CHECK(out.find("\xC2\x9B") == std::string::npos);
    CHECK(out.find("a\\u009b\xE2\x80\x8B\\u001b[2Jz") != std::string::npos);
    const Scratch none;
    Server empty(none, {ok("decisions", R"({"decisions":[]})")});
    CHECK(at(none, {"decisions"}).out == "nothing waits for your answer\n");
}

TEST_CASE("decide and launches tell what now holds") {
    const Scratch scratch;
    Server server(scratch, {ok("decide", R"({"id":"d1","allowed":false})")});
    CHECK(at(scratch, {"decide", "d1", "deny"}).out == "d1: denied\n");
    const auto requests = server.requests();
    REQUIRE(requests.size() == 1);
    CHECK(json::dump(requests[0].args) == R"({"id":"d1","allow":false})");
    const Scratch late;
    Server told(late, {refuse("decide", "refused", "the call has passed")});
    CHECK(at(late, {"decide", "d1", "deny"}).exit_code == 3);
    const Scratch other;
    Server switches(other, {ok("launches.revoke", R"({"allowed":false})")});
    CHECK(at(other, {"launches", "revoke", "--json"}).out == "{\"allowed\":false}\n");
}
