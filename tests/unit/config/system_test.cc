// Goal: a system file means one thing or is refused with the place and the expectation. Method:
// good documents are compared whole, bad ones by the exact text of their error.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "config/config.h"

using mosaic::Code;
using mosaic::config::Environment;
using mosaic::config::parse_system;
using mosaic::config::system_file_path;
using mosaic::config::SystemConfig;

namespace {

const Environment kEnv = {{"HOME", "/home/jordan"}};
const std::string kPath = "/etc/mosaic/system.json";

std::string error_of(const std::string& text) {
    const auto parsed = parse_system(text, kPath, kEnv);
    return parsed ? "no error" : parsed.error().text;
}

SystemConfig defaults() {
    SystemConfig out;
    out.file = kPath;
    out.directory = "/etc/mosaic";
    out.data_root = "/home/jordan/.local/state/mosaic";
    out.roles_dir = "/etc/mosaic/roles";
    return out;
}

}  // namespace

TEST_CASE("an empty system document is all defaults") {
    const auto parsed = parse_system("{}", kPath, kEnv);
    REQUIRE(parsed.has_value());
    CHECK(*parsed == defaults());
}

TEST_CASE("a full system document is read into every field") {
    const std::string text = R"({
      "dataRoot": "/var/lib/mosaic", "rolesDir": "contracts", "user": "mosaic",
      "plugins": {"harness": ["claude-code", "pi", "script"]},
      "pluginDirs": ["./plugins", "/opt/mosaic/harness"],
      "limits": {"runnerPidMs": 1000, "claimMs": 2000, "stopTimeoutMs": 3000, "setupInFlight": 4,
                 "setupWaitMs": 5000, "shmBytes": 65536, "memoryBytes": 33554432,
                 "runsKept": 7, "runsKeptDays": 8,
                 "runDiskBytes": 1073741824, "diskCheckSeconds": 9, "turnSeconds": 10,
                 "turnGraceMs": 11, "replyBytes": 12,
                 "brokerRetries": 13, "processes": 14, "openFiles": 16},
      "sandbox": {"bwrap": "/opt/bwrap", "passEnv": ["HTTPS_PROXY", "no_proxy"],
                  "gitCommonDir": true, "nested": true},
      "metrics": {"port": 9464},
      "notify": ["/usr/bin/notify-send", "mosaic"] })";
    SystemConfig expected = defaults();
    expected.data_root = "/var/lib/mosaic";
    expected.roles_dir = "/etc/mosaic/contracts";
    expected.user = "mosaic";
    expected.plugins_harness = {"claude-code", "pi", "script"};
    expected.plugin_dirs = {"/etc/mosaic/plugins", "/opt/mosaic/harness"};
    expected.limits.runner_pid_ms = 1000;
    expected.limits.claim_ms = 2000;
    expected.limits.stop_timeout_ms = 3000;
    expected.limits.setup_in_flight = 4;
    expected.limits.setup_wait_ms = 5000;
    expected.limits.shm_bytes = 65536;
    expected.limits.memory_bytes = 33554432;
    expected.limits.runs_kept = 7;
    expected.limits.runs_kept_days = 8;
    expected.limits.run_disk_bytes = 1073741824;
    expected.limits.disk_check_seconds = 9;
    expected.limits.session = {.turn_seconds = 10,
                               .turn_grace_ms = 11,
                               .reply_bytes = 12,
                               .broker_retries = 13,
                               .processes = 14,
                               .open_files = 16};
    expected.sandbox = {.bwrap = "/opt/bwrap",
                        .pass_env = {"HTTPS_PROXY", "no_proxy"},
                        .git_common_dir = true,
                        .nested = true};
    expected.metrics_port = 9464;
    expected.notify = {"/usr/bin/notify-send", "mosaic"};
    const auto parsed = parse_system(text, kPath, kEnv);
    REQUIRE_MESSAGE(parsed.has_value(), (parsed ? "" : parsed.error().text));
    CHECK(*parsed == expected);
}

TEST_CASE("bad system documents are refused with file, pointer and expectation") {
    const std::vector<std::pair<std::string, std::string>> table = {
        {"", "byte 0: an empty document"},
        {"[]", "expected an object, found an array"},
        {"{\n  \"limits\": {}\n  \"user\": \"u\"\n}",
         "byte 19 (line 3): expected a comma and a member, or the end of the object"},
        {R"({"dataroot":"/x"})", "/dataroot: unknown key"},
        {R"({"dataRoot":""})", "/dataRoot: expected a path, found an empty string"},
        {R"({"dataRoot":5})", "/dataRoot: expected a string, found an integer"},
        {R"({"dataRoot":"~/x"})",
         "/dataRoot: expected an absolute path or one relative to this file (~ is not expanded), "
         "found \"~/x\""},
        {R"({"rolesDir":"a\u0000b"})",
         "/rolesDir: expected a path without control characters, found \"a\\u0000b\""},
        {R"({"plugins":["pi"]})", "/plugins: expected an object, found an array"},
        {R"({"plugins":{"harnesses":[]}})", "/plugins/harnesses: unknown key"},
        {R"({"plugins":{"harness":"pi"}})",
         "/plugins/harness: expected an array of strings, found a string"},
        {R"({"plugins":{"harness":["pi","../x"]}})",
         "/plugins/harness/1: expected a module's name (an id), found \"../x\""},
        {R"({"plugins":{"harness":["pi","pi"]}})", "/plugins/harness/1: \"pi\" stands twice"},
        {R"({"pluginDirs":["a",7]})", "/pluginDirs/1: expected a string, found an integer"},
        {R"({"pluginDirs":["a","./a"]})", "/pluginDirs/1: \"/etc/mosaic/a\" stands twice"},
        {R"({"user":""})", "/user: expected 1 to 256 bytes without control characters, found \"\""},
        {R"({"limits":{"claimMs":0}})",
         "/limits/claimMs: expected an integer from 1 to 3600000, found 0"},
        {R"({"limits":{"claimMs":1.5}})", "/limits/claimMs: expected an integer, found a number"},
        {R"({"limits":{"claimms":1}})", "/limits/claimms: unknown key"},
        {R"({"limits":{"memoryBytes":33554431}})",
         "/limits/memoryBytes: expected 0 (no limit) or at least 33554432, found 33554431"},
        {R"({"limits":{"memoryBytes":-1}})",
         "/limits/memoryBytes: expected an integer from 0 to 1125899906842624, found -1"},
        {R"({"limits":{"shmBytes":4095}})",
         "/limits/shmBytes: expected an integer from 4096 to 1099511627776, found 4095"},
        {R"({"limits":{"replyBytes":163841}})",
         "/limits/replyBytes: expected an integer from 1 to 163840, found 163841"},
        {R"({"limits":{"openFiles":15}})",
         "/limits/openFiles: expected an integer from 16 to 1048576, found 15"},
        {R"({"sandbox":{"bwrap":"bwrap"}})",
         "/sandbox/bwrap: expected an absolute path, found \"bwrap\""},
        {R"({"sandbox":{"passEnv":["GH_TOKEN"]}})",
         "/sandbox/passEnv/0: GH_TOKEN is never passed to a session"},
        {R"({"sandbox":{"passEnv":["TZ","AWS_REGION"]}})",
         "/sandbox/passEnv/1: AWS_REGION is never passed to a session"},
        {R"({"sandbox":{"passEnv":["VIKUNJA_URL"]}})",
         "/sandbox/passEnv/0: VIKUNJA_URL is never passed to a session"},
        {R"({"sandbox":{"passEnv":["MOSAIC_CONFIG"]}})",
         "/sandbox/passEnv/0: MOSAIC_CONFIG is never passed to a session"},
        {R"({"sandbox":{"passEnv":["PATH"]}})",
         "/sandbox/passEnv/0: PATH is set by the host itself"},
        {R"({"sandbox":{"passEnv":["A=B"]}})",
         "/sandbox/passEnv/0: expected a variable's name, found \"A=B\""},
        {R"({"sandbox":{"passEnv":["A","A"]}})", "/sandbox/passEnv/1: \"A\" stands twice"},
        {R"({"sandbox":{"nested":"yes"}})",
         "/sandbox/nested: expected true or false, found a string"},
        {R"({"metrics":9464})", "/metrics: expected an object, found an integer"},
        {R"({"metrics":{"port":65536}})",
         "/metrics/port: expected an integer from 0 to 65535, found 65536"},
        {R"({"metrics":{"port":-1}})",
         "/metrics/port: expected an integer from 0 to 65535, found -1"},
        {R"({"metrics":{"port":"9464"}})", "/metrics/port: expected an integer, found a string"},
        {R"({"metrics":{"address":"0.0.0.0"}})", "/metrics/address: unknown key"},
        {R"({"notify":["notify-send"]})",
         "/notify/0: expected a program's absolute path, found \"notify-send\""},
    };
    for (const auto& [text, expected] : table) {
        CAPTURE(text);
        CHECK(error_of(text) == kPath + ": " + expected);
    }
    CHECK(error_of(R"({"user":"a","user":"b"})").find("the key \"user\" stands twice") !=
          std::string::npos);
    CHECK(error_of(R"({"user":"a"} x)").find(kPath + ": byte ") == 0);
}

TEST_CASE("the data root follows XDG_STATE_HOME, then HOME, and only absolute values count") {
    const auto data_root = [](const Environment& env) {
        const auto parsed = parse_system("{}", kPath, env);
        return parsed ? parsed->data_root : parsed.error().text;
    };
    CHECK(data_root({{"HOME", "/h"}, {"XDG_STATE_HOME", "/s"}}) == "/s/mosaic");
    CHECK(data_root({{"HOME", "/h"}, {"XDG_STATE_HOME", "s"}}) == "/h/.local/state/mosaic");
    CHECK(data_root({{"HOME", "/h"}, {"XDG_STATE_HOME", ""}}) == "/h/.local/state/mosaic");
    CHECK(data_root({{"XDG_STATE_HOME", "/s"}}) == "/s/mosaic");
    CHECK(data_root({}) ==
          "HOME: expected an absolute path in the environment (or XDG_STATE_HOME), found none");
    CHECK(data_root({{"HOME", "h"}}) ==
          "HOME: expected an absolute path in the environment (or XDG_STATE_HOME), found another "
          "value");
    // A document that says where needs no HOME.
    const auto parsed = parse_system(R"({"dataRoot":"/d"})", kPath, {});
    REQUIRE(parsed.has_value());
    CHECK(mosaic::config::data_root_of(*parsed, "", "acme") == "/d/acme");
    CHECK(mosaic::config::data_root_of(*parsed, "/elsewhere", "acme") == "/elsewhere");
}

TEST_CASE("the system file is the one named, then MOSAIC_CONFIG, XDG_CONFIG_HOME and HOME") {
    const Environment all = {
        {"MOSAIC_CONFIG", "/m.json"}, {"XDG_CONFIG_HOME", "/x"}, {"HOME", "/h"}};
    CHECK(system_file_path("/given.json", all).value() == "/given.json");
    CHECK(system_file_path("", all).value() == "/m.json");
    CHECK(system_file_path("", {{"MOSAIC_CONFIG", ""}, {"XDG_CONFIG_HOME", "/x"}}).value() ==
          "/x/mosaic/system.json");
    CHECK(system_file_path("", {{"XDG_CONFIG_HOME", "x"}, {"HOME", "/h"}}).value() ==
          "/h/.config/mosaic/system.json");
    const auto none = system_file_path("", {});
    REQUIRE(!none.has_value());
    CHECK(none.error().code == Code::missing);
    CHECK(none.error().text ==
          "HOME: expected an absolute path in the environment (or XDG_CONFIG_HOME), found none");
}
