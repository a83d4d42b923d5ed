// Goal: what asks for changes of the configuration is decoded to the same message; other shapes are
// refused.

#include "wire/config_messages.h"

#include <doctest/doctest.h>

#include <string>

#include "wire/messages.h"

using namespace mosaic;
using namespace mosaic::wire;

namespace {

template <class T>
void round_trip(const T& message) {
    const auto value = json::parse(json::dump(message.to_value()), {16});
    REQUIRE(value);
    const auto back = T::from(*value);
    REQUIRE_MESSAGE(back.has_value(), (back ? "" : back.error().text));
    CHECK(*back == message);
    json::Value more = *value;
    more.set("surprise", 1);
    CHECK_FALSE(T::from(more).has_value());
}

template <class T>
std::string error_of(const std::string& text) {
    const auto value = json::parse(text);
    REQUIRE(value);
    const auto decoded = T::from(*value);
    return decoded ? "none" : decoded.error().text;
}

}  // namespace

TEST_CASE("every message about the configuration survives encode and decode") {
    RoutesSetArgs routes;
    routes.instance = "coder";
    routes.route = {"a", std::nullopt, "m", std::nullopt};
    round_trip(routes);
    routes.fallback = {"a", "b", "c", "d"};
    round_trip(routes);
    routes.fallback = {};
    routes.no_fallback = true;
    round_trip(routes);
    LimitsSetArgs limits;
    limits.account_max = 0;
    round_trip(limits);
    limits.instance = "coder";
    limits.model = "m";
    limits.thinking = "t";
    limits.tools = std::vector<std::string>{};
    limits.typed = std::vector<std::string>{"launch"};
    limits.models = {{"p", "m", 3}};
    round_trip(limits);
    round_trip(InstancesSetArgs{{"coder"}});
    round_trip(InstancesSetArgs{});
    round_trip(PluginsSetArgs{{"script"}});
    round_trip(ConfigChangeArgs{
        ConfigVerb::instances_set, "pm", true, InstancesSetArgs{{"a"}}.to_value()});
    round_trip(ConfigChangeResult{true, {"x"}});
    RoutesResult result;
    InstanceRoutes one;
    one.instance = "coder";
    one.listed = true;
    one.route = CheckedRoute{"a", "p", "m", "t", "harness-off", "why"};
    one.fallback = CheckedRoute{"b", "p", "m", "t", "", ""};
    one.uses = "fallback";
    one.reason = "harness-off";
    result.instances = {one, {"pm", false, std::nullopt, std::nullopt, "", "no-route", "none"}};
    result.models = {{"p", "m", 2, 1}};
    result.accounts = {{"A+B", 3, 0}};
    result.modules = {{"a", true, "broken"}, {"b", false, ""}};
    round_trip(result);
    BrokerConfig config{"acme", "jordan", {}, "", {}, {}};
    config.news = ConfigNews{"routes.changed", json::Object{{"by", "jordan"}}};
    round_trip(config);
    config.news->event = "session.ended";
    CHECK_FALSE(BrokerConfig::from(config.to_value()).has_value());
}

TEST_CASE("a change that says nothing or too much is refused") {
    CHECK(error_of<RoutesSetArgs>(R"({"instance":"coder"})") ==
          "args: /route: is missing; expected route, fallback or both");
    CHECK(error_of<RoutesSetArgs>(R"({"instance":"coder","route":{}})") ==
          "args: /route: expected at least one of harness, provider, model, thinking");
    CHECK(error_of<RoutesSetArgs>(R"({"instance":"coder","route":{"model":""}})") ==
          "args: /route/model: expected a text of 1 to 256 bytes");
    CHECK(error_of<RoutesSetArgs>(R"({"instance":"coder","route":{"tools":"x"}})") != "none");
    CHECK(error_of<LimitsSetArgs>("{}") ==
          "args: /vars: is missing; expected vars, models or accountMax");
    CHECK(error_of<LimitsSetArgs>(R"({"instance":"coder","accountMax":1})") ==
          "args: /vars: is missing; instance and vars come together");
    CHECK(error_of<LimitsSetArgs>(R"({"vars":{"model":"m"}})") ==
          "args: /instance: is missing; instance and vars come together");
    CHECK(error_of<LimitsSetArgs>(R"({"instance":"a","vars":{"harness":"m"}})") != "none");
    CHECK(error_of<LimitsSetArgs>(R"({"models":[{"provider":"p","model":"m","max":-1}]})") !=
          "none");
    CHECK(error_of<LimitsSetArgs>(R"({"models":[]})") != "none");
    CHECK(error_of<InstancesSetArgs>(R"({"instances":["../x"]})") != "none");
    CHECK(error_of<PluginsSetArgs>(R"({})") != "none");
    CHECK(error_of<ConfigChangeArgs>(
              R"({"verb":"routes.set","by":"x","bySession":false,"args":{}})") != "none");
    CHECK(error_of<ConfigChangeArgs>(R"({"verb":"launch","by":"x","bySession":false,"args":{}})") !=
          "none");
}
