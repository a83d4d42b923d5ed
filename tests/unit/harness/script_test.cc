// Goal: the shipped script module is an ordinary module, and its adapter runs the role's command.
// Method: the module from the source tree, its adapter under sh as a turn runs it.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "config/config.h"
#include "harness/bundle.h"
#include "harness/module.h"
#include "harness/route.h"
#include "process/files.h"
#include "process/pidfd.h"
#include "process/spawn.h"
#include "scratch.h"

namespace {

constexpr const char* kModules = MOSAIC_SOURCE_DIR "/plugins/harness";

mosaic::harness::ModuleSet script_only() {
    mosaic::config::SystemConfig system;
    system.plugins_harness = {"script"};
    auto set = mosaic::harness::load_modules(system, kModules);
    REQUIRE_MESSAGE(set.problems.empty(), (set.problems.empty() ? "" : set.problems["script"]));
    return set;
}

struct Turn {
    std::string out;
    int exit_code = -1;
};

// Runs the adapter once; input and output are files, so that nothing can block.
Turn run_adapter(const Scratch& scratch, const std::string& command, const std::string& body) {
    const std::string workspace = scratch.path + "/work";
    std::filesystem::create_directories(workspace);
    const std::string in = scratch.write("in", body);
    const std::string out = scratch.write("out", "");
    const mosaic::UniqueFd in_fd(::open(in.c_str(), O_RDONLY | O_CLOEXEC));
    const mosaic::UniqueFd out_fd(::open(out.c_str(), O_WRONLY | O_CLOEXEC));
    mosaic::process::SpawnSpec spec;
    spec.path = "/bin/sh";
    spec.argv = {"sh", std::string(kModules) + "/script/adapter.sh"};
    spec.env = {"PATH=/usr/bin:/bin",
                "MOSAIC_WORKSPACE=" + workspace,
                "MOSAIC_MODEL=m1",
                "MOSAIC_VAR_SCRIPT_COMMAND=" + command};
    spec.descriptors = {{in_fd.get(), 0}, {out_fd.get(), 1}};
    auto child = mosaic::process::spawn(spec);
    REQUIRE(child.has_value());
    REQUIRE(child->wait_exec().has_value());
    int status = 0;
    REQUIRE(::waitpid(child->pid(), &status, 0) == child->pid());
    REQUIRE(WIFEXITED(status));
    return Turn{mosaic::process::read_file(out, 1 << 20).value(), WEXITSTATUS(status)};
}

}  // namespace

TEST_CASE("the script module takes any provider and model, and needs its command") {
    const auto modules = script_only();
    mosaic::config::Instance instance;
    instance.name = "coder";
    instance.route = mosaic::config::Route{"script", "whoever", "whatever", "medium"};
    const auto without = mosaic::harness::choose_route(instance, modules, {});
    REQUIRE(std::holds_alternative<mosaic::harness::RouteRefusal>(without));
    CHECK(std::get<mosaic::harness::RouteRefusal>(without).code ==
          mosaic::Refusal::harness_refused);
    instance.vars["script.command"] = "cat";
    for (const char* level : {"off", "low", "medium", "high"}) {
        instance.route->thinking = level;
        const auto choice = mosaic::harness::choose_route(instance, modules, {});
        REQUIRE(std::holds_alternative<mosaic::harness::ChosenRoute>(choice));
        CHECK(std::get<mosaic::harness::ChosenRoute>(choice).variables.empty());
    }
    instance.route->thinking = "extreme";
    const auto extreme = mosaic::harness::choose_route(instance, modules, {});
    REQUIRE(std::holds_alternative<mosaic::harness::RouteRefusal>(extreme));
    CHECK(std::get<mosaic::harness::RouteRefusal>(extreme).code ==
          mosaic::Refusal::thinking_unsupported);
}

TEST_CASE("its staged tree is the adapter") {
    const auto modules = script_only();
    const auto plan = mosaic::harness::stage_plan(modules.modules.at("script"));
    REQUIRE(plan.size() == 1);
    CHECK(plan[0].path == "module/adapter.sh");
}

TEST_CASE(
    "the command gets the body, the turn's variables and the workspace, and its output is the "
    "reply") {
    const Scratch scratch;
    CHECK(run_adapter(scratch, "cat", "hello\n").out == "hello\n");
    CHECK(run_adapter(scratch, "pwd", "").out == scratch.path + "/work\n");
    CHECK(run_adapter(scratch, "printf %s \"$MOSAIC_MODEL\"", "").out == "m1");
    CHECK(run_adapter(scratch, "tr a-z A-Z | sed 's/^/> /'", "two words").out == "> TWO WORDS");
    CHECK(run_adapter(scratch, "printf '%s' 'it'\"'\"'s; $HOME'\nprintf two", "").out ==
          "it's; $HOMEtwo");
}

TEST_CASE("a failing command is a failed turn") {
    const Scratch scratch;
    const Turn turn = run_adapter(scratch, "echo partly; exit 7", "");
    CHECK(turn.exit_code == 7);
    CHECK(turn.out == "partly\n");
    CHECK(run_adapter(scratch, "", "").exit_code == 0);
    CHECK(run_adapter(scratch, "true", "").exit_code == 0);
}
