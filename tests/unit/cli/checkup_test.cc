#include "cli/checkup.h"

#include <doctest/doctest.h>

#include <cerrno>

namespace cli = mosaic::cli;
using cli::Finding;
using cli::Health;

TEST_CASE("one refusal makes the exit code 3; what is only weaker doesn't") {
    const Finding fine{"a", Health::fine, "", ""};
    const Finding weaker{"b", Health::weaker, "", ""};
    const Finding refuses{"c", Health::refuses, "", ""};
    CHECK(cli::exit_code_for({fine, weaker}) == 0);
    CHECK(cli::exit_code_for({fine, refuses, weaker}) == 3);
    CHECK(*cli::checkup_value({fine}, {}).find("ok") == mosaic::json::Value(true));
    CHECK(*cli::checkup_value({refuses}, {}).find("ok") == mosaic::json::Value(false));
}

TEST_CASE("text is aligned, with remedies below what they are for") {
    CHECK(cli::checkup_text(
              {{"a", Health::fine, "well", ""}, {"long", Health::refuses, "bad", "do this"}},
              {"and this"}) ==
          "ok       a     well\n"
          "refuses  long  bad\n"
          "               -> do this\n"
          "note     and this\n");
}

TEST_CASE("kernels without what io_uring needs refuse, older ones are weaker") {
    CHECK(cli::judge_kernel("6.1.0-28-amd64").health == Health::fine);
    CHECK(cli::judge_kernel("6.18.44").health == Health::fine);
    CHECK(cli::judge_kernel("5.15.0").health == Health::weaker);
    CHECK(cli::judge_kernel("5.10.0").health == Health::refuses);
    CHECK(cli::judge_kernel("4.19").health == Health::refuses);
    CHECK(cli::judge_kernel("strange").health == Health::weaker);
}

TEST_CASE("a refused ring is explained by its cause") {
    CHECK(cli::judge_io_uring(0, "0").health == Health::fine);
    const Finding off = cli::judge_io_uring(EPERM, "2\n");
    CHECK(off.health == Health::refuses);
    CHECK(off.detail.find("kernel.io_uring_disabled is 2") != std::string::npos);
    CHECK(off.remedy.find("sysctl kernel.io_uring_disabled=0") == 0);
    CHECK(cli::judge_io_uring(ENOSYS, "").remedy.find("CONFIG_IO_URING") != std::string::npos);
    CHECK(cli::judge_io_uring(EPERM, "0").remedy.find("seccomp") != std::string::npos);
    CHECK(cli::judge_io_uring(ENOMEM, "0").remedy.find("ulimit -l") != std::string::npos);
}

TEST_CASE("each sysctl that forbids user namespaces is named") {
    CHECK(cli::judge_namespaces({"15000\n", "", ""}).health == Health::fine);
    CHECK(cli::judge_namespaces({"15000\n", "1\n", "0\n"}).health == Health::fine);
    CHECK(cli::judge_namespaces({"0\n", "", ""}).detail == "user.max_user_namespaces is 0");
    CHECK(cli::judge_namespaces({"1\n", "0\n", ""}).health == Health::refuses);
    CHECK(cli::judge_namespaces({"1\n", "1\n", "1\n"}).health == Health::weaker);
}

TEST_CASE("a level of hardening that is off is weaker, never a refusal") {
    const Finding off = cli::judge_level({"landlock-scope", false, "too old", "a newer kernel"});
    CHECK(off.health == Health::weaker);
    CHECK(off.detail == "too old");
    CHECK(off.remedy == "a newer kernel");
    CHECK(cli::judge_level({"seccomp", true, "a filter", ""}).health == Health::fine);
}

TEST_CASE("a bwrap without a needed option refuses with the version to install") {
    const std::string help = "--disable-userns\n--bind-fd\n--json-status-fd\n";
    CHECK(cli::judge_bwrap("/b", "bubblewrap 0.8.0\n", help).health == Health::fine);
    CHECK(cli::judge_bwrap("/b", "bubblewrap 0.8.0\n", help).detail == "/b: bubblewrap 0.8.0");
    const Finding old = cli::judge_bwrap("/b", "bubblewrap 0.4.0\n", "--json-status-fd\n");
    CHECK(old.health == Health::refuses);
    CHECK(old.detail == "/b: bubblewrap 0.4.0 has no --bind-fd");
    CHECK(old.remedy.find("0.10.0") != std::string::npos);
}
