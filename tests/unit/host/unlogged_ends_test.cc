// Goal: an end that the broker has and the launch log lost is found, and no other. Method: run
// directories with the files that a launch makes, and a log's contents.

#include "host/unlogged_ends.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/instant.h"
#include "wire/session_file.h"

using namespace mosaic;
using host::LoggedEnds;

namespace {

constexpr const char* kBefore = "2020-01-01T00:00:00.000Z";
constexpr const char* kLater = "2100-01-01T00:00:00.000Z";

struct Runs {
    std::string path = std::string(MOSAIC_BUILD_DIR) + "/unlogged.XXXXXX";
    UniqueFd directory;

    Runs() {
        REQUIRE(::mkdtemp(path.data()) != nullptr);
        directory.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        REQUIRE(directory.valid());
    }

    Runs(const Runs&) = delete;
    Runs& operator=(const Runs&) = delete;

    ~Runs() { std::filesystem::remove_all(path); }

    // As a launch leaves it.
    void add(const std::string& run, const std::string& instance) const {
        wire::SessionFile session;
        session.business = "acme";
        session.seat = {instance, "t1"};
        session.run = run;
        session.human = "jordan";
        session.harness = "script";
        session.provider = "local";
        session.model = "shell";
        session.thinking = "off";
        session.broker_socket = "/d/bus.sock";
        session.workspace = "/w";
        session.session_dir = "/d/session";
        session.adapter = "/run/mosaic/module/adapter.sh";
        session.bundle_prompt = "/d/prompt.md";
        session.bundle_policy = "/d/policy.json";
        session.bundle_tools = "/d/tools.json";
        session.tool_socket = "/d/tools.sock";
        session.turn_marker = "/d/turn.done";
        REQUIRE(::mkdir((path + "/" + run).c_str(), 0700) == 0);
        std::ofstream(path + "/" + run + "/session.json") << json::dump(session.to_value());
    }

    [[nodiscard]] std::vector<std::string> ask(const wire::BoundResult& bound,
                                               const LoggedEnds& logged) const {
        std::vector<std::string> out;
        for (const wire::BoundRun& run : host::unlogged_ends(directory.get(), bound, logged)) {
            out.push_back(run.run + " " + describe(run.seat) + " " + run.harness);
        }
        return out;
    }
};

const std::string kOne = "r000000000001";
const std::string kTwo = "r000000000002";

}  // namespace

TEST_CASE("an ended run without its line is found with its seat and harness") {
    const Runs runs;
    runs.add(kOne, "coder");
    runs.add(kTwo, "tester");
    wire::BoundResult bound;
    bound.known = {kOne, kTwo};
    CHECK(runs.ask(bound, {{kTwo}, kBefore}) ==
          std::vector<std::string>{kOne + " " + describe({"coder", "t1"}) + " script"});
}

TEST_CASE("a run that the broker still holds or never knew is somebody else's business") {
    const Runs runs;
    runs.add(kOne, "coder");
    runs.add(kTwo, "tester");
    wire::BoundResult bound;
    bound.known = {kOne};
    bound.bound.push_back({{"coder", "t1"}, kOne, "script", {}, true});
    CHECK(runs.ask(bound, {{}, kBefore}).empty());
}

TEST_CASE("a log that began after a run says nothing of it") {
    const Runs runs;
    runs.add(kOne, "coder");
    wire::BoundResult bound;
    bound.known = {kOne};
    CHECK(runs.ask(bound, {{}, kLater}).empty());
    CHECK(runs.ask(bound, LoggedEnds{}).empty());
}

TEST_CASE("a run whose session.json is gone or broken is left out") {
    const Runs runs;
    runs.add(kOne, "coder");
    std::ofstream(runs.path + "/" + kOne + "/session.json") << "{";
    wire::BoundResult bound;
    bound.known = {kOne, kTwo};
    CHECK(runs.ask(bound, {{}, kBefore}).empty());
}
