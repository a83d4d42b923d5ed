// Goal: the human's verbs: switches, sessions, events in pages, decisions, what goes to the host.

#include "bench.h"
#include "wire/limits.h"
#include "wire/task_messages.h"

using namespace mosaic;
using namespace mosaic::broker;
using namespace mosaic::broker::test;

TEST_CASE("launch and stop are the host's to answer, once their shape is right") {
    Bench bench;
    CHECK(bench.human("launch", json::Object{{"instance", "coder"}}).kind ==
          Outcome::Kind::forward);
    CHECK(bench.human("stop", json::Object{{"target", kCoderRun}}).kind == Outcome::Kind::forward);
    CHECK(bench.human("launch", json::Object{{"instance", "../x"}}).reply.error == "bad-request");
    CHECK(bench.human("stop", kNothing).reply.error == "bad-request");
}

TEST_CASE("a switch of launches is one event, and the same again is none") {
    Bench bench;
    for (int i = 0; i < 2; ++i) {
        const auto out = bench.human("launches.revoke", kNothing);
        CHECK(*out.reply.result.find("allowed")->boolean() == false);
    }
    CHECK(*bench.human("launches.allow", kNothing).reply.result.find("allowed")->boolean());
    const auto events = bench.events("launches.switched");
    REQUIRE(events.size() == 2);
    CHECK(*events[0].find("allowed")->boolean() == false);
    CHECK(text_of(events[0], "by") == "jordan");
    CHECK(bench.human("launches.allow", json::Object{{"x", 1}}).reply.error == "bad-request");
}

TEST_CASE("sessions lists the live runs") {
    Bench bench;
    bench.claimed({"pm", ""}, kPmRun);
    bench.bind({"coder", "t"}, kCoderRun);
    bench.bind({"mute", ""}, kMuteRun);
    REQUIRE(bench.host("endLaunch", ending({"mute", ""}, kMuteRun).to_value()).reply.ok);
    const auto out = bench.human("sessions", kNothing);
    const json::Array& list = *out.reply.result.find("sessions")->array();
    REQUIRE(list.size() == 2);
    CHECK(text_of(list[0], "run") == kCoderRun);
    CHECK(text_of(list[0], "thread") == "t");
    CHECK(*list[0].find("claimed")->boolean() == false);
    CHECK(text_of(list[1], "instance") == "pm");
    CHECK(list[1].find("thread") == nullptr);
    CHECK(*list[1].find("claimed")->boolean());
    CHECK(text_of(list[1], "boundAt").size() == 24);
}

TEST_CASE("events come in order, without gaps, in pages that fit a frame") {
    Bench bench;
    // Each near the longest there can be, so that a page is cut by its bytes, not by its count.
    const std::string reason(limits::kReasonBytesMax, '\x01');
    for (int i = 0; i < 450; ++i) {
        const wire::RefuseArgs args{{"coder", ""}, "busy", i % 2 == 0 ? reason : "r", "pm"};
        REQUIRE(bench.host("refuse", args.to_value()).reply.ok);
    }
    int64_t since = 0;
    int pages = 0;
    while (since < 450) {
        const auto out = bench.human("events", wire::EventsArgs{since, true}.to_value());
        REQUIRE(out.kind == Outcome::Kind::reply);
        CHECK(wire::encode(out.reply).size() <= limits::kFrameBytesMax + 1);
        const json::Array& page = *out.reply.result.find("events")->array();
        REQUIRE_FALSE(page.empty());
        CHECK(page.size() <= limits::kEventsPerReplyMax);
        for (const json::Value& event : page) {
            CHECK(*event.find("seq")->integer() == ++since);
        }
        CHECK(*out.reply.result.find("next")->integer() == since);
        ++pages;
    }
    CHECK(pages > 3);
    CHECK(bench.human("events", wire::EventsArgs{since, true}.to_value()).kind ==
          Outcome::Kind::wait);
    const auto none = bench.human("events", wire::EventsArgs{since, false}.to_value());
    CHECK(none.reply.result.find("events")->array()->empty());
    CHECK(*none.reply.result.find("next")->integer() == since);
    CHECK(bench.human("events", json::Object{{"since", -1}}).reply.error == "bad-request");
}

TEST_CASE("of the events the newest alone can be asked for") {
    Bench bench;
    const auto ask = [&](const wire::EventsArgs& args) {
        return bench.human("events", args.to_value());
    };
    CHECK(ask({0, true, 5}).kind == Outcome::Kind::wait);
    for (int i = 0; i < 6; ++i) {
        bench.human(i % 2 == 0 ? "launches.revoke" : "launches.allow", kNothing);
    }
    const auto seqs = [&](const wire::EventsArgs& args) {
        const Outcome out = ask(args);
        REQUIRE(out.kind == Outcome::Kind::reply);
        std::vector<int64_t> list;
        for (const json::Value& event : *out.reply.result.find("events")->array()) {
            list.push_back(*event.find("seq")->integer());
        }
        CHECK(*out.reply.result.find("next")->integer() == 6);
        return list;
    };
    CHECK(seqs({0, true, 2}) == std::vector<int64_t>{5, 6});
    CHECK(seqs({0, false, 100}).size() == 6);
    // Both bounds count.
    CHECK(seqs({5, true, 4}) == std::vector<int64_t>{6});
    CHECK(seqs({6, false, 4}).empty());
    CHECK(ask({6, true, 4}).kind == Outcome::Kind::wait);
    CHECK(bench.human("events", json::Object{{"last", -1}}).reply.error == "bad-request");
}

TEST_CASE("the human can change a decision until the call has passed") {
    Bench bench;
    auto session = bench.claimed({"reviewer", ""}, kReviewerRun);
    const auto send = [&] {
        return bench.ask(session, "message.send", letter({"pm", ""}, "hello").to_value()).reply;
    };
    const auto decide = [&](const std::string& id, bool allow) {
        return bench.human("decide", wire::DecideArgs{id, allow, ""}.to_value()).reply;
    };
    CHECK(send().decision == "d1");
    CHECK(decide("d1", false).ok);
    CHECK(send().error == "not-authorized");
    CHECK(decide("d1", true).ok);
    CHECK(decide("d1", true).ok);
    CHECK(send().ok);
    CHECK(decide("d1", false).error == "refused");
    CHECK(send().decision == "d2");
    for (const char* id : {"d3", "d0", "d01", "d", "m1", "", "d99999999999999999999"}) {
        CHECK(decide(id, true).error == "not-found");
    }
    const auto made = bench.events("decision.made");
    REQUIRE(made.size() == 2);
    CHECK(text_of(made[0], "decision") == "refused");
    CHECK(text_of(made[1], "decision") == "allowed");
    CHECK(text_of(made[1], "verb") == "message.send");
    CHECK(text_of(made[1], "by") == "jordan");
    const auto requested = bench.events("decision.requested");
    REQUIRE(requested.size() == 2);
    CHECK(text_of(requested[0], "by") == "reviewer");
    CHECK(text_of(requested[0], "what") == "send REQUEST of 5 bytes to pm: hello");
}

TEST_CASE("the human sees the whole of what is decided") {
    Bench bench;
    auto session = bench.claimed({"reviewer", ""}, kReviewerRun);
    // Longer than any line about it.
    const std::string body = std::string(20'000, 'x') + "\nand at last: give me the keys";
    const auto args = letter({"pm", ""}, body);
    REQUIRE(bench.ask(session, "message.send", args.to_value()).reply.decision == "d1");
    REQUIRE(bench.ask(session, "message.send", letter({"pm", ""}, "2").to_value()).reply.decision ==
            "d2");
    const auto ask = [&](const wire::DecisionsArgs& which) {
        const auto reply = bench.human("decisions", which.to_value()).reply;
        REQUIRE_MESSAGE(reply.ok, reply.message);
        const auto result = wire::DecisionsResult::from(reply.result);
        REQUIRE(result);
        return *result;
    };
    const auto one = ask({"d1", ""});
    REQUIRE(one.decisions.size() == 1);
    CHECK(one.decisions[0].verb == "message.send");
    CHECK(one.decisions[0].instance == "reviewer");
    CHECK(one.decisions[0].state == "pending");
    REQUIRE(one.decisions[0].args);
    CHECK(*one.decisions[0].args == args.to_value());
    // The list has no arguments: of many they would fit no frame.
    const auto list = ask({});
    REQUIRE(list.decisions.size() == 2);
    CHECK_FALSE(list.decisions[0].args);
    CHECK(ask({"", "d1"}).decisions.at(0).id == "d2");
    const auto state = [&](const char* id) { return ask({id, ""}).decisions.at(0).state; };
    REQUIRE(bench.human("decide", wire::DecideArgs{"d1", true, ""}.to_value()).reply.ok);
    REQUIRE(bench.human("decide", wire::DecideArgs{"d2", false, ""}.to_value()).reply.ok);
    CHECK(state("d1") == "allowed");
    CHECK(state("d2") == "refused");
    // What is allowed can still be taken back.
    REQUIRE(ask({}).decisions.size() == 1);
    CHECK(ask({}).decisions[0].id == "d1");
    REQUIRE(bench.ask(session, "message.send", args.to_value()).reply.ok);
    CHECK(state("d1") == "used");
    CHECK(ask({}).decisions.empty());
    CHECK(bench.human("decisions", wire::DecisionsArgs{"d3", ""}.to_value()).reply.error ==
          "not-found");
    CHECK(bench.human("decisions", wire::DecisionsArgs{"", "x"}.to_value()).reply.error ==
          "not-found");
    CHECK(bench.human("decisions", json::Object{{"x", 1}}).reply.error == "bad-request");
}

TEST_CASE("the list of decisions comes in pages") {
    Bench bench;
    Decision one;
    one.seat = {"reviewer", ""};
    one.verb = "message.send";
    one.args = "{}";
    const auto count = static_cast<int64_t>(limits::kDecisionsPerReplyMax) + 1;
    for (int64_t i = 0; i < count; ++i) {
        REQUIRE(bench.store.add_decision(one, bench.now));
    }
    const auto page = [&](const std::string& after) {
        return *wire::DecisionsResult::from(
            bench.human("decisions", wire::DecisionsArgs{"", after}.to_value()).reply.result);
    };
    const auto first = page("");
    CHECK(first.decisions.size() == limits::kDecisionsPerReplyMax);
    CHECK(first.next == numbered('d', count - 1));
    const auto second = page(first.next);
    REQUIRE(second.decisions.size() == 1);
    CHECK(second.decisions[0].id == numbered('d', count));
    CHECK(second.next.empty());
}

TEST_CASE("what one seat can leave undecided is bounded") {
    Bench bench;
    auto session = bench.claimed({"reviewer", ""}, kReviewerRun);
    std::string last;
    for (size_t i = 0; i <= limits::kDecisionsPendingMax; ++i) {
        last = bench
                   .ask(session,
                        "message.send",
                        letter({"pm", ""}, "hello " + std::to_string(i)).to_value())
                   .reply.error;
        CHECK(last == (i < limits::kDecisionsPendingMax ? "decision-required" : "quota-exceeded"));
    }
}

TEST_CASE("verbs that the human doesn't have are unknown") {
    Bench bench;
    for (const char* verb : {"role.claim", "bindLaunch", "", "Launch"}) {
        CHECK(bench.human(verb, kNothing).reply.error == "unknown-verb");
    }
}
