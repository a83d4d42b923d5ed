// Goal: ps and log tell from files alone what is so, and the data root is the one that was meant.
// Method: the real program on directories that the test lays out.

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "support.h"

using namespace mosaic;
using namespace mosaic::test;

namespace {

const char* const kLaunchLine =
    R"({"event":"launch","at":"T1","instance":"coder","run":"r0123456789ab","harness":"script"})";
const char* const kEndLine =
    R"({"event":"end","at":"T2","instance":"coder","run":"r0123456789ab","reason":"stopped"})";
const char* const kOtherLine =
    R"({"event":"end","at":"T3","instance":"pm","run":"r00000000000f","reason":"failed"})";

void append(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

std::string lines(std::initializer_list<const char*> list) {
    std::string out;
    for (const char* line : list) {
        out += std::string(line) + "\n";
    }
    return out;
}

}  // namespace

TEST_CASE("ps shows no sessions of a data root where no host has run yet") {
    const Scratch scratch;
    scratch.make_directory("data");
    const Finished text = run_mosaic(scratch, {"ps", "--data", scratch / "data"});
    CHECK(text.exit_code == 0);
    CHECK(text.out == "INSTANCE  RUN  STATE  HARNESS  PROVIDER  MODEL  BY  SINCE  PID\n");
    const Finished json = run_mosaic(scratch, {"ps", "--data", scratch / "data", "--json"});
    CHECK(json.exit_code == 0);
    CHECK(json.out == "[]\n");
}

TEST_CASE("ps says of each session whether it lives") {
    const Scratch scratch;
    const std::string run_dir = scratch / "run";
    const auto runner = puppet("mosaic-runner", run_dir, 0);
    registry::SessionEntry live = entry_of(run_dir, runner->pid(), runner->pid());
    registry::SessionEntry gone = live;
    gone.seat = {"reviewer", ""};
    gone.run = "r00000000000b";
    gone.process.runner_start_time = "1";
    write_sessions(scratch, {live, gone});
    const json::Value out =
        run_mosaic(scratch, {"ps", "--json", "--data", scratch / "data"}).json();
    REQUIRE(out.array() != nullptr);
    REQUIRE(out.array()->size() == 2);
    const json::Value& first = (*out.array())[0];
    CHECK(*first.find("run") == json::Value("r0123456789ab"));
    CHECK(*first.find("live") == json::Value(true));
    CHECK(*first.find("state") == json::Value("running"));
    CHECK(*(*out.array())[1].find("live") == json::Value(false));
    CHECK(*(*out.array())[1].find("state") == json::Value("stale"));
}

TEST_CASE("a damaged sessions.json is told with its place and isn't taken for an empty one") {
    const Scratch scratch;
    scratch.write("data/bus-host/sessions.json", "{\"sessionsVersion\":1,");
    const Finished done = run_mosaic(scratch, {"ps", "--data", scratch / "data"});
    CHECK(done.exit_code == 3);
    CHECK(done.out.empty());
    CHECK(done.err.find("bus-host/sessions.json: ") != std::string::npos);
    CHECK(scratch.read("data/bus-host/sessions.json") == "{\"sessionsVersion\":1,");
}

TEST_CASE("a data root that doesn't exist is an error") {
    const Scratch scratch;
    const Finished done = run_mosaic(scratch, {"ps", "--data", scratch / "none"});
    CHECK(done.exit_code == 1);
    CHECK(done.err == "mosaic: " + scratch / "none" +
                          " does not exist; no host has served it yet: `mosaic-host --business ID "
                          "--data " +
                          scratch / "none" + "` starts one\n");
}

TEST_CASE("before its first host the configured business is the one that is meant") {
    const Scratch scratch;
    REQUIRE(run_mosaic(scratch, {"ps"}).exit_code == 4);
    CHECK(run_mosaic(scratch, {"ps"}).err.find("mosaic init") != std::string::npos);
    REQUIRE(run_mosaic(scratch, {"init"}).exit_code == 0);
    for (const char* command : {"ps", "log", "events"}) {
        const Finished done = run_mosaic(scratch, {command});
        CHECK(done.exit_code == 1);
        CHECK(done.err.find("/acme") != std::string::npos);
        CHECK(done.err.find("`mosaic-host --business acme` starts one") != std::string::npos);
    }
}

TEST_CASE("the data root is --business below dataRoot, or the only one there") {
    const Scratch scratch;
    scratch.write("config/system.json", R"({"dataRoot":"../state"})");
    scratch.make_directory("state");
    const std::vector<std::string> config = {"--config", scratch / "config/system.json", "--json"};
    const auto ps = [&](std::vector<std::string> more) {
        more.insert(more.begin(), "ps");
        more.insert(more.end(), config.begin(), config.end());
        return run_mosaic(scratch, more);
    };
    CHECK(ps({}).exit_code == 4);
    scratch.make_directory("state/acme");
    CHECK(ps({}).out == "[]\n");
    scratch.make_directory("state/zeta");
    const Finished several = ps({});
    CHECK(several.exit_code == 4);
    CHECK(several.err.find("acme, zeta") != std::string::npos);
    CHECK(ps({"--business", "zeta"}).out == "[]\n");
    CHECK(ps({"--business", "../zeta", "--data", scratch / "state"}).exit_code == 3);
    CHECK(ps({"--business", "UP"}).exit_code == 2);
}

TEST_CASE("a bad system file is exit 3 with its place") {
    const Scratch scratch;
    scratch.write("system.json", R"({"dataRoot":7})");
    const Finished done = run_mosaic(scratch, {"ps", "--config", scratch / "system.json"});
    CHECK(done.exit_code == 3);
    CHECK(done.err.find("/dataRoot: expected a string") != std::string::npos);
}

TEST_CASE("log prints the launch log, as text and as JSON lines") {
    const Scratch scratch;
    scratch.write("data/launches/acme.jsonl",
                  lines({kLaunchLine, kEndLine, kOtherLine}) + R"({"event":"la)");
    const Finished json = run_mosaic(scratch, {"log", "--json", "--data", scratch / "data"});
    CHECK(json.exit_code == 0);
    CHECK(json.out == lines({kLaunchLine, kEndLine, kOtherLine}));
    const Finished text =
        run_mosaic(scratch, {"log", "--run", "r0123456789ab", "--data", scratch / "data"});
    CHECK(text.out ==
          "T1 launch coder r0123456789ab harness=script\n"
          "T2 end coder r0123456789ab reason=stopped\n");
}

TEST_CASE("log says so when there is none, or several") {
    const Scratch scratch;
    scratch.make_directory("data/launches/acme");
    CHECK(run_mosaic(scratch, {"log", "--data", scratch / "data"}).exit_code == 1);
    scratch.write("data/launches/acme.jsonl", "");
    CHECK(run_mosaic(scratch, {"log", "--data", scratch / "data"}).exit_code == 0);
    scratch.write("data/launches/zeta.jsonl", lines({kOtherLine}));
    CHECK(run_mosaic(scratch, {"log", "--data", scratch / "data"}).exit_code == 1);
    CHECK(run_mosaic(scratch, {"log", "--business", "zeta", "--json", "--data", scratch / "data"})
              .out == lines({kOtherLine}));
}

TEST_CASE("log --follow goes on through appends, rotation, removal and truncation") {
    const Scratch scratch;
    const std::string log = scratch / "data/launches/acme.jsonl";
    scratch.write("data/launches/acme.jsonl", lines({kLaunchLine}));
    Running running(MOSAIC_PROGRAM,
                    mosaic_argv({"log", "--follow", "--json", "--data", scratch / "data"}),
                    small_environment(scratch / "home"));
    CHECK(running.line() == kLaunchLine);
    // In pieces.
    append(log, std::string(kEndLine).substr(0, 10));
    append(log, std::string(kEndLine).substr(10) + "\n");
    CHECK(running.line() == kEndLine);
    // Renamed away and still written to, then made anew.
    REQUIRE(std::rename(log.c_str(), (log + ".1").c_str()) == 0);
    append(log + ".1", lines({kOtherLine}));
    CHECK(running.line() == kOtherLine);
    append(log, lines({kLaunchLine}));
    CHECK(running.line() == kLaunchLine);
    REQUIRE(::unlink(log.c_str()) == 0);
    append(log, lines({kEndLine}));
    CHECK(running.line() == kEndLine);
    REQUIRE(::truncate(log.c_str(), 0) == 0);
    append(log, lines({kOtherLine}));
    CHECK(running.line() == kOtherLine);
    CHECK(running.alive());
}

TEST_CASE("log --follow ends when nobody reads it any more") {
    const Scratch scratch;
    scratch.write("data/launches/acme.jsonl", lines({kLaunchLine}));
    Running running(MOSAIC_PROGRAM,
                    mosaic_argv({"log", "--follow", "--json", "--data", scratch / "data"}),
                    small_environment(scratch / "home"));
    CHECK(running.line() == kLaunchLine);
    running.close_output();
    CHECK(running.wait_exit().exit_code == 1);
}

TEST_CASE("log --follow waits for a log that doesn't exist yet") {
    const Scratch scratch;
    scratch.make_directory("data/launches");
    Running running(
        MOSAIC_PROGRAM,
        mosaic_argv({"log", "-f", "--json", "--business", "acme", "--data", scratch / "data"}),
        small_environment(scratch / "home"));
    append(scratch / "data/launches/acme.jsonl", lines({kLaunchLine}));
    CHECK(running.line() == kLaunchLine);
}

TEST_CASE("as root a command has the rights of the data root's owner and no more") {
    if (::geteuid() != 0) {
        MESSAGE("skipped: this needs root");
        return;
    }
    const Scratch scratch("/var/tmp");
    constexpr uid_t kSomebody = 65534;
    REQUIRE(::chmod(scratch.path().c_str(), 0755) == 0);
    write_sessions(scratch, {});
    scratch.write("data/bus-host/lock", "");
    const std::string sessions = scratch / "data/bus-host/sessions.json";
    const std::string lock = scratch / "data/bus-host/lock";
    REQUIRE(::chmod(sessions.c_str(), 0600) == 0);
    // What root may read and the owner may not shows who reads.
    REQUIRE(::chown(lock.c_str(), kSomebody, kSomebody) == 0);
    const Finished refused = run_mosaic(scratch, {"ps", "--json", "--data", scratch / "data"});
    CHECK(refused.exit_code == 1);
    CHECK(refused.err.find("Permission denied") != std::string::npos);
    REQUIRE(::chown(sessions.c_str(), kSomebody, kSomebody) == 0);
    CHECK(run_mosaic(scratch, {"ps", "--json", "--data", scratch / "data"}).out == "[]\n");
}
