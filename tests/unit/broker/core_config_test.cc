// Goal: who may ask for changes of the configuration, what the host is asked, and the event of each
// new configuration.

#include "bench.h"
#include "wire/limits.h"

using namespace mosaic;
using namespace mosaic::broker;
using namespace mosaic::broker::test;

namespace {

json::Value limits_of(const char* instance) {
    return json::Object{{"instance", instance}, {"vars", json::Object{{"model", "m"}}}};
}

const json::Value kRoutes =
    json::Object{{"instance", "coder"}, {"route", json::Object{{"model", "m"}}}};
const json::Value kInstances = json::Object{{"instances", json::Array{"coder"}}};

wire::BrokerConfig with_verbs() {
    auto out = acme();
    out.roles[0].within_role.emplace_back("limits.set");
    out.roles[0].gated = {"instances.set"};
    return out;
}

}  // namespace

TEST_CASE("the human's changes go to the host with the human's name") {
    Bench bench;
    const Outcome out = bench.human("routes.set", kRoutes);
    REQUIRE(out.kind == Outcome::Kind::forward);
    CHECK(out.ask.verb == "configChange");
    const auto change = wire::ConfigChangeArgs::from(out.ask.args);
    REQUIRE(change);
    CHECK(change->verb == wire::ConfigVerb::routes_set);
    CHECK(change->by == "jordan");
    CHECK_FALSE(change->by_session);
    CHECK(change->args == kRoutes);
    for (const char* verb : {"limits.set", "instances.set", "plugins.set"}) {
        CHECK(bench.human(verb, json::Object{{"x", 1}}).reply.error == "bad-request");
    }
    CHECK(bench.human("instances.set", kInstances).kind == Outcome::Kind::forward);
    CHECK(bench.human("routes", kNothing).ask.verb == "checkRoutes");
    CHECK(bench.human("reload", kNothing).ask.verb == "reload");
    CHECK(bench.human("reload", kRoutes).reply.error == "bad-request");
}

TEST_CASE("a session needs the authority and never sets its own vars") {
    Bench bench;
    REQUIRE(bench.host("config", with_verbs().to_value()).reply.ok);
    auto pm = bench.claimed({"pm", "t"}, kPmRun);
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    CHECK(bench.ask(coder, "limits.set", limits_of("pm")).reply.error == "not-authorized");
    CHECK(bench.ask(pm, "limits.set", limits_of("pm")).reply.error == "not-authorized");
    CHECK(bench.ask(pm, "limits.set", kNothing).reply.error == "bad-request");
    const Outcome out = bench.ask(pm, "limits.set", limits_of("coder"));
    REQUIRE(out.kind == Outcome::Kind::forward);
    const auto change = wire::ConfigChangeArgs::from(out.ask.args);
    REQUIRE(change);
    CHECK(change->by == describe(Seat{"pm", "t"}));
    CHECK(change->by_session);
    for (const char* verb : {"routes", "routes.set", "plugins.set", "reload", "metrics"}) {
        CHECK(bench.ask(pm, verb, kNothing).reply.error == "not-human");
    }
}

TEST_CASE("a gated change waits for the human and passes once") {
    Bench bench;
    REQUIRE(bench.host("config", with_verbs().to_value()).reply.ok);
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    const Outcome asked = bench.ask(pm, "instances.set", kInstances);
    CHECK(asked.reply.error == "decision-required");
    CHECK(text_of(bench.events("decision.requested").at(0), "what") ==
          R"(instances.set {"instances":["coder"]})");
    REQUIRE(bench.human("decide", json::Object{{"id", asked.reply.decision}, {"allow", true}})
                .reply.ok);
    CHECK(bench.ask(pm, "instances.set", kInstances).kind == Outcome::Kind::forward);
    CHECK(bench.ask(pm, "instances.set", kInstances).reply.error == "decision-required");
}

TEST_CASE("a gated change that the host refuses may be made again") {
    Bench bench;
    REQUIRE(bench.host("config", with_verbs().to_value()).reply.ok);
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    const std::string id = bench.ask(pm, "instances.set", kInstances).reply.decision;
    const auto decide = [&](bool allow) {
        return bench.human("decide", json::Object{{"id", id}, {"allow", allow}}).reply.ok;
    };
    REQUIRE(decide(true));
    const Outcome first = bench.ask(pm, "instances.set", kInstances);
    REQUIRE(first.kind == Outcome::Kind::forward);
    CHECK(numbered('d', first.allowance) == id);
    REQUIRE(bench.core.give_back(first.allowance, ++bench.now));
    const Outcome second = bench.ask(pm, "instances.set", kInstances);
    CHECK(second.kind == Outcome::Kind::forward);
    CHECK(second.allowance == first.allowance);
    // Given back it can be taken away, too.
    REQUIRE(bench.core.give_back(second.allowance, ++bench.now));
    CHECK(decide(false));
    CHECK(bench.ask(pm, "instances.set", kInstances).reply.error == "not-authorized");
    // What was never used isn't allowed by it.
    REQUIRE(bench.core.give_back(second.allowance, ++bench.now));
    CHECK(bench.ask(pm, "instances.set", kInstances).reply.error == "not-authorized");
    // Free calls use nothing up.
    CHECK(bench.ask(pm, "limits.set", limits_of("coder")).allowance == 0);
}

TEST_CASE("an allowance isn't given back beside a decision that was asked for meanwhile") {
    Bench bench;
    REQUIRE(bench.host("config", with_verbs().to_value()).reply.ok);
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    const std::string id = bench.ask(pm, "instances.set", kInstances).reply.decision;
    REQUIRE(bench.human("decide", json::Object{{"id", id}, {"allow", true}}).reply.ok);
    const Outcome out = bench.ask(pm, "instances.set", kInstances);
    const std::string second = bench.ask(pm, "instances.set", kInstances).reply.decision;
    CHECK(second != id);
    REQUIRE(bench.core.give_back(out.allowance, ++bench.now));
    CHECK(bench.ask(pm, "instances.set", kInstances).reply.decision == second);
}

TEST_CASE("a change that wouldn't fit the frame to the host is too large, whoever asks") {
    Bench bench;
    REQUIRE(bench.host("config", with_verbs().to_value()).reply.ok);
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    const auto tools = [](size_t bytes) {
        return json::Object{
            {"instance", "coder"},
            {"vars", json::Object{{"limits.tools", json::Array{std::string(bytes, 'x')}}}}};
    };
    const size_t around = json::dump(json::Value(tools(0))).size();
    const size_t most = limits::kCallArgsBytesMax - around;
    CHECK(bench.ask(pm, "limits.set", tools(most + 1)).reply.error == "too-large");
    CHECK(bench.human("limits.set", tools(most + 1)).reply.error == "too-large");
    for (const Outcome& out :
         {bench.ask(pm, "limits.set", tools(most)), bench.human("limits.set", tools(most))}) {
        REQUIRE(out.kind == Outcome::Kind::forward);
        wire::Request frame;
        frame.id = INT64_MAX;
        frame.verb = out.ask.verb;
        frame.args = out.ask.args;
        CHECK(wire::encode(frame).size() <= limits::kFrameBytesMax);
    }
}

TEST_CASE("a new configuration is one event with what changed") {
    Bench bench;
    auto config = with_verbs();
    config.news = wire::ConfigNews{"limits.changed", json::Object{{"by", "pm"}, {"x", 1}}};
    const Outcome out = bench.host("config", config.to_value());
    CHECK(out.reply.ok);
    CHECK(out.events_grew);
    const auto events = bench.events("limits.changed");
    REQUIRE(events.size() == 1);
    CHECK(text_of(events[0], "by") == "pm");
    config.news.reset();
    CHECK(bench.core.config() == config);
}
