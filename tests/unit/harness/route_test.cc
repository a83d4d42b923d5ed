// Goal: a launch takes the route that can run here and now, and a refusal says exactly why, without
// a credential's value. Method: one module, one environment, programs in a scratch directory.

#include "harness/route.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "scratch.h"

using mosaic::Refusal;
using mosaic::config::Environment;
using mosaic::config::Instance;
using mosaic::config::Route;
using mosaic::harness::choose_route;
using mosaic::harness::ChosenRoute;
using mosaic::harness::find_program;
using mosaic::harness::Module;
using mosaic::harness::ModuleSet;
using mosaic::harness::Program;
using mosaic::harness::Provider;
using mosaic::harness::RouteChoice;
using mosaic::harness::RouteRefusal;

namespace {

const std::string kHint =
    "; the service loads them at its start from ~/.config/mosaic/secrets/session.env (lines "
    "NAME=value; a line that begins with export is ignored)";

struct World {
    Scratch scratch;
    ModuleSet modules;
    Environment env;
    Instance instance;

    World() {
        Module agent;
        agent.name = "agent";
        agent.thinking = {{"high", "deep"}, {"off", ""}};
        agent.providers = {{"acme", Provider{{{"TOKEN"}, {"KEY"}, {"AUTH", "URL"}}, {"EXTRA"}}}};
        agent.program = Program{"agent", "AGENT_BIN", {"agent"}, {}};
        agent.account = true;
        Module plain;
        plain.name = "plain";
        plain.thinking = {{"off", "off"}};
        plain.any_provider = Provider{};
        plain.required_vars = {"plain.command"};
        modules.modules = {{"agent", agent}, {"plain", plain}};
        modules.problems = {{"broken", "/m/broken/harness.json: /name: is missing"}};
        instance.name = "coder";
        instance.route = Route{"agent", "acme", "m1", "high"};
        instance.vars = {{"plain.command", "cat"}};
        env = {{"PATH", scratch.path + "/bin"}, {"TOKEN", "sesame"}};
        scratch.write("bin/agent", "#!/bin/sh\n", 0755);
    }

    [[nodiscard]] RouteChoice choose() const { return choose_route(instance, modules, env); }

    [[nodiscard]] ChosenRoute chosen() const {
        const RouteChoice choice = choose();
        const auto* refused = std::get_if<RouteRefusal>(&choice);
        REQUIRE_MESSAGE(refused == nullptr, (refused == nullptr ? "" : refused->reason));
        return std::get<ChosenRoute>(choice);
    }

    [[nodiscard]] RouteRefusal refused() const {
        const RouteChoice choice = choose();
        REQUIRE(std::holds_alternative<RouteRefusal>(choice));
        return std::get<RouteRefusal>(choice);
    }
};

}  // namespace

TEST_CASE("the primary route is taken when its credential and program are there") {
    World w;
    w.env["EXTRA"] = "yes";
    w.env["KEY"] = "unused";
    const ChosenRoute route = w.chosen();
    CHECK(route.route == *w.instance.route);
    CHECK(route.module == &w.modules.modules.at("agent"));
    CHECK(route.reason == "primary");
    CHECK(route.credential == std::vector<std::string>{"TOKEN"});
    CHECK(route.variables == std::vector<std::string>{"TOKEN", "EXTRA"});
    CHECK(route.account == "TOKEN");
    REQUIRE(route.program.has_value());
    CHECK(route.program->found == w.scratch.path + "/bin/agent");
    CHECK(route.program->real == w.scratch.path + "/bin/agent");
}

TEST_CASE("a set of several variables counts only whole, and names its account") {
    World w;
    w.env.erase("TOKEN");
    w.env["AUTH"] = "a";
    CHECK(w.refused().code == Refusal::no_session_credential);
    w.env["URL"] = "http://127.0.0.1:1";
    CHECK(w.chosen().credential == std::vector<std::string>{"AUTH", "URL"});
    CHECK(w.chosen().account == "AUTH+URL");
}

TEST_CASE("the checks of a route answer in their order") {
    World w;
    w.instance.route = Route{"ghost", "nobody", "m", "extreme"};
    w.env.clear();
    CHECK(w.refused() ==
          RouteRefusal{Refusal::harness_off,
                       "harness module ghost is not switched on in plugins.harness"});
    w.instance.route->harness = "broken";
    CHECK(w.refused() ==
          RouteRefusal{Refusal::harness_refused, "/m/broken/harness.json: /name: is missing"});
    w.instance.route->harness = "agent";
    CHECK(w.refused() == RouteRefusal{Refusal::harness_refused,
                                      "harness module agent has no provider nobody; it has acme"});
    w.instance.route->provider = "acme";
    CHECK(w.refused() ==
          RouteRefusal{Refusal::thinking_unsupported,
                       "harness module agent has no thinking level extreme; it has high, off"});
    w.instance.route->thinking = "off";
    CHECK(w.refused() == RouteRefusal{Refusal::no_session_credential,
                                      "no session credential for provider acme: set one of TOKEN, "
                                      "KEY, AUTH with URL" +
                                          kHint});
    w.env["KEY"] = "k";
    CHECK(w.refused() == RouteRefusal{Refusal::harness_missing,
                                      "AGENT_BIN is not set and agent is in no directory of PATH"});
    w.instance.route.reset();
    CHECK(w.refused() ==
          RouteRefusal{Refusal::no_route,
                       "coder has no complete route: set harness, provider, model and thinking"});
}

TEST_CASE("a module's required var is asked for by name") {
    World w;
    w.instance.route = Route{"plain", "any", "m", "off"};
    CHECK(w.chosen().variables.empty());
    CHECK(w.chosen().account.empty());
    w.instance.vars["plain.command"] = "";
    CHECK(w.refused() == RouteRefusal{Refusal::harness_refused,
                                      "harness module plain needs the var plain.command of coder"});
}

TEST_CASE("empty, blank and unfit credentials count as not set, and no value is ever told") {
    World w;
    const auto reason = [&](const std::string& value) {
        w.env["TOKEN"] = value;
        const RouteRefusal refusal = w.refused();
        CHECK(refusal.code == Refusal::no_session_credential);
        CHECK(refusal.reason.find("sesame") == std::string::npos);
        return refusal.reason;
    };
    const std::string head =
        "no session credential for provider acme: set one of TOKEN, KEY, AUTH with URL";
    CHECK(reason("") == head + "; TOKEN is empty" + kHint);
    CHECK(reason(" \t ") == head + "; TOKEN is empty" + kHint);
    CHECK(reason("sesame\r") == head + "; TOKEN holds a control character" + kHint);
    CHECK(reason("sesame\nopen") == head + "; TOKEN holds a control character" + kHint);
    w.env["TOKEN"] = "sesame";
    w.env["EXTRA"] = "sesame\n";
    CHECK(w.refused().reason == "EXTRA holds a control character" + kHint);
}

TEST_CASE("the fallback is taken for a missing credential or program, and for nothing else") {
    World w;
    w.instance.fallback = Route{"plain", "any", "m2", "off"};
    w.env.erase("TOKEN");
    CHECK(w.chosen().route == *w.instance.fallback);
    CHECK(
        w.chosen().reason ==
        "fallback: no session credential for provider acme: set one of TOKEN, KEY, AUTH with URL" +
            kHint);
    w.env["TOKEN"] = "sesame";
    CHECK(w.chosen().reason == "primary");
    w.env["PATH"] = "/nonexistent";
    CHECK(w.chosen().reason ==
          "fallback: AGENT_BIN is not set and agent is in no directory of PATH");
    // Its own refusal tells both.
    w.instance.vars.clear();
    CHECK(
        w.refused() ==
        RouteRefusal{Refusal::harness_refused,
                     "fallback: harness module plain needs the var plain.command of coder; "
                     "primary: harness-missing (AGENT_BIN is not set and agent is in no directory "
                     "of PATH)"});
    // Another check of the primary doesn't look at the fallback.
    w.instance.vars = {{"plain.command", "cat"}};
    w.instance.route->thinking = "extreme";
    CHECK(w.refused().code == Refusal::thinking_unsupported);
    w.instance.route.reset();
    CHECK(w.refused().code == Refusal::no_route);
}

TEST_CASE("a pinned program is the one that is used, and what is wrong with it is named") {
    const Scratch scratch;
    const Program program{"agent", "AGENT_BIN", {"agent"}, {}};
    const std::string good = scratch.write("versions/2.1/agent", "#!/bin/sh\n", 0755);
    const std::string link = scratch.path + "/agent";
    const Environment env = {{"AGENT_BIN", link}, {"PATH", scratch.path + "/versions/2.1"}};
    const auto error = [&] { return find_program(program, env).error().text; };

    CHECK(error() == link + " (AGENT_BIN): No such file or directory");
    REQUIRE(::symlink(good.c_str(), link.c_str()) == 0);
    CHECK(find_program(program, env).value() == mosaic::harness::FoundProgram{link, good});

    REQUIRE(::chmod(good.c_str(), 0600) == 0);
    CHECK(error() == link + " (AGENT_BIN): Permission denied");
    REQUIRE(::unlink(link.c_str()) == 0);
    REQUIRE(::symlink(link.c_str(), link.c_str()) == 0);
    CHECK(error() == link + " (AGENT_BIN): Too many levels of symbolic links");
    REQUIRE(::unlink(link.c_str()) == 0);
    REQUIRE(::symlink(scratch.path.c_str(), link.c_str()) == 0);
    CHECK(error() == link + " (AGENT_BIN): not a regular file");
    CHECK(find_program(program, {{"AGENT_BIN", "agent"}}).error().text ==
          "agent (AGENT_BIN): expected an absolute path");
}

TEST_CASE(
    "PATH is searched as a shell does it, and the first bad entry is told when none is good") {
    const Scratch scratch;
    const Program program{"agent", "", {"agent", "agent-cli"}, {}};
    REQUIRE(::mkdir((scratch.path + "/a").c_str(), 0700) == 0);
    const std::string bad = scratch.path + "/a/agent";
    REQUIRE(::symlink(bad.c_str(), bad.c_str()) == 0);
    const Environment only_bad = {{"PATH", "relative:" + scratch.path + "/a"}};
    CHECK(find_program(program, only_bad).error().text ==
          bad + ": Too many levels of symbolic links");
    const std::string good = scratch.write("b/agent-cli", "#!/bin/sh\n", 0755);
    const Environment both = {{"PATH", ":" + scratch.path + "/a:" + scratch.path + "/b:"}};
    CHECK(find_program(program, both).value() == mosaic::harness::FoundProgram{good, good});
    CHECK(find_program(program, {}).error().text ==
          "agent or agent-cli is in no directory of PATH");
}

TEST_CASE("a native program is not a version manager's script or link") {
    World w;
    const std::string bin = w.scratch.path + "/bin";
    w.scratch.write("bin/node", "#!/bin/sh\nexec asdf exec node\n", 0755);
    w.scratch.write("other/volta-shim", "\177ELF", 0755);
    std::filesystem::create_symlink("volta-shim", w.scratch.path + "/other/node");
    Program node{"node", "NODE_BIN", {"node", "nodejs"}, {}, true};
    const auto script = find_program(node, w.env);
    REQUIRE(!script.has_value());
    CHECK(script.error().text == bin +
                                     "/node: is a script, as version managers have them; set "
                                     "NODE_BIN to the program itself");
    w.env["PATH"] = w.scratch.path + "/other:" + bin;
    const auto link = find_program(node, w.env);
    REQUIRE(!link.has_value());
    CHECK(link.error().text == w.scratch.path + "/other/node: leads to " + w.scratch.path +
                                   "/other/volta-shim, which chooses among versions; set NODE_BIN "
                                   "to the program itself");
    // What can't be used is passed over.
    w.scratch.write("real/nodejs", "\177ELF", 0755);
    std::filesystem::create_symlink("nodejs", w.scratch.path + "/real/node");
    w.env["PATH"] += ":" + w.scratch.path + "/real";
    const auto real = find_program(node, w.env);
    REQUIRE(real.has_value());
    CHECK(real->real == w.scratch.path + "/real/nodejs");
    // Who names a file means it, whatever it is called.
    w.env["NODE_BIN"] = w.scratch.path + "/other/node";
    CHECK(find_program(node, w.env).has_value());
    node.native = false;
    w.env.erase("NODE_BIN");
    CHECK(find_program(node, w.env)->found == w.scratch.path + "/other/node");
}

TEST_CASE("a program is asked for its version by its real path and by what runs it") {
    World w;
    Module& module = w.modules.modules.at("agent");
    w.scratch.write("real/agent.js", "#!/usr/bin/env node\n", 0755);
    w.scratch.write("bin/node", "#!/bin/sh\n", 0755);
    std::filesystem::remove(w.scratch.path + "/bin/agent");
    std::filesystem::create_symlink(w.scratch.path + "/real/agent.js",
                                    w.scratch.path + "/bin/agent");
    CHECK(version_command(w.chosen()).empty());
    module.program->version_args = {"--version", "now"};
    const std::string real = w.scratch.path + "/real/agent.js";
    CHECK(version_command(w.chosen()) == std::vector<std::string>{real, "--version", "now"});
    module.helpers = {Program{"node", "", {"node"}, {}}};
    module.program->interpreter = "node";
    CHECK(version_command(w.chosen()) ==
          std::vector<std::string>{w.scratch.path + "/bin/node", real, "--version", "now"});
    CHECK(version_command(ChosenRoute{}).empty());
}
