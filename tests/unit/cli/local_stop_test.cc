#include "cli/local_stop.h"

#include <doctest/doctest.h>

using mosaic::cli::find_entry;
using mosaic::cli::is_bwrap_of;
using mosaic::cli::is_runner_of;
using mosaic::registry::SessionEntry;
using mosaic::registry::SessionsFile;

namespace {

SessionEntry entry(const std::string& run, const mosaic::Seat& seat, bool warm = false) {
    SessionEntry out;
    out.run = run;
    out.seat = seat;
    out.warm = warm;
    return out;
}

const std::string kRunDir = "/d/launches/acme/r1";

}  // namespace

TEST_CASE("a run id names its entry; an instance names its plain run, a thread its own") {
    const SessionsFile file{"b",
                            {entry("r00000000000a", {"coder", ""}, true),
                             entry("r00000000000b", {"coder", "t1"}),
                             entry("r00000000000c", {"coder", ""})}};
    CHECK(find_entry(file, "r00000000000a", "") == &file.entries[0]);
    CHECK(find_entry(file, "r00000000000b", "") == &file.entries[1]);
    CHECK(find_entry(file, "coder", "t1") == &file.entries[1]);
    CHECK(find_entry(file, "coder", "") == &file.entries[2]);
    CHECK(find_entry(file, "pm", "") == nullptr);
    CHECK(find_entry(file, "r00000000000d", "") == nullptr);
}

TEST_CASE("only the runner with this run directory, or its bubblewrap, is a session runner") {
    CHECK(is_runner_of({"/run/mosaic/mosaic-runner", kRunDir}, kRunDir));
    CHECK(is_runner_of({"mosaic-runner", kRunDir}, kRunDir));
    CHECK(is_runner_of({"/usr/bin/bwrap", "--bind", kRunDir, kRunDir, "--", "x"}, kRunDir));
    CHECK_FALSE(is_runner_of({"mosaic-runner", kRunDir + "2"}, kRunDir));
    CHECK_FALSE(is_runner_of({"mosaic-runner"}, kRunDir));
    CHECK_FALSE(is_runner_of({"mosaic-runner", "tool", kRunDir}, kRunDir));
    CHECK_FALSE(is_runner_of({"tail", "-f", kRunDir}, kRunDir));
    CHECK_FALSE(is_runner_of({"not-mosaic-runner", kRunDir}, kRunDir));
    CHECK_FALSE(is_runner_of({}, kRunDir));
    CHECK_FALSE(is_bwrap_of({"bwrap"}, kRunDir));
    CHECK_FALSE(is_bwrap_of({"bwrap", "--bind", "/other", "/other"}, kRunDir));
    CHECK_FALSE(is_bwrap_of({"mosaic-runner", kRunDir}, kRunDir));
}
