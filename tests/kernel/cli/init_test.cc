// Goal: what init writes is a business that loads and launches, and nothing that was there is
// touched.

#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "support.h"

using namespace mosaic;
using namespace mosaic::test;

namespace {

// The command, started in a directory of the scratch.
Finished run_mosaic_in(const Scratch& scratch,
                       const std::string& directory,
                       const std::vector<std::string>& arguments,
                       const std::string& config = "") {
    std::vector<std::string> argv = {"sh", "-c", R"(cd "$0" && exec "$@")", scratch / directory};
    const std::vector<std::string> command = mosaic_argv(arguments);
    argv.insert(argv.end(), command.begin(), command.end());
    std::vector<std::string> env = small_environment(scratch / "home");
    if (!config.empty()) {
        env.push_back("MOSAIC_CONFIG=" + config);
    }
    return Running("/bin/sh", argv, env).finish();
}

bool exists(const std::string& path) {
    return ::access(path.c_str(), F_OK) == 0;
}

}  // namespace

TEST_CASE("init writes a business that loads, and whose launches would pass") {
    const Scratch scratch;
    const Finished done = run_mosaic(scratch, {"init"});
    CHECK(done.exit_code == 0);
    CHECK(done.out.find("wrote  " + (scratch / "home/.config/mosaic/system.json")) == 0);
    const config::Environment env = {{"HOME", scratch / "home"}};
    const auto system = config::load_system("", env);
    REQUIRE_MESSAGE(system.has_value(), (system ? "" : system.error().text));
    CHECK(system->plugins_harness == std::vector<std::string>{"script"});
    const auto business = config::load_business("acme", *system);
    REQUIRE_MESSAGE(business.has_value(), (business ? "" : business.error().text));
    CHECK(business->human == "tester");
    for (const char* instance : {"pm", "coder"}) {
        const Finished shown = run_mosaic(scratch, {"sandbox", "show", instance, "--json"});
        CHECK_MESSAGE(shown.exit_code == 0, shown.out, shown.err);
        CHECK(shown.json().find("refused")->array()->empty());

        struct stat facts {};

        REQUIRE(::stat((scratch / "home/mosaic/acme/" + instance).c_str(), &facts) == 0);
        CHECK((facts.st_mode & 0777U) == 0700);
    }
}

TEST_CASE("init overwrites nothing and says what it kept") {
    const Scratch scratch;
    scratch.write("home/.config/mosaic/system.json", "{\"plugins\":{\"harness\":[]}}");
    scratch.write("home/.config/mosaic/roles/pm.md", "mine");
    const json::Value first = run_mosaic(scratch, {"init", "--json"}).json();
    CHECK(first.find("kept")->array()->size() == 2);
    CHECK(first.find("wrote")->array()->size() == 4);
    CHECK(scratch.read("home/.config/mosaic/system.json") == "{\"plugins\":{\"harness\":[]}}");
    CHECK(scratch.read("home/.config/mosaic/roles/pm.md") == "mine");
    const json::Value second = run_mosaic(scratch, {"init", "--json"}).json();
    CHECK(second.find("wrote")->array()->empty());
}

TEST_CASE("init says what was there and keeps the new business from running") {
    const Scratch scratch;
    const Finished first = run_mosaic(scratch, {"init"});
    CHECK(first.exit_code == 0);
    CHECK(first.out.find("Next: mosaic doctor; mosaic-host --business acme --pm; mosaic send pm") !=
          std::string::npos);
    const std::vector<std::string> route = {"--harness",
                                            "claude-code",
                                            "--provider",
                                            "anthropic",
                                            "--model",
                                            "m",
                                            "--thinking",
                                            "high"};
    const auto init = [&](std::vector<std::string> more) {
        more.insert(more.begin(), "init");
        more.insert(more.end(), route.begin(), route.end());
        return run_mosaic(scratch, more);
    };
    const Finished same = init({});
    CHECK(same.exit_code == 1);
    CHECK(same.err.find("acme.json was there before") != std::string::npos);
    const Finished other = init({"--business", "other"});
    CHECK(other.exit_code == 1);
    CHECK(other.err.find("system.json was there before and doesn't switch claude-code on") !=
          std::string::npos);
    CHECK(other.out.find("mosaic send --business other pm") != std::string::npos);
}

TEST_CASE("init puts no workspace into the configuration directory") {
    const Scratch scratch;
    scratch.make_directory("home");
    const Finished done = run_mosaic(scratch, {"init", "--config", scratch / "home/system.json"});
    CHECK(done.exit_code == 2);
    CHECK(scratch.read("home/system.json").empty());
}

TEST_CASE("init takes a path that is meant from the working directory") {
    const Scratch scratch;
    scratch.make_directory("here");
    CHECK(run_mosaic_in(scratch, "here", {"init", "--config", "conf/system.json"}).exit_code == 0);
    CHECK(run_mosaic_in(scratch, "here", {"init", "--business", "other"}, "env/system.json")
              .exit_code == 0);
    CHECK(run_mosaic_in(scratch, "here", {"init", "--business", "third", "--config", "own.json"})
              .exit_code == 0);
    for (const char* made : {"conf/system.json",
                             "conf/businesses/acme.json",
                             "conf/roles/pm.md",
                             "env/businesses/other.json",
                             "own.json",
                             "businesses/third.json"}) {
        CHECK_MESSAGE(exists(scratch / "here/" + made), made);
    }
    const config::Environment env = {{"HOME", scratch / "home"}};
    const auto system = config::load_system(scratch / "here/conf/system.json", env);
    REQUIRE(system.has_value());
    CHECK(config::load_business("acme", *system).has_value());
}

TEST_CASE("init sees a workspace in the configuration directory however that is written") {
    const Scratch scratch;
    scratch.make_directory("home/deep");
    REQUIRE(::symlink((scratch / "home").c_str(), (scratch / "link").c_str()) == 0);
    for (const std::string& config : {std::string("system.json"),
                                      std::string("./system.json"),
                                      std::string("deep/../system.json"),
                                      std::string("../home//system.json"),
                                      std::string("../link/system.json")}) {
        const Finished done = run_mosaic_in(scratch, "home", {"init", "--config", config});
        CHECK_MESSAGE(done.exit_code == 2, config);
        CHECK(done.err.find("workspaces must not lie in") != std::string::npos);
    }
    CHECK_FALSE(exists(scratch / "home/system.json"));
    CHECK_FALSE(exists(scratch / "home/businesses"));
}

TEST_CASE("init that refuses leaves nothing behind") {
    const Scratch scratch;
    scratch.make_directory("here/there");
    const auto refused = [&](const std::vector<std::string>& more) {
        std::vector<std::string> all = {"init"};
        all.insert(all.end(), more.begin(), more.end());
        const Finished done = run_mosaic_in(scratch, "here", all);
        CHECK_MESSAGE(done.exit_code == 2, done.err);
        return done.err;
    };
    CHECK(refused({"--config", "conf/"}).find("a directory") != std::string::npos);
    CHECK(refused({"--config", "conf/.."}).find("a directory") != std::string::npos);
    CHECK(refused({"--config", "there"}).find("a directory") != std::string::npos);
    CHECK(refused({"--config",
                   "conf/system.json",
                   "--harness",
                   "claude-code",
                   "--provider",
                   "p\nq",
                   "--model",
                   "m",
                   "--thinking",
                   "high"})
              .find("provider") != std::string::npos);
    CHECK_FALSE(exists(scratch / "here/conf"));
    CHECK_FALSE(exists(scratch / "here/businesses"));
    CHECK_FALSE(exists(scratch / "home/mosaic"));
}

TEST_CASE("sandbox show names each bind with its reason, in mount order") {
    const Scratch scratch;
    REQUIRE(run_mosaic(scratch, {"init"}).exit_code == 0);
    const json::Value shown = run_mosaic(scratch, {"sandbox", "show", "coder", "--json"}).json();
    const json::Array& binds = *shown.find("binds")->array();
    REQUIRE(binds.size() > 8);
    CHECK(*binds[0].find("dest") == json::Value("/tmp"));
    CHECK(*binds.back().find("dest") == json::Value("/"));
    for (const json::Value& bind : binds) {
        CHECK_FALSE(bind.find("reason")->string()->empty());
    }
    CHECK(*shown.find("network") == json::Value("none"));
    const std::string all = json::dump(shown);
    CHECK(all.find("launch.sock") == std::string::npos);
    CHECK(all.find("\"MOSAIC_RUN_ID\"") != std::string::npos);
    CHECK(run_mosaic(scratch, {"sandbox", "show", "nobody"}).exit_code == 2);
}

TEST_CASE("sandbox show of nobody is told in JSON too") {
    const Scratch scratch;
    CHECK(*run_mosaic(scratch, {"sandbox", "show", "pm", "--json"}).json().find("error") ==
          json::Value("usage"));
    REQUIRE(run_mosaic(scratch, {"init"}).exit_code == 0);
    const Finished done = run_mosaic(scratch, {"sandbox", "show", "nobody", "--json"});
    CHECK(done.exit_code == 2);
    CHECK(*done.json().find("error") == json::Value("invalid"));
}

TEST_CASE("sandbox show tells what would refuse a launch, exit 3") {
    const Scratch scratch;
    REQUIRE(run_mosaic(scratch, {"init"}).exit_code == 0);
    REQUIRE(::rmdir((scratch / "home/mosaic/acme/coder").c_str()) == 0);
    const Finished shown = run_mosaic(scratch, {"sandbox", "show", "coder"});
    CHECK(shown.exit_code == 3);
    CHECK(shown.out.find("a launch now is refused: workspace-missing") != std::string::npos);
}

TEST_CASE("a tool that the harness doesn't have is told by sandbox show and doctor") {
    const Scratch scratch;
    REQUIRE(run_mosaic(scratch, {"init"}).exit_code == 0);
    std::string business = scratch.read("home/.config/mosaic/businesses/acme.json");
    const std::string none = "\"limits.tools\": []";
    REQUIRE(business.find(none) != std::string::npos);
    business.replace(business.rfind(none), none.size(), "\"limits.tools\": [\"Bash\"]");
    scratch.write("home/.config/mosaic/businesses/acme.json", business);
    const std::string text =
        "limits.tools of coder: harness module script has no tool \"Bash\"; it grants nothing";
    CHECK(run_mosaic(scratch, {"sandbox", "show", "coder"}).out.find(text) != std::string::npos);
    CHECK(run_mosaic(scratch, {"sandbox", "show", "pm"}).out.find(text) == std::string::npos);
    CHECK(run_mosaic(scratch, {"doctor"}).out.find(text) != std::string::npos);
}

TEST_CASE("doctor checks everything and exits 3 when something would refuse") {
    const Scratch scratch;
    REQUIRE(run_mosaic(scratch, {"init"}).exit_code == 0);
    scratch.write("home/.config/mosaic/system.json",
                  R"({"plugins":{"harness":["script"]},"sandbox":{"bwrap":"/nowhere/bwrap"}})");
    const Finished done = run_mosaic(scratch, {"doctor", "--json"});
    CHECK(done.exit_code == 3);
    const json::Value value = done.json();
    CHECK(*value.find("ok") == json::Value(false));
    bool found = false;
    for (const json::Value& check : *value.find("checks")->array()) {
        if (*check.find("name") == json::Value("bwrap")) {
            found = true;
            CHECK(*check.find("status") == json::Value("refuses"));
            CHECK(*check.find("detail") == json::Value("/nowhere/bwrap is missing"));
            CHECK(check.find("remedy") != nullptr);
        }
    }
    CHECK(found);
}

TEST_CASE("doctor judges a bad configuration and goes on with the machine") {
    const Scratch scratch;
    scratch.write("home/.config/mosaic/system.json", "{");
    const Finished done = run_mosaic(scratch, {"doctor"});
    CHECK(done.exit_code == 3);
    CHECK(done.out.find("refuses  configuration") != std::string::npos);
    CHECK(done.out.find("kernel") != std::string::npos);
}
