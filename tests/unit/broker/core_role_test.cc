// Goal: a session acts only with its own run's capability, and only while its run holds its seat.

#include "bench.h"

using namespace mosaic;
using namespace mosaic::broker;
using namespace mosaic::broker::test;

TEST_CASE("a claim is recorded once and tells the host each time") {
    Bench bench;
    auto session = bench.bound({"coder", "t1"}, kCoderRun);
    const auto args = wire::ClaimArgs{kCoderRun}.to_value();
    for (int i = 0; i < 2; ++i) {
        const auto out = bench.ask(session, "role.claim", args);
        REQUIRE(out.reply.ok);
        CHECK(text_of(out.reply.result, "business") == "acme");
        CHECK(text_of(out.reply.result, "instance") == "coder");
        CHECK(text_of(out.reply.result, "thread") == "t1");
        CHECK(text_of(out.reply.result, "run") == kCoderRun);
        REQUIRE(out.note);
        CHECK(out.note->verb == "claimed");
        CHECK(text_of(out.note->args, "run") == kCoderRun);
    }
    CHECK(bench.events("role.claimed").size() == 1);
}

TEST_CASE("another run's capability or run id takes no role") {
    Bench bench;
    auto coder = bench.bound({"coder", ""}, kCoderRun);
    auto pm = bench.bound({"pm", ""}, kPmRun);
    const auto mine = wire::ClaimArgs{kCoderRun}.to_value();
    const wire::Reply wrong = bench.ask(coder.caller, "role.claim", mine, pm.cap).reply;
    CHECK(wrong.error == "unknown-capability");
    CHECK(wrong.message == "not this run's capability");
    CHECK(bench.ask(coder.caller, "role.claim", mine, "").reply.error == "unknown-capability");
    CHECK(bench.ask(coder, "role.claim", wire::ClaimArgs{kPmRun}.to_value()).reply.error ==
          "not-authorized");
    CHECK(bench.ask(coder, "role.claim", kNothing).reply.error == "bad-request");
    CHECK(bench.events("role.claimed").empty());
}

TEST_CASE("a seat that another run holds is role-held") {
    Bench bench;
    auto session = bench.bound({"coder", ""}, kCoderRun);
    Run other;
    other.run = kMuteRun;
    other.seat = {"coder", ""};
    REQUIRE(bench.store.claim(other, 1));
    CHECK(bench.ask(session, "role.claim", wire::ClaimArgs{kCoderRun}.to_value()).reply.error ==
          "role-held");
}

TEST_CASE("a released role gives no more messages and can't be taken again by its run") {
    Bench bench;
    auto session = bench.claimed({"coder", ""}, kCoderRun);
    REQUIRE(bench.human("message.send", letter({"coder", ""}, "hi").to_value()).reply.ok);
    const auto out = bench.ask(session, "role.release", kNothing);
    REQUIRE(out.reply.ok);
    REQUIRE(out.note);
    CHECK(out.note->verb == "released");
    CHECK(bench.ask(session, "message.receive", kNothing).reply.error == "not-authorized");
    CHECK(bench.ask(session, "role.claim", wire::ClaimArgs{kCoderRun}.to_value()).reply.error ==
          "not-authorized");
    CHECK(bench.ask(session, "role.release", kNothing).reply.ok);
    CHECK(bench.events("role.released").size() == 1);
    // Still bound: the seat is free for the next run when this one has ended.
    CHECK(bench.host("bindLaunch", binding({"coder", ""}, kPmRun).to_value()).reply.error ==
          "refused");
    REQUIRE(bench.host("endLaunch", ending({"coder", ""}, kCoderRun).to_value()).reply.ok);
    CHECK(bench.events("role.released").size() == 1);
    auto next = bench.claimed({"coder", ""}, kPmRun);
    CHECK(bench.ask(next, "message.receive", kNothing).reply.result.find("message")->find("body") !=
          nullptr);
}

TEST_CASE("without its claim a run sends, receives, acks and releases nothing") {
    Bench bench;
    auto session = bench.bound({"coder", ""}, kCoderRun);
    for (const char* verb : {"message.send", "message.receive", "message.ack", "role.release"}) {
        CHECK(bench.ask(session, verb, kNothing).reply.error == "not-authorized");
    }
}

TEST_CASE("a session that tries the human's verbs is told so, unknown verbs are unknown") {
    Bench bench;
    auto session = bench.claimed({"pm", ""}, kPmRun);
    for (const char* verb : {"launch",
                             "stop",
                             "launches.allow",
                             "launches.revoke",
                             "decide",
                             "decisions",
                             "sessions",
                             "events"}) {
        CHECK(bench.ask(session, verb, kNothing).reply.error == "not-human");
    }
    CHECK(bench.ask(session, "bindLaunch", kNothing).reply.error == "unknown-verb");
    CHECK(bench.ask(session, "", kNothing).reply.error == "unknown-verb");
    CHECK(bench.ask(session, "role.release", json::Object{{"x", 1}}).reply.error == "bad-request");
}
