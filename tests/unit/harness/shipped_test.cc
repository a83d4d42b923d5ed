// Goal: the shipped modules of real agent programs load, and a launch takes the primary route or
// the fallback by preflight alone. Method: the modules from the source tree; programs and
// credentials of a scratch host; every state of the primary with every state of the fallback.

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/route.h"
#include "scratch.h"

using namespace mosaic;
using namespace mosaic::harness;

namespace {

// What a route meets. The last says how it is refused, or nothing when it is fine.
enum class State {
    none,  // of a fallback: there is none
    fine,
    off,
    refused,
    thinking,
    credential,
    program,
};

constexpr std::array kStates = {
    State::fine, State::off, State::refused, State::thinking, State::credential, State::program};

Refusal refusal_of(State state) {
    switch (state) {
        case State::off:
            return Refusal::harness_off;
        case State::refused:
            return Refusal::harness_refused;
        case State::thinking:
            return Refusal::thinking_unsupported;
        case State::credential:
            return Refusal::no_session_credential;
        case State::program:
        case State::none:
        case State::fine:
            break;
    }
    return Refusal::harness_missing;
}

bool is_preflight(State state) {
    return state == State::credential || state == State::program;
}

// A host whose primary is Claude Code and whose fallback is Pi, each in one state.
struct Host {
    Scratch scratch;
    ModuleSet modules;
    config::Environment env;
    config::Instance instance;

    Host(State primary, State fallback) {
        config::SystemConfig system;
        if (primary != State::off) {
            system.plugins_harness.emplace_back("claude-code");
        }
        if (fallback != State::off) {
            system.plugins_harness.emplace_back("pi");
        }
        modules = load_modules(system, MOSAIC_SOURCE_DIR "/plugins/harness");
        REQUIRE_MESSAGE(modules.problems.empty(), modules.problems.begin()->second);
        env = {{"PATH", scratch.path + "/bin"}};
        scratch.write("bin/node", "\177ELF", 0755);
        instance.name = "coder";
        instance.route = config::Route{"claude-code",
                                       primary == State::refused ? "nobody" : "anthropic",
                                       "claude-opus-5-5",
                                       primary == State::thinking ? "boundless" : "high"};
        if (primary != State::credential) {
            env["CLAUDE_CODE_OAUTH_TOKEN"] = "stand-in";
        }
        if (primary != State::program) {
            scratch.write("bin/claude", "\177ELF", 0755);
        }
        if (fallback == State::none) {
            return;
        }
        instance.fallback = config::Route{"pi",
                                          fallback == State::refused ? "nobody" : "zai",
                                          "glm-5",
                                          fallback == State::thinking ? "boundless" : "medium"};
        if (fallback != State::credential) {
            env["ZAI_API_KEY"] = "stand-in";
        }
        if (fallback != State::program) {
            scratch.write("bin/pi", "#!/usr/bin/env node\n", 0755);
        }
    }
};

}  // namespace

TEST_CASE("every state of the primary with every state of the fallback") {
    for (const State primary : kStates) {
        for (const State fallback : {State::none,
                                     State::fine,
                                     State::off,
                                     State::refused,
                                     State::thinking,
                                     State::credential,
                                     State::program}) {
            CAPTURE(static_cast<int>(primary));
            CAPTURE(static_cast<int>(fallback));
            const Host host(primary, fallback);
            const RouteChoice choice = choose_route(host.instance, host.modules, host.env);
            const auto* chosen = std::get_if<ChosenRoute>(&choice);
            const auto* refused = std::get_if<RouteRefusal>(&choice);
            if (primary == State::fine) {
                REQUIRE(chosen != nullptr);
                CHECK(chosen->reason == "primary");
                CHECK(chosen->route.harness == "claude-code");
                CHECK(chosen->account == "CLAUDE_CODE_OAUTH_TOKEN");
            } else if (is_preflight(primary) && fallback == State::fine) {
                REQUIRE(chosen != nullptr);
                CHECK(chosen->reason.starts_with("fallback: "));
                CHECK(chosen->route.harness == "pi");
                CHECK(chosen->variables == std::vector<std::string>{"ZAI_API_KEY"});
                CHECK(chosen->helpers.at("node").found == host.scratch.path + "/bin/node");
            } else {
                REQUIRE(refused != nullptr);
                const bool both = is_preflight(primary) && fallback != State::none;
                CHECK(refused->code == refusal_of(both ? fallback : primary));
                const bool names_both =
                    refused->reason.starts_with("fallback: ") &&
                    refused->reason.find("; primary: " +
                                         std::string(to_string(refusal_of(primary)))) !=
                        std::string::npos;
                CHECK(names_both == both);
                CHECK(refused->reason.find("stand-in") == std::string::npos);
            }
        }
    }
}

TEST_CASE("a missing login names every variable that would do") {
    const Host host(State::credential, State::none);
    const auto choice = choose_route(host.instance, host.modules, host.env);
    CHECK(std::get<RouteRefusal>(choice).reason.find(
              "CLAUDE_CODE_OAUTH_TOKEN, ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN with "
              "ANTHROPIC_BASE_URL") != std::string::npos);
}

TEST_CASE("a claude link that loops, is gone or leads to an unfinished file is refused by name") {
    Host host(State::program, State::none);
    const std::string link = host.scratch.path + "/claude";
    host.env["MOSAIC_CLAUDE_BIN"] = link;
    const auto reason = [&] {
        const auto choice = choose_route(host.instance, host.modules, host.env);
        const auto* refused = std::get_if<RouteRefusal>(&choice);
        REQUIRE(refused != nullptr);
        CHECK(refused->code == Refusal::harness_missing);
        CHECK(refused->reason.starts_with(link + " (MOSAIC_CLAUDE_BIN): "));
        return refused->reason;
    };
    CHECK(reason().find("No such file") != std::string::npos);
    std::filesystem::create_symlink("claude", link);
    CHECK(reason().find("Too many levels of symbolic links") != std::string::npos);
    std::filesystem::remove(link);
    host.scratch.write("versions/2.1", "", 0644);
    std::filesystem::create_symlink("versions/2.1", link);
    CHECK(reason().find("Permission denied") != std::string::npos);
    std::filesystem::permissions(host.scratch.path + "/versions/2.1",
                                 std::filesystem::perms::owner_all);
    const auto choice = choose_route(host.instance, host.modules, host.env);
    REQUIRE(std::holds_alternative<ChosenRoute>(choice));
    CHECK(std::get<ChosenRoute>(choice).program->real == host.scratch.path + "/versions/2.1");
}
