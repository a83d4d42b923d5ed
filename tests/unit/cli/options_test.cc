#include "cli/options.h"

#include <doctest/doctest.h>

#include "wire/messages.h"

namespace cli = mosaic::cli;
using cli::Options;
using cli::Verb;

namespace {

Options good(const std::vector<std::string>& arguments) {
    cli::Parsed parsed = cli::parse_arguments(arguments);
    REQUIRE_MESSAGE(parsed.options.has_value(), parsed.text);
    return *parsed.options;
}

std::string text_of(const std::vector<std::string>& arguments) {
    return cli::parse_arguments(arguments).text;
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

int exit_code_of(const std::vector<std::string>& arguments) {
    const cli::Parsed parsed = cli::parse_arguments(arguments);
    REQUIRE_FALSE(parsed.options.has_value());
    CHECK_FALSE(parsed.text.empty());
    return parsed.exit_code;
}

}  // namespace

TEST_CASE("launch takes an instance, a thread and the common options") {
    const Options o = good({"launch",
                            "coder",
                            "--thread",
                            "t1",
                            "--json",
                            "--config",
                            "/c",
                            "--data",
                            "/d",
                            "--business",
                            "acme"});
    CHECK(o.verb == Verb::launch);
    CHECK(o.target == "coder");
    CHECK(o.thread == "t1");
    CHECK(o.json);
    CHECK(o.config == "/c");
    CHECK(o.data == "/d");
    CHECK(o.business == "acme");
}

TEST_CASE("every command is known by its name") {
    CHECK(good({"ps"}).verb == Verb::ps);
    CHECK(good({"stop", "r0123456789ab"}).verb == Verb::stop);
    CHECK(good({"send", "pm", "hello"}).verb == Verb::send);
    CHECK(good({"inbox"}).verb == Verb::inbox);
    CHECK(good({"log"}).verb == Verb::log);
    CHECK(good({"events"}).verb == Verb::events);
    CHECK(good({"launches", "allow"}).verb == Verb::launches_allow);
    CHECK(good({"launches", "revoke"}).verb == Verb::launches_revoke);
    CHECK(good({"decide", "d1", "allow"}).verb == Verb::decide);
    CHECK(good({"tasks"}).verb == Verb::tasks);
    CHECK(good({"sandbox", "show", "pm"}).verb == Verb::sandbox_show);
    CHECK(good({"doctor"}).verb == Verb::doctor);
    CHECK(good({"config"}).verb == Verb::config);
    CHECK(good({"init"}).verb == Verb::init);
    CHECK(good({"version"}).verb == Verb::version);
}

TEST_CASE("routes are shown or set in parts") {
    CHECK(good({"metrics"}).verb == Verb::metrics);
    CHECK(good({"top"}).verb == Verb::top);
    CHECK(good({"top", "--once"}).once);
    CHECK(good({"events", "--last", "5"}).last == 5);
    CHECK(exit_code_of({"events", "--last", "0"}) == 4);
    CHECK(exit_code_of({"metrics", "coder"}) == 4);
    CHECK(good({"routes"}).verb == Verb::routes);
    CHECK(good({"routes", "--json"}).json);
    const Options o = good({"routes",
                            "set",
                            "coder",
                            "--model",
                            "m",
                            "--fallback-harness",
                            "pi",
                            "--fallback-thinking",
                            "low",
                            "--json"});
    CHECK(o.verb == Verb::routes_set);
    CHECK(o.target == "coder");
    CHECK(o.model == "m");
    CHECK(o.harness.empty());
    CHECK(o.fallback_harness == "pi");
    CHECK(o.fallback_thinking == "low");
    CHECK(o.json);
    CHECK(good({"routes", "set", "coder", "--no-fallback"}).no_fallback);
    CHECK(exit_code_of({"routes", "set", "coder"}) == 4);
    CHECK(exit_code_of({"routes", "set", "--model", "m"}) == 4);
    CHECK(exit_code_of({"routes", "set", "Coder", "--model", "m"}) == 2);
    CHECK(exit_code_of({"routes", "set", "c", "--no-fallback", "--fallback-model", "m"}) == 4);
}

TEST_CASE("limits are of an instance or of a model") {
    const Options o = good({"limits",
                            "set",
                            "coder",
                            "--tools",
                            "bash,read",
                            "--typed",
                            "",
                            "--max",
                            "p",
                            "m",
                            "3",
                            "--max",
                            "p",
                            "other",
                            "0",
                            "--account-max",
                            "2"});
    CHECK(o.verb == Verb::limits_set);
    CHECK(*o.tools == std::vector<std::string>{"bash", "read"});
    CHECK(o.typed->empty());
    CHECK(o.capacities == std::vector<cli::ModelCapacity>{{"p", "m", 3}, {"p", "other", 0}});
    CHECK(*o.account_max == 2);
    CHECK_FALSE(good({"limits", "set", "coder", "--model", "m"}).tools.has_value());
    CHECK(good({"limits", "set", "--account-max", "0"}).target.empty());
    CHECK(*good({"limits", "set", "coder", "--tools", " bash, read ,"}).tools ==
          std::vector<std::string>{"bash", "read"});
    CHECK(exit_code_of({"limits", "set", "--account-max", "-3"}) == 4);
    CHECK(exit_code_of({"limits", "set"}) == 4);
    CHECK(exit_code_of({"limits", "set", "coder"}) == 4);
    CHECK(exit_code_of({"limits", "set", "--tools", "bash"}) == 4);
    CHECK(exit_code_of({"limits", "set", "--max", "p", "m", "many"}) == 4);
    CHECK(exit_code_of({"limits", "set", "--max", "p", "m"}) == 4);
}

TEST_CASE("instances and modules are set as whole lists") {
    CHECK(good({"instances", "set", "coder", "reviewer"}).names ==
          std::vector<std::string>{"coder", "reviewer"});
    CHECK(good({"plugins"}).verb == Verb::plugins);
    CHECK(good({"plugins", "set", "script"}).verb == Verb::plugins_set);
    CHECK(good({"plugins", "set", "--none"}).names.empty());
    CHECK(good({"reload"}).verb == Verb::reload);
    CHECK(exit_code_of({"plugins", "set"}) == 4);
    CHECK(exit_code_of({"instances", "set"}) == 4);
    CHECK(good({"instances", "set", "--none"}).names.empty());
    CHECK(exit_code_of({"instances", "set", "--none", "coder"}) == 4);
    CHECK(exit_code_of({"instances", "set", "../x"}) == 2);
}

TEST_CASE("init takes a whole route or none") {
    const auto options = good({"init",
                               "--harness",
                               "claude-code",
                               "--provider",
                               "anthropic",
                               "--model",
                               "claude-opus-5-5",
                               "--thinking",
                               "high"});
    CHECK(options.harness == "claude-code");
    CHECK(options.provider == "anthropic");
    CHECK(options.model == "claude-opus-5-5");
    CHECK(options.thinking == "high");
    CHECK(exit_code_of({"init", "--harness", "claude-code"}) == 4);
    CHECK(exit_code_of({"init", "--model", "m", "--thinking", "high"}) == 4);
    CHECK(
        exit_code_of(
            {"init", "--harness", "../x", "--provider", "p", "--model", "m", "--thinking", "t"}) ==
        2);
}

TEST_CASE("seconds may have a fraction and stay unset when they aren't given") {
    CHECK_FALSE(good({"send", "pm", "x"}).wait.has_value());
    CHECK(good({"send", "pm", "x", "--wait", "0.25"}).wait == mosaic::milliseconds(250));
    CHECK(good({"stop", "pm", "--timeout", "3"}).deadline == mosaic::seconds(3));
    CHECK(good({"stop", "pm", "--timeout", "0"}).deadline == mosaic::seconds(0));
    CHECK(exit_code_of({"stop", "pm", "--timeout", "-1"}) == 4);
    CHECK(exit_code_of({"send", "pm", "x", "--wait", "soon"}) == 4);
    CHECK(exit_code_of({"send", "pm", "x", "--wait", "nan"}) == 4);
    CHECK(exit_code_of({"send", "pm", "x", "--wait", "1e300"}) == 4);
}

TEST_CASE("a timeout that the command takes is one that the host takes") {
    const auto fits = [](const mosaic::Duration& timeout) {
        mosaic::wire::StopArgs args;
        args.target = "pm";
        args.timeout_ms = timeout.ns / 1'000'000;
        return mosaic::wire::StopArgs::from(args.to_value()).has_value();
    };
    const auto longest = good({"stop", "pm", "--timeout", "86400"}).deadline;
    REQUIRE(longest.has_value());
    CHECK(fits(*longest));
    CHECK_FALSE(fits(mosaic::milliseconds(86'400'001)));
    CHECK(exit_code_of({"stop", "pm", "--timeout", "86400.001"}) == 4);
    CHECK(exit_code_of({"stop", "pm", "--timeout", "100000"}) == 4);
    CHECK(good({"send", "pm", "x", "--wait", "31622400"}).wait.has_value());
    CHECK(exit_code_of({"send", "pm", "x", "--wait", "31622401"}) == 4);
}

TEST_CASE("a body may look like an option after --, and - stands for standard input") {
    CHECK(good({"send", "pm", "-"}).body == "-");
    CHECK(good({"send", "pm", "--", "--json"}).body == "--json");
    CHECK(good({"send", "pm", ""}).body.empty());
}

TEST_CASE("log and events follow and filter") {
    const Options log = good({"log", "-f", "--run", "r0123456789ab"});
    CHECK(log.follow);
    CHECK(log.run == "r0123456789ab");
    CHECK(good({"events", "--since", "7"}).since == 7);
    CHECK(exit_code_of({"events", "--since", "-7"}) == 4);
}

TEST_CASE("a decision is answered with allow or deny and nothing else") {
    CHECK(good({"decide", "d1", "allow"}).allow);
    CHECK_FALSE(good({"decide", "d1", "deny"}).allow);
    CHECK(exit_code_of({"decide", "d1", "maybe"}) == 4);
    CHECK(good({"decide", "d1", "deny", "--note", "not today"}).note == "not today");
    CHECK(good({"decisions"}).target.empty());
    CHECK(good({"decisions", "d1"}).target == "d1");
}

TEST_CASE("tasks are filtered by role and state") {
    const Options o = good({"tasks", "--role", "coder", "--state", "done"});
    CHECK(o.role == "coder");
    CHECK(o.state == "done");
    CHECK(exit_code_of({"tasks", "--state", "late"}) == 4);
    CHECK(exit_code_of({"tasks", "--role", "A B"}) == 2);
}

TEST_CASE("what isn't a command line is a usage error") {
    CHECK(exit_code_of({}) == 4);
    CHECK(exit_code_of({"dance"}) == 4);
    CHECK(exit_code_of({"launch"}) == 4);
    CHECK(exit_code_of({"launch", "a", "b"}) == 4);
    CHECK(exit_code_of({"ps", "--nothing"}) == 4);
    CHECK(exit_code_of({"launches"}) == 4);
    CHECK(exit_code_of({"send", "pm"}) == 4);
}

TEST_CASE("a word that is no command is named") {
    const cli::Parsed parsed = cli::parse_arguments({"lunch", "coder"});
    REQUIRE_FALSE(parsed.options.has_value());
    CHECK(parsed.text.find("\"lunch\"") != std::string::npos);
}

TEST_CASE("a service pins programs by options that no one else knows") {
    const Options o =
        good({"service", "install", "--print", "--claude", "/opt/c", "--config", "/s", "--pm"});
    CHECK(o.verb == Verb::service_install);
    CHECK(o.print_only);
    CHECK(o.pm);
    CHECK(o.config == "/s");
    CHECK(o.names == std::vector<std::string>{"--claude", "/opt/c"});
}

TEST_CASE("the version is asked for as a command or as an option") {
    CHECK(good({"version"}).verb == Verb::version);
    CHECK(good({"--version"}).verb == Verb::version);
}

TEST_CASE("a name that can't be one is invalid input") {
    CHECK(exit_code_of({"launch", "../etc"}) == 2);
    CHECK(exit_code_of({"launch", "Coder"}) == 2);
    CHECK(exit_code_of({"launch", "coder", "--thread", "a/b"}) == 2);
    CHECK(exit_code_of({"stop", ""}) == 2);
    CHECK(exit_code_of({"log", "--run", "r1"}) == 2);
}

TEST_CASE("help is no error") {
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
             {"--help"}, {"launch", "--help"}, {"sandbox", "show", "--help"}, {"launches", "-h"}}) {
        CHECK(exit_code_of(arguments) == 0);
    }
    CHECK(cli::parse_arguments({"send", "--help"}).text.find("--wait") != std::string::npos);
    CHECK(cli::parse_arguments({"--help"}).text.find("doctor") != std::string::npos);
}

TEST_CASE("help names the whole command") {
    CHECK(has(text_of({"--help"}), "Usage: mosaic [OPTIONS]"));
    CHECK(has(text_of({"ps", "--help"}), "Usage: mosaic ps [OPTIONS]"));
    CHECK(has(text_of({"routes", "set", "-h"}), "Usage: mosaic routes set [OPTIONS] INSTANCE"));
}

TEST_CASE("a wrong word in a group of commands names those it has") {
    CHECK(exit_code_of({"launches", "deny"}) == 4);
    CHECK(has(text_of({"launches", "deny"}), "launches: expected allow or revoke, found \"deny\""));
    CHECK(has(text_of({"launches"}), "launches: expected allow or revoke"));
    CHECK(has(text_of({"routes", "get"}), "routes: expected set, found \"get\""));
    CHECK(has(text_of({"lunch"}), "there is no command \"lunch\""));
}

TEST_CASE("a wrong number is named with what was expected") {
    CHECK(has(text_of({"events", "--since", "-1"}),
              "--since: expected a number from 0 on, found \"-1\""));
    CHECK(has(text_of({"events", "--since", "x"}), "found \"x\""));
    CHECK(exit_code_of({"events", "--since", "1.5"}) == 4);
    CHECK(good({"events", "--since", "12"}).since == 12);
    CHECK(has(text_of({"send", "pm", "x", "--wait", "soon"}), "expected seconds"));
    CHECK(good({"send", "pm", "x", "--wait", "0.5"}).wait->ns == 500'000'000);
    CHECK(exit_code_of({"stop", "pm", "--timeout", "99999999"}) == 4);
}
