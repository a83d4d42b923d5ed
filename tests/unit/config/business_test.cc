// Goal: a business file means one thing or is refused with the place and the expectation. Method:
// good documents are compared whole, bad ones by the exact text of their error.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "config/config.h"

using mosaic::config::Authority;
using mosaic::config::Business;
using mosaic::config::Instance;
using mosaic::config::LaunchConfig;
using mosaic::config::Network;
using mosaic::config::parse_business;
using mosaic::config::Route;

namespace {

const std::string kPath = "/etc/mosaic/businesses/acme.json";

std::string error_of(const std::string& text) {
    const auto parsed = parse_business(text, kPath);
    return parsed ? "no error" : parsed.error().text;
}

// A business whose only role has these vars.
std::string with_vars(const std::string& vars) {
    return R"({"id":"acme","human":"jordan","roles":{"pm":{"definition":"pm",)"
           R"("workspace":"/w","vars":)" +
           vars + "}}}";
}

// A business of two roles with these members behind them.
std::string with_rest(const std::string& rest) {
    return R"({"id":"acme","human":"jordan","roles":{"pm":{"definition":"pm","workspace":"/w"},)"
           R"("coder":{"definition":"coder","workspace":"/c"}},)" +
           rest + "}";
}

Instance only_role(const std::string& text) {
    const auto parsed = parse_business(text, kPath);
    REQUIRE_MESSAGE(parsed.has_value(), (parsed ? "" : parsed.error().text));
    REQUIRE(parsed->find("pm") != nullptr);
    return *parsed->find("pm");
}

}  // namespace

TEST_CASE("a workspace may have any name that UTF-8 can say") {
    const auto workspace = [](const std::string& text, const std::string& path) {
        return parse_business(R"({"id":"a","human":"h","roles":{"pm":{"definition":"pm",)"
                              R"("workspace":")" +
                                  text + R"("}}})",
                              path);
    };
    CHECK(workspace("/w/a b", kPath)->roles.at("pm").workspace == "/w/a b");
    CHECK(workspace("/w/a\\nb\\u001b", kPath)->roles.at("pm").workspace == "/w/a\nb\x1b");
    CHECK(workspace("-rf", "/etc/x.json")->roles.at("pm").workspace == "/etc/-rf");
    CHECK(workspace("/w", "/\xFF/x.json")->roles.at("pm").workspace == "/w");
    const std::string where = "/roles/pm/workspace: expected ";
    const auto nul = workspace("/w\\u0000", kPath);
    REQUIRE_FALSE(nul.has_value());
    CHECK(nul.error().text.find(where + "a path without NUL characters, found \"/w\\u0000\"") !=
          std::string::npos);
    const auto relative = workspace("w", "/\xFF/x.json");
    REQUIRE_FALSE(relative.has_value());
    CHECK(relative.error().text.find(where + "an absolute path, or a file in a directory whose "
                                             "path is UTF-8: this one lies in \"/\\xff\"") !=
          std::string::npos);
}

TEST_CASE("a full business document is read into every field") {
    const std::string text = R"({
      "id": "acme", "human": "jordan", "arbiters": {"technical": "pm", "delivery": "jordan"},
      "roles": {
        "pm": {"definition": "lead", "workspace": "/srv/acme/pm", "warm": 2,
               "sharedWorkspace": true,
               "vars": {"harness": "claude-code", "provider": "anthropic",
                        "model": "claude-opus-5-5", "thinking": "high",
                        "fallback.harness": "pi", "fallback.provider": "zai",
                        "fallback.model": "glm-5", "fallback.thinking": "medium",
                        "limits.tools": ["bash", "read"], "limits.typed": ["launch",
                               "message_send"],
                        "network": "none", "script.command": "cat", "pi.max-turns": "3"},
               "authority": {"withinRole": ["message.send", "role.launch"],
                             "crossRole": ["task.create"], "gated": ["limits.set"]}},
        "coder": {"definition": "coder", "workspace": "work/coder"}},
      "launch": {"by": "pm", "instances": ["coder"], "accountMax": 5,
                 "models": [{"provider": "anthropic", "model": "claude-opus-5-5", "max": 2},
                            {"provider": "zai", "model": "claude-opus-5-5", "max": 1}]} })";
    Instance pm;
    pm.name = "pm";
    pm.definition = "lead";
    pm.workspace = "/srv/acme/pm";
    pm.shared_workspace = true;
    pm.warm = 2;
    pm.route = Route{"claude-code", "anthropic", "claude-opus-5-5", "high"};
    pm.fallback = Route{"pi", "zai", "glm-5", "medium"};
    pm.tools = {"bash", "read"};
    pm.typed = {"launch", "message_send"};
    pm.network = Network::none;
    pm.vars = {{"pi.max-turns", "3"}, {"script.command", "cat"}};
    pm.authority = Authority{{"message.send", "role.launch"}, {"task.create"}, {"limits.set"}};
    Instance coder;
    coder.name = "coder";
    coder.definition = "coder";
    coder.workspace = "/etc/mosaic/businesses/work/coder";
    Business expected;
    expected.file = kPath;
    expected.id = "acme";
    expected.human = "jordan";
    expected.arbiters = {{"delivery", "jordan"}, {"technical", "pm"}};
    expected.roles = {{"coder", coder}, {"pm", pm}};
    expected.launch = LaunchConfig{
        "pm", {"coder"}, {{"anthropic", "claude-opus-5-5", 2}, {"zai", "claude-opus-5-5", 1}}, 5};

    const auto parsed = parse_business(text, kPath);
    REQUIRE_MESSAGE(parsed.has_value(), (parsed ? "" : parsed.error().text));
    CHECK(*parsed == expected);
    CHECK(parsed->find("pm")->may_launch());
    CHECK_FALSE(parsed->find("coder")->may_launch());
    CHECK(parsed->find("nobody") == nullptr);
}

TEST_CASE("a business needs no launch block, arbiters or vars") {
    const auto parsed = parse_business(R"({"id":"a","human":"h","roles":{}})", kPath);
    REQUIRE(parsed.has_value());
    CHECK_FALSE(parsed->launch.has_value());
    CHECK(parsed->roles.empty());
}

TEST_CASE("an incomplete primary route is no error of the file, it is no route") {
    CHECK_FALSE(only_role(with_vars("{}")).route.has_value());
    CHECK_FALSE(
        only_role(with_vars(R"({"harness":"pi","provider":"zai","model":"m"})")).route.has_value());
    CHECK_FALSE(
        only_role(with_vars(R"({"harness":"pi","provider":"zai","model":"m","thinking":""})"))
            .route.has_value());
    const Instance role =
        only_role(with_vars(R"({"harness":"pi","provider":"zai","model":"m","thinking":"off"})"));
    REQUIRE(role.route.has_value());
    CHECK(*role.route == Route{"pi", "zai", "m", "off"});
    CHECK_FALSE(role.fallback.has_value());
}

TEST_CASE("a role may launch when its authority and its typed tools both say so") {
    const auto may = [](const std::string& authority, const std::string& typed) {
        return only_role(
                   R"({"id":"a","human":"h","roles":{"pm":{"definition":"pm","workspace":"/w",)"
                   R"("vars":{"limits.typed":)" +
                   typed + R"(},"authority":)" + authority + "}}}")
            .may_launch();
    };
    CHECK(may(R"({"withinRole":["role.launch"]})", R"(["launch"])"));
    CHECK(may(R"({"crossRole":["role.launch"]})", R"(["launch"])"));
    CHECK(may(R"({"gated":["role.launch"]})", R"(["launch"])"));
    CHECK_FALSE(may(R"({"withinRole":["message.send"]})", R"(["launch"])"));
    CHECK_FALSE(may(R"({"withinRole":["role.launch"]})", R"(["message_send"])"));
}

TEST_CASE("a module's var reaches its adapter under one variable's name") {
    CHECK(mosaic::config::variable_name("script.command") == "MOSAIC_VAR_SCRIPT_COMMAND");
    CHECK(mosaic::config::variable_name("claude-code.maxTurns2") ==
          "MOSAIC_VAR_CLAUDE_CODE_MAXTURNS2");
}

TEST_CASE("bad business documents are refused with file, pointer and expectation") {
    const std::string id_help =
        "expected an id (a-z, 0-9 and -, 1 to 64 characters, not starting with -), found ";
    const std::string var_help =
        "unknown key; expected harness, provider, model, thinking, one of these behind fallback., "
        "limits.tools, limits.typed, network, or <module>.<key>";
    const std::string verbs =
        "expected one of role.launch, role.claim, role.release, message.send, message.receive, "
        "message.ack, task.create, task.list, task.update, decision.request, limits.set, "
        "instances.set, found ";
    const std::vector<std::pair<std::string, std::string>> table = {
        {"", "byte 0: an empty document"},
        {"7", "expected an object, found an integer"},
        {R"({"human":"h","roles":{}})", "/id: is missing; expected a string"},
        {R"({"id":"Acme","human":"h","roles":{}})", "/id: " + id_help + "\"Acme\""},
        {R"({"id":"..","human":"h","roles":{}})", "/id: " + id_help + "\"..\""},
        {R"({"id":"a\u0000b","human":"h","roles":{}})", "/id: " + id_help + "\"a\\u0000b\""},
        {R"({"id":"a","human":"","roles":{}})", "/human: " + id_help + "\"\""},
        {R"({"id":"a","human":"h"})", "/roles: is missing; expected an object"},
        {R"({"id":"a","human":"h","roles":[]})", "/roles: expected an object, found an array"},
        {R"({"id":"a","human":"h","roles":{},"x":1})", "/x: unknown key"},
        {R"({"id":"a","human":"h","roles":{"P M":{"definition":"pm","workspace":"/w"}}})",
         "/roles/P M: expected a role's name (an id: a-z, 0-9 and -, 1 to 64 characters, not "
         "starting with -)"},
        {R"({"id":"a","human":"h","roles":{"a/b":{"definition":"pm","workspace":"/w"}}})",
         "/roles/a~1b: expected a role's name (an id: a-z, 0-9 and -, 1 to 64 characters, not "
         "starting with -)"},
        {R"({"id":"a","human":"pm","roles":{"pm":{"definition":"pm","workspace":"/w"}}})",
         "/roles/pm: a role may not be named like the human"},
        {R"({"id":"a","human":"h","roles":{"pm":7}})",
         "/roles/pm: expected an object, found an integer"},
        {R"({"id":"a","human":"h","roles":{"pm":{"workspace":"/w"}}})",
         "/roles/pm/definition: is missing; expected a string"},
        {R"({"id":"a","human":"h","roles":{"pm":{"definition":"../pm","workspace":"/w"}}})",
         "/roles/pm/definition: " + id_help + "\"../pm\""},
        {R"({"id":"a","human":"h","roles":{"pm":{"definition":"pm"}}})",
         "/roles/pm/workspace: is missing; expected a string"},
        {R"({"id":"a","human":"h","roles":{"pm":{"definition":"pm","workspace":"~/w"}}})",
         "/roles/pm/workspace: expected an absolute path or one relative to this file (~ is not "
         "expanded), found \"~/w\""},
        {R"({"id":"a","human":"h","roles":{"pm":{"definition":"pm","workspace":"/w","warm":257}}})",
         "/roles/pm/warm: expected an integer from 0 to 256, found 257"},
        {R"({"id":"a","human":"h","roles":{"a":{"definition":"a","workspace":"/a","warm":200},)"
         R"("b":{"definition":"b","workspace":"/b","warm":57}}})",
         "/roles: expected at most 256 warm seats of all roles together, found 257"},
        {R"({"id":"a","human":"h","roles":{"pm":{"definition":"pm","workspace":"/w","wram":1}}})",
         "/roles/pm/wram: unknown key"},
        {R"({"id":"a","human":"h","roles":{"pm":{"definition":"pm","workspace":"/w",)"
         R"("sharedWorkspace":1}}})",
         "/roles/pm/sharedWorkspace: expected true or false, found an integer"},
        {R"({"id":"a","human":"h","roles":{"pm":{"definition":"pm","workspace":"/w",)"
         R"("authority":{"withinrole":[]}}}})",
         "/roles/pm/authority/withinrole: unknown key"},
        {R"({"id":"a","human":"h","roles":{"pm":{"definition":"pm","workspace":"/w",)"
         R"("authority":{"gated":["role.launch","role.lunch"]}}}})",
         "/roles/pm/authority/gated/1: " + verbs + "\"role.lunch\""},
        {R"({"id":"a","human":"h","roles":{"pm":{"definition":"pm","workspace":"/w",)"
         R"("authority":{"gated":["limits.set","limits.set"]}}}})",
         "/roles/pm/authority/gated/1: \"limits.set\" stands twice"},
        {with_vars("[]"), "/roles/pm/vars: expected an object, found an array"},
        {with_vars(R"({"harnes":"pi"})"), "/roles/pm/vars/harnes: " + var_help},
        {with_vars(R"({"fallback.modle":"m"})"), "/roles/pm/vars/fallback.modle: " + var_help},
        {with_vars(R"({"limits.tols":"m"})"), "/roles/pm/vars/limits.tols: " + var_help},
        {with_vars(R"({"Script.command":"m"})"), "/roles/pm/vars/Script.command: " + var_help},
        {with_vars(R"({"script.":"m"})"), "/roles/pm/vars/script.: " + var_help},
        {with_vars(R"({"script.a b":"m"})"), "/roles/pm/vars/script.a b: " + var_help},
        {with_vars(R"({"script.command":7})"),
         "/roles/pm/vars/script.command: expected a string, found an integer"},
        {with_vars(R"({"script.command":"a\u0000b"})"),
         "/roles/pm/vars/script.command: expected at most 65536 bytes without a NUL character"},
        {with_vars(R"({"script.a-b":"1","script.a_b":"2"})"),
         "/roles/pm/vars/script.a_b: becomes the same variable as script.a-b, "
         "MOSAIC_VAR_SCRIPT_A_B"},
        {with_vars(R"({"harness":"Pi"})"),
         "/roles/pm/vars/harness: expected a module's name (an id), found \"Pi\""},
        {with_vars(R"({"harness":null})"), "/roles/pm/vars/harness: expected a string, found null"},
        {with_vars(R"({"model":"a\nb"})"),
         "/roles/pm/vars/model: expected 1 to 256 bytes without control characters, found "
         "\"a\\nb\""},
        {with_vars(R"({"fallback.harness":"pi"})"),
         "/roles/pm/vars/fallback.provider: is missing; a fallback needs all of harness, provider, "
         "model, thinking"},
        {with_vars(R"({"fallback.harness":"pi","fallback.provider":"zai","fallback.model":"m",)"
                   R"("fallback.thinking":""})"),
         "/roles/pm/vars/fallback.thinking: is missing; a fallback needs all of harness, provider, "
         "model, thinking"},
        {with_vars(R"({"limits.tools":"bash"})"),
         "/roles/pm/vars/limits.tools: expected an array of strings, found a string"},
        {with_vars(R"({"limits.tools":["bash",""]})"),
         "/roles/pm/vars/limits.tools/1: expected a tool's name, found \"\""},
        {with_vars(R"({"limits.tools":["bash","bash"]})"),
         "/roles/pm/vars/limits.tools/1: \"bash\" stands twice"},
        {with_vars(R"({"limits.typed":["launch","message.send"]})"),
         "/roles/pm/vars/limits.typed/1: expected one of launch, message_send, task_create, "
         "task_list, task_update, decision_request, found \"message.send\""},
        {with_vars(R"({"network":"bridge"})"),
         "/roles/pm/vars/network: expected host or none, found \"bridge\""},
        {with_rest(R"("arbiters":{"technical":"cto"})"),
         "/arbiters/technical: expected a role or the human, found \"cto\""},
        {with_rest(R"("arbiters":{"technical":1})"),
         "/arbiters/technical: expected a string, found an integer"},
        {with_rest(R"("arbiters":{"":"pm"})"),
         "/arbiters/: expected an id as the kind of question"},
        {with_rest(R"("launch":{"instances":[],"models":[]})"),
         "/launch/by: is missing; expected a string"},
        {with_rest(R"("launch":{"by":"cto","instances":[],"models":[]})"),
         "/launch/by: expected a role, found \"cto\""},
        {with_rest(R"("launch":{"by":"jordan","instances":[],"models":[]})"),
         "/launch/by: expected a role, found \"jordan\""},
        {with_rest(R"("launch":{"by":"pm","instances":["coder","tester"],"models":[]})"),
         "/launch/instances/1: expected a role, found \"tester\""},
        {with_rest(R"("launch":{"by":"pm","instances":["coder","coder"],"models":[]})"),
         "/launch/instances/1: \"coder\" stands twice"},
        {with_rest(R"("launch":{"by":"pm","instances":[]})"),
         "/launch/models: is missing; expected an array"},
        {with_rest(R"("launch":{"by":"pm","instances":[],"models":["m"]})"),
         "/launch/models/0: expected an object, found a string"},
        {with_rest(R"("launch":{"by":"pm","instances":[],"models":[{"provider":"",)"
                   R"("model":"m","max":1}]})"),
         "/launch/models/0/provider: expected 1 to 256 bytes without control characters, found "
         "\"\""},
        {with_rest(R"("launch":{"by":"pm","instances":[],"models":[{"provider":"p",)"
                   R"("model":"m","max":-1}]})"),
         "/launch/models/0/max: expected an integer from 0 to 2048, found -1"},
        {with_rest(
             R"("launch":{"by":"pm","instances":[],"models":[{"provider":"p","model":"m"}]})"),
         "/launch/models/0/max: is missing; expected an integer"},
        {with_rest(
             R"("launch":{"by":"pm","instances":[],"models":[{"provider":"p","model":"m","max":1},)"
             R"({"provider":"p","model":"m","max":2}]})"),
         "/launch/models/1: provider \"p\" with model \"m\" stands twice"},
        {with_rest(R"("launch":{"by":"pm","instances":[],"models":[],"accountMax":0})"),
         "/launch/accountMax: expected an integer from 1 to 2048, found 0"},
        {with_rest(R"("launch":{"by":"pm","instances":[],"models":[],"default":"m"})"),
         "/launch/default: unknown key"},
    };
    for (const auto& [text, expected] : table) {
        CAPTURE(text);
        CHECK(error_of(text) == kPath + ": " + expected);
    }
}

TEST_CASE("a document is refused whole when a key stands twice or anything follows it") {
    CHECK(error_of(R"({"id":"a","id":"b","human":"h","roles":{}})")
              .find("the key \"id\" stands twice") != std::string::npos);
    CHECK(error_of(R"({"id":"a","human":"h","roles":{},"\u0069d":"b"})")
              .find("the key \"id\" stands twice") != std::string::npos);
    CHECK(error_of(R"({"id":"a","human":"h","roles":{}}{})").starts_with(kPath + ": byte "));
    CHECK(error_of(R"({"id":"a","human":"h","roles":{},"x":tru})").starts_with(kPath + ": byte "));
}

TEST_CASE("no beginning of a document and no document with one byte changed does harm") {
    const std::string text =
        R"({"id":"a","human":"h","arbiters":{"t":"pm"},"roles":{"pm":{"definition":"pm",)"
        R"("workspace":"/w","vars":{"harness":"pi","limits.typed":["launch"],"pi.key":"v"},)"
        R"("authority":{"gated":["role.launch"]}}},"launch":{"by":"pm","instances":["pm"],)"
        R"("models":[{"provider":"p","model":"m","max":1}]}})";
    REQUIRE(parse_business(text, kPath).has_value());
    for (size_t length = 0; length < text.size(); ++length) {
        CAPTURE(length);
        CHECK_FALSE(parse_business(text.substr(0, length), kPath).has_value());
    }
    // Some changes give another good document; all that counts is that each is judged.
    size_t refused = 0;
    for (size_t at = 0; at < text.size(); ++at) {
        for (const char c : {'\0', '"', '{', ']', ',', '1', '\xff', ' '}) {
            std::string changed = text;
            changed[at] = c;
            const auto parsed = parse_business(changed, kPath);
            if (!parsed) {
                ++refused;
                CHECK(parsed.error().text.starts_with(kPath + ": "));
            }
        }
    }
    CHECK(refused > text.size());
}
