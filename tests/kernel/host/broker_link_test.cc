// The link to the broker: what a broker that dies, lies or is slow costs, with real child processes
// that say what the test says.

#include "host/broker_link.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>

#include "process/pidfd.h"
#include "scripted_broker.h"
#include "wire/codes.h"
#include "wire/limits.h"

using namespace mosaic;
using namespace mosaic::test;
using host::BrokerNews;
using launch::EventKind;
using Kind = BrokerNews::Kind;

namespace {

wire::BindLaunchArgs bind_args() {
    wire::BindLaunchArgs args;
    args.seat = {"coder", ""};
    args.run = kRunName;
    args.harness = "script";
    args.provider = "none";
    args.model = "m";
    args.launched_by = "jordan";
    args.process = {10, "100", 11, "101"};
    return args;
}

wire::EndLaunchArgs end_args(const std::string& run = kRunName) {
    wire::EndLaunchArgs args;
    args.seat = {"coder", ""};
    args.run = run;
    args.reason = EndReason::stopped;
    args.exit_code = 0;
    args.process = {10, "100", 11, "101"};
    args.harness = "script";
    return args;
}

wire::EndLaunchResult end_result(bool first) {
    wire::EndLaunchResult result;
    result.reason = EndReason::stopped;
    result.exit_code = 0;
    result.first = first;
    return result;
}

Refusal last_refusal(const Rig& rig) {
    REQUIRE_FALSE(rig.run_events.empty());
    return rig.run_events.back().event.refusal;
}

// When the link will start the next broker; nothing while that isn't decided.
std::optional<Instant> restart_at(const BrokerRig& rig) {
    reactor::TimerQueue timers = rig.loop.timers;
    while (const auto timer = timers.take_due(Instant{INT64_MAX})) {
        if (static_cast<host::TimerKind>(timer->kind) == host::TimerKind::broker_restart) {
            return timer->deadline;
        }
    }
    return std::nullopt;
}

// How long the link waits before it starts the next broker.
int64_t restart_delay_ms(BrokerRig& rig) {
    rig.run_until([&] { return restart_at(rig).has_value(); });
    // Rounded: the ring's tick that saw the end may be a little later than the one that set the
    // timer.
    return ((*restart_at(rig) - rig.loop.now).ns + 5'000'000) / 10'000'000 * 10;
}

}  // namespace

TEST_CASE("a broker gets the configuration first, then is asked for the runs it holds") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    rig.broker->set_candidates({kRunName, "rffffffffffff"});
    CHECK(rig.broker->broker_gone());
    rig.broker->start();
    rig.accept_broker();
    const wire::Request config = rig.next_request("config");
    CHECK(wire::BrokerConfig::from(config.args)->human == "jordan");
    CHECK_FALSE(rig.broker->ready());
    rig.say(wire::reply_ok(config.id, empty_object()));
    const wire::Request bound = rig.next_request("bound");
    CHECK(wire::BoundArgs::from(bound.args)->runs ==
          std::vector<std::string>{kRunName, "rffffffffffff"});
    CHECK_FALSE(rig.broker->ready());
    wire::BoundResult held;
    held.bound.push_back({{"coder", "t1"}, kRunName, "script", {10, "100", 11, "101"}, true});
    held.known = {kRunName};
    rig.say(wire::reply_ok(bound.id, held.to_value()));
    CHECK(rig.next_news(Kind::ready).bound == held);
    CHECK(rig.broker->ready());
}

TEST_CASE("questions and answers find each other in any order") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    rig.broker->start();
    rig.accept_broker();
    rig.serve_start();
    const SlotRef second{4, 1};
    rig.broker->authorize(kSlot, authorize_args());
    rig.broker->authorize(second, authorize_args());
    const wire::Request first_asked = rig.next_request("authorizeLaunch");
    const wire::Request second_asked = rig.next_request("authorizeLaunch");
    CHECK(*wire::AuthorizeLaunchArgs::from(first_asked.args) == authorize_args());
    wire::Reply pending = wire::reply_error(second_asked.id, "decision-required", "");
    pending.decision = "d5";
    rig.say(pending);
    const BrokerNews decision = rig.next_news(Kind::decision);
    CHECK(decision.slot == second);
    CHECK(decision.decision == "d5");
    CHECK(last_refusal(rig) == Refusal::decision_required);
    rig.say(wire::reply_ok(first_asked.id, empty_object()));
    rig.run_until([&] { return rig.count(kSlot, EventKind::authorized) == 1; });

    rig.broker->bind(kSlot, bind_args());
    const wire::Request bind = rig.next_request("bindLaunch");
    CHECK(*wire::BindLaunchArgs::from(bind.args) == bind_args());
    rig.say(wire::reply_ok(bind.id, json::Value(json::Object{{"cap", std::string(64, 'c')}})));
    const BrokerNews bound = rig.next_news(Kind::bound);
    CHECK(bound.cap == std::string(64, 'c'));
    CHECK(rig.count(kSlot, EventKind::bound) == 1);

    rig.broker->end(kSlot, end_args());
    const wire::Request end = rig.next_request("endLaunch");
    CHECK(*wire::EndLaunchArgs::from(end.args) == end_args());
    CHECK(rig.broker->ends_waiting() == 1);
    rig.say(wire::reply_ok(end.id, end_result(true).to_value()));
    CHECK(rig.next_news(Kind::end).end == end_result(true));
    CHECK(rig.count(kSlot, EventKind::ended) == 1);
    CHECK(rig.broker->ends_waiting() == 0);

    rig.broker->refuse({{"coder", ""}, "no-route", "why", "pm"});
    CHECK(wire::RefuseArgs::from(rig.next_request("refuse").args)->code == "no-route");
}

TEST_CASE("a broker that is there isn't asked whether the human may launch") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    rig.broker->authorize_human(kSlot);
    rig.run_until([&] { return rig.count(kSlot, EventKind::refused) == 1; });
    CHECK(last_refusal(rig) == Refusal::broker_unavailable);
    rig.broker->start();
    rig.accept_broker();
    rig.serve_start();
    rig.broker->authorize_human(kSlot);
    rig.broker->bind(kSlot, bind_args());
    rig.next_request("bindLaunch");  // the first that comes
    CHECK(rig.count(kSlot, EventKind::authorized) == 1);
}

TEST_CASE("what the human asks before the broker is ready is told when it is") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    wire::HumanLaunchArgs launch;
    launch.seat = {"coder", ""};
    rig.broker->start();
    rig.accept_broker();
    const wire::Request config = rig.next_request("config");
    rig.say(wire::Request{1, "launch", "", launch.to_value()});
    rig.say(wire::reply_ok(config.id, empty_object()));
    const wire::Request bound = rig.next_request("bound");
    CHECK(rig.news.empty());
    rig.say(wire::reply_ok(bound.id, wire::BoundResult{}.to_value()));
    rig.run_until([&] { return rig.news.size() == 2; });
    CHECK(rig.news.front().kind == Kind::ready);
    CHECK(rig.next_news(Kind::launch).launch == launch);
}

TEST_CASE("a refusal of the broker comes with its code, an unknown code as unavailable") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    rig.broker->start();
    rig.accept_broker();
    rig.serve_start();
    rig.broker->authorize(kSlot, authorize_args());
    rig.say(wire::reply_error(rig.next_request("authorizeLaunch").id, "launch-revoked", ""));
    rig.run_until([&] { return rig.count(kSlot, EventKind::refused) == 1; });
    CHECK(last_refusal(rig) == Refusal::launch_revoked);
    rig.broker->authorize(kSlot, authorize_args());
    rig.say(wire::reply_error(rig.next_request("authorizeLaunch").id, "who-knows", ""));
    rig.run_until([&] { return rig.count(kSlot, EventKind::refused) == 2; });
    CHECK(last_refusal(rig) == Refusal::broker_unavailable);
    rig.broker->bind(kSlot, bind_args());
    rig.say(wire::reply_error(rig.next_request("bindLaunch").id, "refused", "it has ended"));
    CHECK(rig.next_news(Kind::bound).text == "refused: it has ended");
    CHECK(rig.count(kSlot, EventKind::bind_refused) == 1);
    rig.broker->bind(kSlot, bind_args());
    rig.say(wire::reply_ok(rig.next_request("bindLaunch").id, empty_object()));
    CHECK(rig.next_news(Kind::bound).text == "no capability in the answer");
    CHECK(rig.count(kSlot, EventKind::bind_refused) == 2);
}

TEST_CASE("what a dead broker was asked fails to its run, and the next serves") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture said;
    rig.broker->start();
    rig.accept_broker();
    rig.serve_start();
    const SlotRef binder{4, 1};
    rig.broker->authorize(kSlot, authorize_args());
    rig.broker->bind(binder, bind_args());
    rig.next_request("authorizeLaunch");
    rig.next_request("bindLaunch");
    rig.exit_with(9);
    rig.next_news(Kind::gone);
    CHECK(rig.count(kSlot, EventKind::refused) == 1);
    CHECK(rig.count(binder, EventKind::broker_lost) == 1);
    CHECK_FALSE(rig.broker->ready());
    // With no broker they fail at once.
    rig.broker->bind(binder, bind_args());
    rig.broker->authorize(kSlot, authorize_args());
    rig.tick_now();
    CHECK(rig.count(kSlot, EventKind::refused) == 2);
    CHECK(last_refusal(rig) == Refusal::broker_unavailable);
    CHECK(rig.count(binder, EventKind::broker_lost) == 2);

    rig.accept_broker();
    rig.serve_start();
    CHECK(times(said.text(), "the broker ended (exit 9); starting another") == 1);
    rig.broker->authorize(kSlot, authorize_args());
    rig.say(wire::reply_ok(rig.next_request("authorizeLaunch").id, empty_object()));
    rig.run_until([&] { return rig.count(kSlot, EventKind::authorized) == 1; });
}

TEST_CASE("an end is sent to one broker after the other until one has answered") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    rig.broker->end(kSlot, end_args());  // before there is any broker
    rig.broker->end_leftover(2, end_args("rffffffffffff"));
    CHECK(rig.broker->ends_waiting() == 2);
    rig.broker->start();
    for (int life = 0; life < 3; ++life) {
        rig.accept_broker();
        rig.serve_start();
        std::vector<std::string> runs;
        for (int i = 0; i < 2; ++i) {
            runs.push_back(wire::EndLaunchArgs::from(rig.next_request("endLaunch").args)->run);
        }
        std::sort(runs.begin(), runs.end());
        CHECK(runs == std::vector<std::string>{kRunName, "rffffffffffff"});
        CHECK(rig.broker->ends_waiting() == 2);
        rig.exit_with(1);
        rig.next_news(Kind::gone);
        CHECK(rig.broker->ends_waiting() == 2);
    }
    CHECK(rig.run_events.empty());
    rig.accept_broker();
    rig.serve_start();
    for (int i = 0; i < 2; ++i) {
        // This broker's forerunner had recorded it, and died before it could say so.
        rig.say(wire::reply_ok(rig.next_request("endLaunch").id, end_result(false).to_value()));
    }
    rig.run_until([&] { return rig.broker->ends_waiting() == 0; });
    CHECK(rig.count(kSlot, EventKind::ended) == 1);
    CHECK(rig.next_news(Kind::end).end.first == false);
    const BrokerNews recovered = rig.next_news(Kind::recovered);
    CHECK(recovered.leftover == 2);
    CHECK_FALSE(recovered.end.first);
}

TEST_CASE("an end that the broker couldn't record is asked for again") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    rig.broker->start();
    rig.accept_broker();
    rig.serve_start();
    rig.broker->end(kSlot, end_args());
    rig.broker->end_leftover(0, end_args("rffffffffffff"));
    for (int i = 0; i < 3; ++i) {
        const int64_t first = rig.next_request("endLaunch").id;
        const int64_t second = rig.next_request("endLaunch").id;
        rig.say(wire::reply_error(first, "storage-unavailable", "no space"));
        rig.say(wire::reply_ok(second, empty_object()));  // no answer either
        // Answered once both refusals were read: what comes after them is.
        rig.say(wire::Request{i, "claimed", "", wire::RunArgs{kRunName}.to_value()});
        CHECK(rig.next_reply().id == i);
        CHECK(rig.broker->ends_waiting() == 2);
        CHECK(rig.run_events.empty());
        rig.pass(seconds(1));
    }
    for (int i = 0; i < 2; ++i) {
        rig.say(wire::reply_ok(rig.next_request("endLaunch").id, end_result(true).to_value()));
    }
    rig.run_until([&] { return rig.broker->ends_waiting() == 0; });
    CHECK(rig.count(kSlot, EventKind::ended) == 1);
}

TEST_CASE("a broker that dies again and again is started more and more slowly") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    rig.broker->start();
    for (const int64_t delay : {50, 100, 200, 400, 800, 1600, 3200, 5000, 5000}) {
        rig.accept_broker();
        rig.next_request("config");
        rig.exit_with(1);
        CHECK(restart_delay_ms(rig) == delay);
        rig.pass(milliseconds(delay));
    }
    // One that served counts as well again.
    rig.accept_broker();
    rig.serve_start();
    rig.exit_with(1);
    CHECK(restart_delay_ms(rig) == 50);
}

TEST_CASE("a broker that talks nonsense is killed and replaced") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture said;
    rig.broker->start();

    struct Nonsense {
        std::string bytes;
        std::string words;
    };

    const std::vector<Nonsense> all{
        {"not json\n", "not a frame: "},
        {"{\"id\":1}\n", "not a frame: "},
        {"{\"id\":1,\"ok\":true,\"result\":{}} trailing\n", "not a frame: "},
        {std::string("\0\0\0\n", 4), "not a frame: "},
        {"{\"id\":1,\"verb\":\"claimed\",\"args\":{\"run\":\"\xff\xfe\"}}\n", "not a frame: "},
        {std::string(limits::kFrameBytesMax + 1, 'x'), "a line of more than 1048576 bytes"},
    };
    for (size_t i = 0; i < all.size(); ++i) {
        CAPTURE(i);
        rig.accept_broker();
        rig.serve_start();
        rig.broker->end(kSlot, end_args());
        rig.say(all[i].bytes);
        rig.expect_dead();
        rig.next_news(Kind::gone);
        CHECK(times(said.text(), "the broker's connection is lost: " + all[i].words) > 0);
    }
    CHECK(times(said.text(), "the broker ended (SIGKILL); starting another") >= all.size() - 1);
    rig.accept_broker();
    rig.serve_start();
    CHECK(rig.broker->ends_waiting() == all.size());
}

TEST_CASE("a broker that refuses its configuration or has no list is replaced") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture said;
    rig.broker->start();
    rig.accept_broker();
    rig.say(wire::reply_error(rig.next_request("config").id, "bad-request", "no human"));
    rig.expect_dead();
    rig.next_news(Kind::gone);
    CHECK(times(said.text(), "it refused the configuration: bad-request no human") == 1);
    rig.accept_broker();
    rig.say(wire::reply_ok(rig.next_request("config").id, empty_object()));
    rig.say(wire::reply_ok(rig.next_request("bound").id, json::Value(json::Object{{"x", 1}})));
    rig.expect_dead();
    rig.next_news(Kind::gone);
    CHECK(times(said.text(), "no list of bound runs: ") == 1);
    rig.accept_broker();
    rig.serve_start();
}

TEST_CASE("a broker that won't start at all is said to be fatal") {
    for (const char* what : {"refuses", "is missing"}) {
        CAPTURE(what);
        Rig rig;
        if (!rig.ok()) {
            return;
        }
        const StderrCapture quiet;
        const bool missing = std::string(what) == "is missing";
        rig.broker = std::make_unique<host::BrokerLink>(
            rig.loop,
            host::BrokerPrograms{missing ? "/nonexistent/mosaic-broker" : MOSAIC_PUPPET,
                                 missing ? "x" : "exit:3"},
            0,
            0);
        rig.broker->start();
        rig.run_until([&] {
            return std::any_of(rig.news.begin(), rig.news.end(), [](const BrokerNews& n) {
                return n.kind == Kind::fatal;
            });
        });
        for (const BrokerNews& news : rig.news) {
            if (news.kind == Kind::fatal && missing) {
                CHECK(news.text.starts_with("the broker can't be started: "));
                CHECK(news.text.find("/nonexistent/mosaic-broker") != std::string::npos);
            } else if (news.kind == Kind::fatal) {
                CHECK(news.text == "the broker refused to start; its message is above");
            }
        }
        rig.broker->shut_down();
        rig.run_until([&] { return rig.broker->broker_gone(); });
    }
}

TEST_CASE("a changed configuration goes out at once and its event until a broker has it") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture said;
    rig.broker->start();
    rig.accept_broker();
    const wire::Request first = rig.next_request("config");
    auto config = *wire::BrokerConfig::from(first.args);
    CHECK_FALSE(config.news.has_value());
    rig.say(wire::reply_ok(first.id, empty_object()));
    rig.say(wire::reply_ok(rig.next_request("bound").id, wire::BoundResult{}.to_value()));
    rig.run_until([&] { return rig.broker->ready(); });

    config.human = "taylor";
    config.news = wire::ConfigNews{"routes.changed", json::Object{{"by", "jordan"}}};
    rig.broker->set_config(config);
    CHECK(*wire::BrokerConfig::from(rig.next_request("config").args) == config);
    // It dies before it answers: the next one is to record the event.
    rig.exit_with(1);
    rig.accept_broker();
    const wire::Request again = rig.next_request("config");
    CHECK(*wire::BrokerConfig::from(again.args) == config);
    // Its disk is full: the configuration counts all the same.
    rig.say(wire::reply_error(again.id, "storage-unavailable", "full"));
    const wire::Request without = rig.next_request("config");
    config.news.reset();
    CHECK(*wire::BrokerConfig::from(without.args) == config);
    rig.say(wire::reply_ok(without.id, empty_object()));
    rig.say(wire::reply_ok(rig.next_request("bound").id, wire::BoundResult{}.to_value()));
    rig.run_until([&] { return rig.broker->ready(); });
    CHECK(times(said.text(), "the broker can't record routes.changed: full") == 1);
    // One that is ready is only told, and asked nothing anew.
    rig.broker->set_config(config);
    rig.say(wire::reply_ok(rig.next_request("config").id, empty_object()));
    rig.broker->refuse({{"coder", ""}, "no-route", "x", "pm"});
    CHECK(rig.next_request("refuse").verb == "refuse");
    CHECK(rig.broker->ready());
}

TEST_CASE("a broker's exit by another code is not fatal") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    rig.broker->start();
    rig.accept_broker();
    rig.exit_with(1);
    rig.accept_broker();
    CHECK(std::none_of(rig.news.begin(), rig.news.end(), [](const BrokerNews& n) {
        return n.kind == Kind::fatal;
    }));
}

TEST_CASE("the broker's own requests are news, and wrong ones are answered as such") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    rig.broker->start();
    rig.accept_broker();
    rig.serve_start();
    const auto ask = [&](int64_t id, const std::string& verb, json::Value args) {
        wire::Request request;
        request.id = id;
        request.verb = verb;
        request.args = std::move(args);
        rig.say(request);
    };
    ask(1, "claimed", wire::RunArgs{kRunName}.to_value());
    CHECK(rig.next_news(Kind::claimed).run == kRunName);
    wire::Reply reply = rig.next_reply();
    CHECK(reply.id == 1);
    CHECK(reply.ok);
    ask(2, "released", wire::RunArgs{kRunName}.to_value());
    CHECK(rig.next_news(Kind::released).run == kRunName);
    CHECK(rig.next_reply().ok);
    for (const char* verb : {"claimed", "released", "launch", "stop", "configChange"}) {
        ask(3, verb, json::Value(json::Object{{"nonsense", 1}}));
        reply = rig.next_reply();
        CHECK(reply.id == 3);
        CHECK(reply.error == "bad-request");
    }
    ask(4, "reboot", empty_object());
    reply = rig.next_reply();
    CHECK(reply.error == "unknown-verb");
    CHECK(reply.message == "the host has no verb reboot");
    CHECK(rig.news.empty());

    wire::HumanLaunchArgs launch;
    launch.seat = {"coder", "t1"};
    ask(5, "launch", launch.to_value());
    const BrokerNews launching = rig.next_news(Kind::launch);
    CHECK(launching.launch == launch);
    wire::StopArgs stop;
    stop.target = kRunName;
    stop.timeout_ms = 500;
    ask(6, "stop", stop.to_value());
    const BrokerNews stopping = rig.next_news(Kind::stop);
    CHECK(stopping.stop == stop);
    const wire::ConfigChangeArgs change{
        wire::ConfigVerb::instances_set, "pm", true, wire::InstancesSetArgs{{"coder"}}.to_value()};
    ask(7, "configChange", change.to_value());
    const BrokerNews changing = rig.next_news(Kind::change);
    CHECK(changing.change == change);
    for (const auto& [verb, kind] :
         {std::pair{"checkRoutes", Kind::routes}, std::pair{"reload", Kind::reload}}) {
        ask(8, verb, empty_object());
        rig.broker->reply(wire::reply_ok(rig.next_news(kind).request_id, empty_object()));
        CHECK(rig.next_reply().id == 8);
    }
    // Answered the other way round; each reply has the id that its request had.
    rig.broker->reply(wire::reply_ok(stopping.request_id, empty_object()));
    CHECK(rig.next_reply().id == 6);
    rig.broker->reply(wire::reply_error(launching.request_id, "no-route", "why"));
    reply = rig.next_reply();
    CHECK(reply.id == 5);
    CHECK(reply.error == "no-route");
}

TEST_CASE("the reply to a request of a dead broker never answers one of the next") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    rig.broker->start();
    const auto ask_launch = [&](const std::string& instance) {
        wire::HumanLaunchArgs launch;
        launch.seat = {instance, ""};
        wire::Request request;
        request.id = 1;  // each broker begins at 1
        request.verb = "launch";
        request.args = launch.to_value();
        rig.say(request);
        return rig.next_news(Kind::launch).request_id;
    };
    rig.accept_broker();
    rig.serve_start();
    const int64_t old = ask_launch("coder");
    rig.exit_with(1);
    rig.next_news(Kind::gone);
    rig.broker->reply(wire::reply_error(old, "no-route", "to nobody"));
    rig.accept_broker();
    rig.serve_start();
    const int64_t now = ask_launch("reviewer");
    CHECK(old != now);
    rig.broker->reply(wire::reply_error(old, "no-route", "of coder"));
    rig.broker->reply(wire::reply_error(now, "capacity-full", "of reviewer"));
    CHECK(rig.next_reply().message == "of reviewer");
    rig.broker->reply(wire::reply_error(now, "capacity-full", "again"));
    const wire::Request none{2, "claimed", "", wire::RunArgs{kRunName}.to_value()};
    rig.say(none);
    CHECK(rig.next_reply().id == 2);
}

TEST_CASE("a broker that hangs while something is asked of it is replaced and nothing is lost") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    rig.broker->start();
    rig.accept_broker();
    rig.serve_start();
    rig.broker->authorize(kSlot, authorize_args());
    rig.broker->end({5, 1}, end_args());
    for (uint32_t look = 1; look < host::kBrokerSilentLooksMax; ++look) {
        rig.pass(milliseconds(host::kBrokerLookMs));
        CHECK(rig.broker->ready());
    }
    rig.pass(milliseconds(host::kBrokerLookMs));
    // The first look after its last answer may have been the first of the silent ones.
    rig.pass(milliseconds(host::kBrokerLookMs));
    rig.next_news(Kind::gone);
    CHECK(rig.count(kSlot, EventKind::refused) == 1);
    CHECK(last_refusal(rig) == Refusal::broker_unavailable);
    rig.expect_dead();
    rig.accept_broker();
    rig.serve_start();
    const wire::Request again = rig.next_request("endLaunch");
    CHECK(*wire::EndLaunchArgs::from(again.args) == end_args());
}

TEST_CASE("a broker that answers something is not taken for one that hangs") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    rig.broker->start();
    rig.accept_broker();
    rig.serve_start();
    rig.broker->authorize(kSlot, authorize_args());
    rig.next_request("authorizeLaunch");
    for (uint32_t look = 0; look < 4 * host::kBrokerSilentLooksMax; ++look) {
        rig.say(wire::Request{1, "claimed", "", wire::RunArgs{kRunName}.to_value()});
        rig.next_reply();
        rig.pass(milliseconds(host::kBrokerLookMs));
    }
    CHECK(rig.broker->ready());
}

TEST_CASE("a host that was held up for long takes one look and not many") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    rig.broker->start();
    rig.accept_broker();
    rig.serve_start();
    rig.broker->authorize(kSlot, authorize_args());
    const wire::Request asked = rig.next_request("authorizeLaunch");
    rig.pass(milliseconds(100 * host::kBrokerLookMs));
    CHECK(rig.broker->ready());
    rig.say(wire::reply_ok(asked.id, empty_object()));
    rig.run_until([&] { return rig.count(kSlot, EventKind::authorized) == 1; });
    // With nothing asked there is nothing to look at: an idle host sleeps.
    rig.pass(milliseconds(host::kBrokerLookMs));
    CHECK(rig.loop.timers.size() == 0);
}

TEST_CASE("a broker that checks its store has more time before its first answer") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    rig.broker->start();
    rig.accept_broker();
    const wire::Request config = rig.next_request("config");
    for (uint32_t look = 0; look < 4 * host::kBrokerSilentLooksMax; ++look) {
        rig.pass(milliseconds(host::kBrokerLookMs));
    }
    rig.say(wire::reply_ok(config.id, empty_object()));
    rig.say(wire::reply_ok(rig.next_request("bound").id, wire::BoundResult{}.to_value()));
    rig.run_until([&] { return rig.broker->ready(); });
}

TEST_CASE("a reply that nobody waits for changes nothing") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    rig.broker->start();
    rig.accept_broker();
    rig.serve_start();
    rig.broker->authorize(kSlot, authorize_args());
    const int64_t id = rig.next_request("authorizeLaunch").id;
    rig.say(wire::reply_ok(id + 1000, empty_object()));
    rig.say(wire::reply_ok(id, empty_object()));
    rig.say(wire::reply_ok(id, empty_object()));
    rig.say(wire::Request{9, "claimed", "", wire::RunArgs{kRunName}.to_value()});
    CHECK(rig.next_reply().id == 9);
    CHECK(rig.count(kSlot, EventKind::authorized) == 1);
    CHECK(rig.run_events.size() == 1);
}

TEST_CASE("a link that is shut down lets its broker end and starts no other") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    rig.broker->start();
    rig.accept_broker();
    rig.serve_start();
    CHECK_FALSE(rig.broker->broker_gone());
    rig.broker->shut_down();
    rig.expect_dead();
    rig.run_until([&] { return rig.broker->broker_gone(); });
    rig.pass(milliseconds(host::kBrokerLookMs));
    CHECK(rig.loop.timers.size() == 0);
    CHECK(rig.loop.ring->in_flight() == 0);
}

TEST_CASE("a broker doesn't outlive a host that is killed, though it looks at nothing any more") {
    Ends pids = make_pipe();
    REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    const pid_t host = ::fork();
    if (host == 0) {
        Rig rig;
        if (rig.ok()) {
            const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
            rig.broker = std::make_unique<host::BrokerLink>(
                rig.loop, host::BrokerPrograms{MOSAIC_PUPPET, "hang"}, null.get(), null.get());
            rig.broker->set_config({});
            rig.broker->start();
            const std::string self = std::to_string(::getpid());
            std::ifstream children("/proc/" + self + "/task/" + self + "/children");
            pid_t child = 0;
            children >> child;
            [[maybe_unused]] const ssize_t put = ::write(pids.b.get(), &child, sizeof(child));
            ::pause();
        }
        ::_exit(0);
    }
    pids.b.reset();
    pid_t child = 0;
    if (::read(pids.a.get(), &child, sizeof(child)) == sizeof(child)) {
        const auto broker = process::open_pidfd(child);
        REQUIRE(broker.has_value());
        REQUIRE(::kill(host, SIGKILL) == 0);
        CHECK(exits_within(broker->get(), 10'000));
        ignore(process::signal_pidfd(broker->get(), SIGKILL), "it should be gone");
        ignore(process::reap(broker->get()), "it may be somebody else's");
    }
    REQUIRE(::waitpid(host, nullptr, 0) == host);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_CASE("the broker's metrics come as news, and empty ones when none can tell") {
    BrokerRig rig;
    if (!rig.ok()) {
        return;
    }
    rig.broker->ask_metrics();
    CHECK(rig.next_news(Kind::measured).text.empty());
    rig.broker->start();
    rig.accept_broker();
    rig.serve_start();
    rig.broker->ask_metrics();
    const wire::Request asked = rig.next_request("metrics");
    CHECK(asked.args == empty_object());
    rig.say(wire::reply_ok(asked.id, json::Object{{"text", "a 1\n"}}));
    CHECK(rig.next_news(Kind::measured).text == "a 1\n");
    for (const bool refuses : {true, false}) {
        rig.broker->ask_metrics();
        const int64_t id = rig.next_request("metrics").id;
        rig.say(refuses ? wire::reply_error(id, "storage-unavailable", "full")
                        : wire::reply_ok(id, json::Object{{"text", 7}}));
        CHECK(rig.next_news(Kind::measured).text.empty());
    }
    // A question that dies with its broker is answered, too.
    CHECK(rig.loop.counts.broker_restarts.value == 0);
    rig.broker->ask_metrics();
    ignore(rig.next_request("metrics"), "only that it came");
    rig.exit_with(1);
    CHECK(rig.next_news(Kind::measured).text.empty());
    rig.accept_broker();
    rig.serve_start();
    CHECK(rig.loop.counts.broker_restarts.value == 1);
    // And the human's wish for them is news, as it is for launches.
    rig.say(wire::Request{5, "metrics", "", empty_object()});
    rig.broker->reply(wire::reply_ok(rig.next_news(Kind::metrics).request_id, empty_object()));
    CHECK(rig.next_reply().id == 5);
}
