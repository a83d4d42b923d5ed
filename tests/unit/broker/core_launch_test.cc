// Goal: the host's verbs record runs exactly as they are asked to, once, and refuse contradictions.

#include "bench.h"
#include "broker/capability.h"
#include "wire/limits.h"

using namespace mosaic;
using namespace mosaic::broker;
using namespace mosaic::broker::test;

TEST_CASE("nothing but config is answered before config") {
    Scratch scratch;
    Store store;
    REQUIRE(store.open(scratch.store()));
    Core core(store);
    Caller host{Caller::Kind::host, "", 0};
    for (const char* verb : {"bindLaunch", "endLaunch", "bound", "refuse", "authorizeLaunch"}) {
        const auto out = core.handle(host, {1, verb, "", kNothing}, 1);
        REQUIRE(out);
        CHECK(out->reply.error == "bad-request");
    }
    CHECK_FALSE(core.configured());
}

TEST_CASE("a config of the wrong shape or with a human who is a role changes nothing") {
    Bench bench;
    json::Value bad = acme().to_value();
    bad.set("surprise", 1);
    CHECK(bench.host("config", bad).reply.error == "bad-request");
    wire::BrokerConfig twice = acme();
    twice.human = "pm";
    CHECK(bench.host("config", twice.to_value()).reply.error == "bad-request");
    CHECK(bench.core.config() == acme());
    CHECK(bench.host("nonsense", kNothing).reply.error == "unknown-verb");
}

TEST_CASE("bindLaunch records the run, mints a capability and tells it in one event") {
    Bench bench;
    const std::string cap = bench.bind({"coder", "t1"}, kCoderRun);
    CHECK(cap.size() == 64);
    const auto run = bench.store.find_run(kCoderRun);
    REQUIRE(run);
    REQUIRE(run->has_value());
    CHECK((*run)->cap_hash == hash_capability(cap));
    CHECK((*run)->process == binding({"coder", "t1"}, kCoderRun).process);
    const auto events = bench.events("session.bound");
    REQUIRE(events.size() == 1);
    CHECK(text_of(events[0], "instance") == "coder");
    CHECK(text_of(events[0], "thread") == "t1");
    CHECK(text_of(events[0], "run") == kCoderRun);
    CHECK(text_of(events[0], "harness") == "script");
    CHECK(text_of(events[0], "launchedBy") == "jordan");
}

TEST_CASE("the same unclaimed record bound again gets a new capability and the older one dies") {
    Bench bench;
    auto session = bench.bound({"coder", ""}, kCoderRun);
    const std::string newer = bench.bind({"coder", ""}, kCoderRun);
    CHECK(newer != session.cap);
    const auto claim = wire::ClaimArgs{kCoderRun}.to_value();
    CHECK(bench.ask(session, "role.claim", claim).reply.error == "unknown-capability");
    session.cap = newer;
    CHECK(bench.ask(session, "role.claim", claim).reply.ok);
    CHECK(bench.events("session.bound").size() == 1);
}

TEST_CASE("a record that claimed, ended or differs is refused and stays as it was") {
    Bench bench;
    bench.claimed({"coder", ""}, kCoderRun);
    const auto original = binding({"coder", ""}, kCoderRun);
    CHECK(bench.host("bindLaunch", original.to_value()).reply.error == "refused");

    bench.bind({"pm", ""}, kPmRun);
    auto other_seat = binding({"pm", "t"}, kPmRun);
    auto other_process = binding({"pm", ""}, kPmRun);
    other_process.process.runner_start_time = "9";
    auto other_harness = binding({"pm", ""}, kPmRun);
    other_harness.harness = "pi";
    for (const auto& differs : {other_seat, other_process, other_harness}) {
        const auto out = bench.host("bindLaunch", differs.to_value());
        CHECK(out.reply.error == "refused");
        CHECK_FALSE(out.reply.message.empty());
    }
    REQUIRE(bench.host("endLaunch", ending({"pm", ""}, kPmRun).to_value()).reply.ok);
    CHECK(bench.host("bindLaunch", binding({"pm", ""}, kPmRun).to_value()).reply.error ==
          "refused");
}

TEST_CASE("one seat has one live run, a thread's run doesn't block the plain one") {
    Bench bench;
    bench.bind({"coder", ""}, kCoderRun);
    CHECK(bench.host("bindLaunch", binding({"coder", ""}, kPmRun).to_value()).reply.error ==
          "refused");
    bench.bind({"coder", "t1"}, kReviewerRun);
    REQUIRE(bench.host("endLaunch", ending({"coder", ""}, kCoderRun).to_value()).reply.ok);
    bench.bind({"coder", ""}, kPmRun);
}

TEST_CASE("one process is the runner of one live run") {
    Bench bench;
    bench.bind({"coder", ""}, kCoderRun);
    auto same_runner = binding({"pm", ""}, kPmRun);
    same_runner.process = binding({"coder", ""}, kCoderRun).process;
    CHECK(bench.host("bindLaunch", same_runner.to_value()).reply.error == "refused");
}

TEST_CASE("a module that is off or unknown is refused") {
    Bench bench;
    auto args = binding({"coder", ""}, kCoderRun);
    args.harness = "claude-code";
    CHECK(bench.host("bindLaunch", args.to_value()).reply.error == "refused");
    auto config = acme();
    bench.bind({"coder", ""}, kCoderRun);
    config.modules = {};
    REQUIRE(bench.host("config", config.to_value()).reply.ok);
    CHECK(bench.host("bindLaunch", binding({"coder", ""}, kCoderRun).to_value()).reply.error ==
          "refused");
}

TEST_CASE("a binding without a living process or with endless names is no request") {
    Bench bench;
    auto no_runner = binding({"coder", ""}, kCoderRun);
    no_runner.process.runner_pid = 0;
    auto no_start = binding({"coder", ""}, kCoderRun);
    no_start.process.runner_start_time = "";
    auto long_model = binding({"coder", ""}, kCoderRun);
    long_model.model = std::string(limits::kNameBytesMax + 1, 'm');
    for (const auto& args : {no_runner, no_start, long_model}) {
        CHECK(bench.host("bindLaunch", args.to_value()).reply.error == "bad-request");
    }
    CHECK(bench.events("session.bound").empty());
}

TEST_CASE("endLaunch records the end once, frees the role and kills the capability") {
    Bench bench;
    auto session = bench.claimed({"coder", ""}, kCoderRun);
    auto args = ending({"coder", ""}, kCoderRun);
    args.reason = EndReason::killed;
    args.exit_code = std::nullopt;
    args.signal = "SIGKILL";
    args.detail = "out of memory";
    const auto first = bench.host("endLaunch", args.to_value());
    CHECK(first.ended_run == kCoderRun);
    const auto result = wire::EndLaunchResult::from(first.reply.result);
    REQUIRE(result);
    CHECK(*result ==
          wire::EndLaunchResult{EndReason::killed, std::nullopt, "SIGKILL", "out of memory", true});
    CHECK(bench.events("role.released").size() == 1);
    const wire::Reply late =
        bench.ask(session, "role.claim", wire::ClaimArgs{kCoderRun}.to_value()).reply;
    CHECK(late.error == "unknown-capability");
    CHECK(late.message == "the run has ended");
    CHECK((*bench.store.find_run(kCoderRun))->cap_hash.empty());

    args.reason = EndReason::host_lost;
    args.signal = "";
    const auto second =
        wire::EndLaunchResult::from(bench.host("endLaunch", args.to_value()).reply.result);
    REQUIRE(second);
    CHECK(*second == wire::EndLaunchResult{
                         EndReason::killed, std::nullopt, "SIGKILL", "out of memory", false});
    const auto events = bench.events("session.ended");
    REQUIRE(events.size() == 1);
    CHECK(text_of(events[0], "reason") == "killed");
    CHECK(text_of(events[0], "signal") == "SIGKILL");
    CHECK(events[0].find("exitCode")->is_null());
    bench.claimed({"coder", ""}, kPmRun);
}

TEST_CASE("ending a run that nobody knows creates it, whoever holds its seat") {
    Bench bench;
    bench.claimed({"coder", ""}, kCoderRun);
    auto args = ending({"coder", ""}, kMuteRun);
    args.reason = EndReason::host_lost;
    args.exit_code = std::nullopt;
    const auto result =
        wire::EndLaunchResult::from(bench.host("endLaunch", args.to_value()).reply.result);
    REQUIRE(result);
    CHECK(result->first);
    CHECK(bench.events("session.ended").size() == 1);
    CHECK(bench.events("role.released").empty());
    const auto bound = wire::BoundResult::from(
        bench.host("bound", wire::BoundArgs{{kMuteRun, kPmRun}}.to_value()).reply.result);
    REQUIRE(bound);
    CHECK(bound->known == std::vector<std::string>{kMuteRun});
    REQUIRE(bound->bound.size() == 1);
    CHECK(bound->bound[0].run == kCoderRun);
}

TEST_CASE("a run that never claimed ends without a released role") {
    Bench bench;
    bench.bind({"coder", ""}, kCoderRun);
    REQUIRE(bench.host("endLaunch", ending({"coder", ""}, kCoderRun).to_value()).reply.ok);
    CHECK(bench.events("role.released").empty());
    CHECK(bench.events("session.ended").size() == 1);
}

TEST_CASE("bound lists live runs with their identity and whether they hold their role") {
    Bench bench;
    bench.bind({"coder", "t"}, kCoderRun);
    bench.claimed({"pm", ""}, kPmRun);
    const auto bound =
        wire::BoundResult::from(bench.host("bound", wire::BoundArgs{}.to_value()).reply.result);
    REQUIRE(bound);
    REQUIRE(bound->bound.size() == 2);
    CHECK(bound->bound[0] == wire::BoundRun{{"coder", "t"},
                                            kCoderRun,
                                            "script",
                                            binding({"coder", "t"}, kCoderRun).process,
                                            false});
    CHECK(bound->bound[1].claimed);
    CHECK(bound->known.empty());
}

TEST_CASE("a launch is authorized for a role that may and holds its seat") {
    Bench bench;
    wire::AuthorizeLaunchArgs args;
    args.target = {"coder", ""};
    args.caller = {"pm", ""};
    args.caller_run = kPmRun;
    const auto ask = [&] { return bench.host("authorizeLaunch", args.to_value()).reply.error; };
    CHECK(ask() == "not-authorized");  // unknown run
    auto pm = bench.bound({"pm", ""}, kPmRun);
    CHECK(ask() == "not-authorized");  // not claimed
    REQUIRE(bench.ask(pm, "role.claim", wire::ClaimArgs{kPmRun}.to_value()).reply.ok);
    CHECK(ask().empty());
    args.caller = {"pm", "t"};
    CHECK(ask() == "not-authorized");  // another seat
    bench.claimed({"coder", ""}, kCoderRun);
    args.caller = {"coder", ""};
    args.caller_run = kCoderRun;
    CHECK(ask() == "not-authorized");  // not in its authority
    const auto refusals = bench.events("action.refused");
    REQUIRE(refusals.size() == 4);
    CHECK(text_of(refusals[3], "instance") == "coder");
    CHECK(text_of(refusals[3], "code") == "not-authorized");
    CHECK(text_of(refusals[3], "by") == "coder");
}

TEST_CASE("revoked launches refuse sessions before everything else") {
    Bench bench;
    bench.claimed({"pm", ""}, kPmRun);
    REQUIRE(bench.human("launches.revoke", kNothing).reply.ok);
    wire::AuthorizeLaunchArgs args;
    args.caller = {"pm", ""};
    args.caller_run = kMuteRun;  // not even a run
    args.target = {"coder", ""};
    CHECK(bench.host("authorizeLaunch", args.to_value()).reply.error == "launch-revoked");
    args.caller_run = kPmRun;
    CHECK(bench.host("authorizeLaunch", args.to_value()).reply.error == "launch-revoked");
    REQUIRE(bench.human("launches.allow", kNothing).reply.ok);
    CHECK(bench.host("authorizeLaunch", args.to_value()).reply.ok);
    const auto refusals = bench.events("action.refused");
    REQUIRE(refusals.size() == 2);
    CHECK(text_of(refusals[1], "code") == "launch-revoked");
}

TEST_CASE("a gated launch waits for a decision, which lets it pass once") {
    Bench bench;
    bench.claimed({"reviewer", ""}, kReviewerRun);
    wire::AuthorizeLaunchArgs args;
    args.caller = {"reviewer", ""};
    args.caller_run = kReviewerRun;
    args.target = {"coder", ""};
    const auto ask = [&] { return bench.host("authorizeLaunch", args.to_value()).reply; };
    CHECK(ask().error == "decision-required");
    CHECK(ask().decision == "d1");  // the same call, the same decision
    CHECK(bench.events("decision.requested").size() == 1);
    REQUIRE(bench.human("decide", wire::DecideArgs{"d1", true}.to_value()).reply.ok);
    args.target = {"mute", ""};
    CHECK(ask().decision == "d2");  // another call isn't covered
    args.target = {"coder", ""};
    CHECK(ask().ok);
    CHECK(ask().decision == "d3");  // once
}

TEST_CASE("refuse records the host's refusal with bounded text") {
    Bench bench;
    const wire::RefuseArgs args{{"coder", ""}, "capacity-full", std::string(100'000, 'x'), "pm"};
    REQUIRE(bench.host("refuse", args.to_value()).reply.ok);
    const auto events = bench.events("action.refused");
    REQUIRE(events.size() == 1);
    CHECK(text_of(events[0], "code") == "capacity-full");
    CHECK(text_of(events[0], "by") == "pm");
    CHECK(text_of(events[0], "reason").size() <= limits::kReasonBytesMax + 3);
}

TEST_CASE("the host and the human carry no capability") {
    Bench bench;
    CHECK(bench.ask(bench.host_caller, "bound", kNothing, "x").reply.error == "bad-request");
    CHECK(bench.ask(bench.human_caller, "sessions", kNothing, "x").reply.error == "bad-request");
}
