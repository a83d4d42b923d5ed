// Goal: a change of a configuration file changes what it says and nothing else, or is an error.
// Method: text to text, compared whole.

#include "config/change.h"

#include <doctest/doctest.h>

#include <string>

using namespace mosaic;
using namespace mosaic::config;

namespace {

const std::string kPath = "/etc/mosaic/businesses/acme.json";

// Odd white space and an order of its own, so that what is kept can be told.
const std::string kBusiness =
    R"({ "human":"jordan","id":"acme",
  "roles":{"pm":{"workspace":"/w","definition":"pm"},
           "coder":{"definition":"coder","workspace":"/c","vars":{"thinking":"high","harness":"a",
              "provider":"p","model":"m","a.key":"\u00e9","limits.tools":["x"],
              "fallback.harness":"b","fallback.provider":"p2","fallback.model":"m2",
              "fallback.thinking":"low"}}},
  "launch":{"by":"pm","models":[{"max":2,"provider":"p","model":"m"}],"instances":["coder"],
            "accountMax":3}})";

std::string pretty(const std::string& text) {
    const auto value = json::parse(text, {16});
    REQUIRE(value);
    return json::dump_pretty(*value);
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
    REQUIRE(text.find(what) != std::string::npos);
    return text.replace(text.find(what), what.size(), by);
}

std::string error_of(const Result<std::string>& changed) {
    return changed ? "none" : changed.error().text;
}

Business business(const std::string& text) {
    auto parsed = parse_business(text, kPath);
    REQUIRE_MESSAGE(parsed.has_value(), (parsed ? "" : parsed.error().text));
    return std::move(*parsed);
}

}  // namespace

TEST_CASE("a part of a route is replaced where it stands and the rest is kept in its order") {
    wire::RoutesSetArgs change;
    change.instance = "coder";
    change.route.model = "m9";
    change.fallback.thinking = "high";
    const auto out = change_routes(kBusiness, kPath, change);
    REQUIRE_MESSAGE(out.has_value(), error_of(out));
    const std::string wanted = replaced(replaced(kBusiness, R"("model":"m",)", R"("model":"m9",)"),
                                        R"("fallback.thinking":"low")",
                                        R"("fallback.thinking":"high")");
    CHECK(*out == pretty(wanted));
}

TEST_CASE("a role without vars gets them behind what it has") {
    wire::RoutesSetArgs change;
    change.instance = "pm";
    change.route = {"a", "p", "m", "high"};
    const auto out = change_routes(kBusiness, kPath, change);
    REQUIRE_MESSAGE(out.has_value(), error_of(out));
    CHECK(*out ==
          pretty(replaced(kBusiness,
                          R"("definition":"pm")",
                          R"("definition":"pm","vars":{"harness":"a","provider":"p","model":"m",)"
                          R"("thinking":"high"})")));
}

TEST_CASE("a fallback goes whole and is never left in part") {
    wire::RoutesSetArgs change;
    change.instance = "coder";
    change.no_fallback = true;
    const auto out = change_routes(kBusiness, kPath, change);
    REQUIRE(out);
    CHECK_FALSE(business(*out).find("coder")->fallback.has_value());
    CHECK(out->find("fallback.") == std::string::npos);
    wire::RoutesSetArgs part;
    part.instance = "pm";
    part.fallback.model = "m";
    CHECK(error_of(change_routes(kBusiness, kPath, part)) ==
          kPath +
              ": /roles/pm/vars/fallback.harness: is missing; a fallback needs all of harness, "
              "provider, model, thinking");
}

TEST_CASE("vars and capacities change together or not at all") {
    wire::LimitsSetArgs change;
    change.instance = "coder";
    change.tools = std::vector<std::string>{};
    change.typed = std::vector<std::string>{"launch"};
    change.models = {{"p", "m", 5}, {"p", "new", 1}};
    change.account_max = 0;
    const auto out = change_limits(kBusiness, kPath, change);
    REQUIRE_MESSAGE(out.has_value(), error_of(out));
    std::string wanted = replaced(kBusiness, R"("limits.tools":["x"])", R"("limits.tools":[])");
    wanted = replaced(wanted,
                      R"("fallback.thinking":"low")",
                      R"("fallback.thinking":"low",)"
                      R"("limits.typed":["launch"])");
    wanted = replaced(wanted,
                      R"({"max":2,"provider":"p","model":"m"})",
                      R"({"max":5,"provider":"p","model":"m"},)"
                      R"({"provider":"p","model":"new","max":1})");
    const size_t account = wanted.find(",\n            \"accountMax\":3");
    REQUIRE(account != std::string::npos);
    wanted.erase(account, wanted.find('3', account) + 1 - account);
    CHECK(*out == pretty(wanted));
    change.typed = std::vector<std::string>{"fly"};
    CHECK(error_of(change_limits(kBusiness, kPath, change))
              .find("/roles/coder/vars/limits.typed/0") != std::string::npos);
}

TEST_CASE("the list of instances is replaced and names roles alone") {
    const auto out = change_instances(kBusiness, kPath, {{"pm"}});
    REQUIRE(out);
    CHECK(*out == pretty(replaced(kBusiness, R"(["coder"])", R"(["pm"])")));
    CHECK(error_of(change_instances(kBusiness, kPath, {{"ghost"}})) ==
          kPath + ": /launch/instances/0: expected a role, found \"ghost\"");
    const std::string none = R"({"id":"acme","human":"h","roles":{}})";
    CHECK(error_of(change_instances(none, kPath, {{}})) ==
          kPath + ": /launch: is missing; expected an object");
}

TEST_CASE("an unknown instance is missing, and not a mistake of the file") {
    wire::RoutesSetArgs change;
    change.instance = "ghost";
    change.route.model = "m";
    const auto out = change_routes(kBusiness, kPath, change);
    REQUIRE_FALSE(out);
    CHECK(out.error().code == Code::missing);
}

TEST_CASE("modules are set in a system file, which may not exist yet") {
    const Environment env = {{"HOME", "/home/x"}};
    const std::string path = "/etc/mosaic/system.json";
    const auto made = change_plugins("", path, env, {{"script", "pi"}});
    REQUIRE(made);
    CHECK(*made == pretty(R"({"plugins":{"harness":["script","pi"]}})"));
    const auto kept = change_plugins(
        R"({"user":"u","plugins":{},"limits":{"claimMs":5}})", path, env, {{"script"}});
    REQUIRE(kept);
    CHECK(*kept ==
          pretty(R"({"user":"u","plugins":{"harness":["script"]},"limits":{"claimMs":5}})"));
    CHECK(error_of(change_plugins("{}", path, env, {{"a", "a"}})).find("/plugins/harness/1") !=
          std::string::npos);
}

TEST_CASE("a file too long to be read again is not made") {
    wire::LimitsSetArgs change;
    change.instance = "coder";
    change.tools = std::vector<std::string>();
    for (int i = 0; i < 5000; ++i) {
        change.tools->push_back(std::string(250, 'x') + std::to_string(i));
    }
    CHECK(error_of(change_limits(kBusiness, kPath, change)).find("more than 1048576 bytes") !=
          std::string::npos);
}

TEST_CASE("only routes that became other ones are to be checked") {
    const Business before = business(kBusiness);
    CHECK(changed_routes(before, before).empty());
    wire::RoutesSetArgs change;
    change.instance = "coder";
    change.fallback.model = "m9";
    const Business fallback = business(*change_routes(kBusiness, kPath, change));
    auto changed = changed_routes(before, fallback);
    REQUIRE(changed.size() == 1);
    CHECK(changed[0].fallback);
    CHECK(changed[0].route->model == "m9");
    // Listed now, and it has no route: that is to be told.
    const std::string all = R"(["coder","pm"])";
    Business listed = business(replaced(kBusiness, R"("by":"pm")", R"("by":"coder")"));
    Business more = business(
        replaced(replaced(kBusiness, R"("by":"pm")", R"("by":"coder")"), R"(["coder"])", all));
    changed = changed_routes(listed, more);
    REQUIRE(changed.size() == 1);
    CHECK(changed[0].instance->name == "pm");
    CHECK(changed[0].route == nullptr);
}
