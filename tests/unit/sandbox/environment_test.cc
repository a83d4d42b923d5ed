// Goal: a session's environment holds what the contract lists and nothing else, no value ever shows
// in a message, and what a variable points to is known. Method: tables.

#include "sandbox/environment.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using mosaic::Code;
using mosaic::config::Environment;
using mosaic::sandbox::CaPath;
using mosaic::sandbox::EnvironmentSpec;
using mosaic::sandbox::session_environment;
using mosaic::sandbox::session_path;

namespace {

using Words = std::vector<std::string>;

EnvironmentSpec spec_for(const Environment& host) {
    EnvironmentSpec spec;
    spec.host = &host;
    spec.run = "r0123456789ab";
    spec.run_dir = "/data/run";
    return spec;
}

}  // namespace

TEST_CASE("a session's whole environment") {
    const Environment host = {{"USER", "u"},
                              {"LOGNAME", "u"},
                              {"LANG", "C.UTF-8"},
                              {"LC_ALL", "C"},
                              {"TZ", "UTC"},
                              {"TERM", "xterm"},
                              {"HOME", "/home/u"},
                              {"PATH", "/usr/bin:/bin"},
                              {"TMPDIR", "/home/u/tmp"},
                              {"SHELL", "/bin/zsh"},
                              {"EDITOR", "vi"},
                              {"LD_PRELOAD", "/x.so"},
                              {"GH_TOKEN", "canary"},
                              {"SSH_AUTH_SOCK", "/run/agent"},
                              {"ANTHROPIC_API_KEY", "key"},
                              {"OPENAI_API_KEY", "other"},
                              {"MY_FLAG", "on"}};
    EnvironmentSpec spec = spec_for(host);
    spec.path_dirs = {"/run/mosaic/module/bin"};
    spec.provider = {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"};
    spec.pass_env = {"MY_FLAG", "NOT_SET"};
    const auto env = session_environment(spec);
    REQUIRE(env.has_value());
    CHECK(env->variables == Words{"ANTHROPIC_API_KEY=key",
                                  "HOME=/data/run/rw/home",
                                  "LANG=C.UTF-8",
                                  "LC_ALL=C",
                                  "LOGNAME=u",
                                  "MOSAIC_RUN_ID=r0123456789ab",
                                  "MY_FLAG=on",
                                  "PATH=/run/mosaic:/run/mosaic/module/bin:/usr/bin:/bin",
                                  "TERM=xterm",
                                  "TMPDIR=/tmp",
                                  "TZ=UTC",
                                  "USER=u"});
    CHECK(env->warnings.empty());
    CHECK(env->ca_paths.empty());
}

TEST_CASE("an empty host gives a session that works") {
    const Environment host;
    const auto env = session_environment(spec_for(host));
    REQUIRE(env.has_value());
    CHECK(env->variables == Words{"HOME=/data/run/rw/home",
                                  "MOSAIC_RUN_ID=r0123456789ab",
                                  "PATH=/run/mosaic:/usr/local/bin:/usr/bin:/bin",
                                  "TMPDIR=/tmp"});
}

TEST_CASE("a blank value counts as none") {
    const Environment host = {{"ANTHROPIC_API_KEY", ""}, {"TOKEN", " \t"}, {"LANG", ""}};
    EnvironmentSpec spec = spec_for(host);
    spec.provider = {"ANTHROPIC_API_KEY"};
    spec.pass_env = {"TOKEN"};
    CHECK(session_environment(spec)->variables.size() == 4);
}

TEST_CASE("relative and empty parts of the host's PATH are dropped, doubles too") {
    const std::vector<std::pair<std::string, std::string>> table = {
        {"/usr/bin:/bin", "/run/mosaic:/usr/bin:/bin"},
        {":/usr/bin::.:bin:../x:/bin:", "/run/mosaic:/usr/bin:/bin"},
        {"/bin:/usr/bin:/bin:/run/mosaic", "/run/mosaic:/bin:/usr/bin"},
        {":", "/run/mosaic"},
        {"/with space:/\xff", "/run/mosaic:/with space:/\xff"},
    };
    for (const auto& [given, expected] : table) {
        CAPTURE(given);
        const Environment host = {{"PATH", given}};
        CHECK(session_path(spec_for(host)) == expected);
    }
}

TEST_CASE("variables that act for the human are refused wherever they are asked for") {
    for (const std::string name : {"GITEA_TOKEN",
                                   "GH_TOKEN",
                                   "GITHUB_TOKEN",
                                   "SSH_AUTH_SOCK",
                                   "VIKUNJA_API_TOKEN",
                                   "AWS_SECRET_ACCESS_KEY",
                                   "AWS_PROFILE",
                                   "MOSAIC_CONFIG"}) {
        CAPTURE(name);
        const Environment host = {{name, "canary"}};
        EnvironmentSpec passed = spec_for(host);
        passed.pass_env = {name};
        EnvironmentSpec provided = spec_for(host);
        provided.provider = {name};
        for (const EnvironmentSpec& spec : {passed, provided}) {
            const auto env = session_environment(spec);
            REQUIRE_FALSE(env.has_value());
            CHECK(env.error().code == Code::unsafe);
            CHECK(env.error().text.find(name + " never enters a session") != std::string::npos);
            CHECK(env.error().text.find("canary") == std::string::npos);
        }
        // Not asked for, it is simply not there.
        CHECK(session_environment(spec_for(host))->variables.size() == 4);
    }
}

TEST_CASE("a name that is none is refused") {
    const Environment host;
    for (const std::string name : {"", "A=B", "1A", "A B", "A\n"}) {
        EnvironmentSpec spec = spec_for(host);
        spec.pass_env = {name};
        CHECK(session_environment(spec).error().code == Code::invalid);
    }
}

TEST_CASE("a control character in a value is refused without showing the value") {
    for (const std::string bad : {"tok\nen", "tok\r", "\x01tok", "tok\x7f", "tok\ten"}) {
        const Environment host = {{"ANTHROPIC_API_KEY", bad}};
        EnvironmentSpec spec = spec_for(host);
        spec.provider = {"ANTHROPIC_API_KEY"};
        const auto env = session_environment(spec);
        REQUIRE_FALSE(env.has_value());
        CHECK(env.error().text == "ANTHROPIC_API_KEY: its value holds a control character");
    }
}

TEST_CASE("our own values hold any byte of a path") {
    const Environment host;
    EnvironmentSpec spec = spec_for(host);
    spec.run_dir = "/da\nta";
    const auto env = session_environment(spec);
    REQUIRE(env.has_value());
    CHECK(env->variables.front() == "HOME=/da\nta/rw/home");
}

TEST_CASE("what a session has of its own can't be passed over it") {
    const Environment host = {{"HOME", "/home/u"}, {"TMPDIR", "/x"}, {"MOSAIC_RUN_ID", "r1"}};
    EnvironmentSpec spec = spec_for(host);
    spec.pass_env = {"HOME", "TMPDIR", "MOSAIC_RUN_ID", "PATH"};
    CHECK(session_environment(spec)->variables == session_environment(spec_for(host))->variables);
}

TEST_CASE("a proxy or CA variable that isn't passed is one warning with its name only") {
    const Environment host = {{"HTTPS_PROXY", "http://user:canary@proxy"},
                              {"no_proxy", "canary.example"},
                              {"NODE_EXTRA_CA_CERTS", "/opt/canary.pem"},
                              {"SSL_CERT_FILE", "/opt/canary.pem"},
                              {"HTTP_PROXY", ""}};
    EnvironmentSpec spec = spec_for(host);
    spec.pass_env = {"SSL_CERT_FILE"};
    const auto env = session_environment(spec);
    REQUIRE(env.has_value());
    CHECK(env->warnings ==
          Words{"the host has HTTPS_PROXY, sessions don't get it: sandbox.passEnv would pass it",
                "the host has no_proxy, sessions don't get it: sandbox.passEnv would pass it",
                "the host has NODE_EXTRA_CA_CERTS, sessions don't get it: sandbox.passEnv would "
                "pass it"});
}

TEST_CASE("passed CA variables tell which files must be mounted") {
    const Environment host = {{"NODE_EXTRA_CA_CERTS", "/opt/corp/ca.pem"},
                              {"SSL_CERT_DIR", "/opt/a:/opt/b"},
                              {"REQUESTS_CA_BUNDLE", "ca.pem"}};
    EnvironmentSpec spec = spec_for(host);
    spec.pass_env = {"NODE_EXTRA_CA_CERTS", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"};
    const auto env = session_environment(spec);
    REQUIRE(env.has_value());
    CHECK(env->ca_paths == std::vector<CaPath>{{"NODE_EXTRA_CA_CERTS", "/opt/corp/ca.pem"},
                                               {"SSL_CERT_DIR", "/opt/a"},
                                               {"SSL_CERT_DIR", "/opt/b"}});
    CHECK(env->warnings ==
          Words{"REQUESTS_CA_BUNDLE is no absolute path: sessions can't find its file"});
}
