#include "cli/sessions_view.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "process/proc.h"

namespace cli = mosaic::cli;
using mosaic::registry::SessionEntry;
using mosaic::registry::SessionsFile;

namespace {

// An entry whose runner is this very process.
SessionEntry own_entry() {
    SessionEntry out;
    out.business = "acme";
    out.seat = {"coder", "t1"};
    out.run = "r0123456789ab";
    out.run_dir = "/d/r";
    const auto stat = mosaic::process::read_stat(::getpid());
    REQUIRE(stat);
    out.process = {1, "1", ::getpid(), stat->start_time};
    out.launched_by = "pm";
    out.harness = "script";
    out.provider = "local";
    out.model = "none";
    out.at = "2026-01-31T12:34:56.789Z";
    return out;
}

}  // namespace

TEST_CASE("a session is live when its runner runs in this boot with the recorded start time") {
    SessionsFile file{"boot-1", {own_entry(), own_entry(), own_entry()}};
    file.entries[1].process.runner_start_time = "1";
    file.entries[2].warm = true;
    const auto views = cli::view_sessions(file, "boot-1");
    CHECK(views[0].live);
    CHECK(std::string(views[0].state()) == "running");
    CHECK_FALSE(views[1].live);
    CHECK(std::string(views[1].state()) == "stale");
    CHECK(views[2].live);
    CHECK(std::string(views[2].state()) == "warm");
    for (const auto& view : cli::view_sessions(file, "boot-2")) {
        CHECK_FALSE(view.live);
    }
}

TEST_CASE("JSON has the entry's keys and then live and state") {
    const SessionEntry entry = own_entry();
    const auto value = cli::SessionView{entry, true}.to_value();
    const auto& members = *value.object();
    REQUIRE(members.size() == entry.to_value().object()->size() + 2);
    CHECK(members[members.size() - 2].first == "live");
    CHECK(members.back().first == "state");
    CHECK(*value.find("run")->string() == "r0123456789ab");
}

TEST_CASE("text names the seat with its thread") {
    const std::string text = cli::table_of({{own_entry(), false}});
    CHECK(text.find("INSTANCE") == 0);
    CHECK(text.find("\ncoder/t1  r0123456789ab  stale") != std::string::npos);
}
