#include "host/failure.h"

#include <doctest/doctest.h>

#include <cerrno>

using namespace mosaic;
using host::failure_text;
using host::RunSlot;

namespace {

std::string text_of(Refusal code, launch::Phase failed_in, const std::string& failure) {
    RunSlot slot;
    slot.state.refusal = code;
    slot.state.failed_in = failed_in;
    slot.failure = failure;
    slot.decision = "d7";
    slot.caller.name = "pm";
    return failure_text(slot, 30'000);
}

}  // namespace

TEST_CASE("a failed launch says its stage and the cause") {
    using launch::Phase;
    CHECK(text_of(Refusal::launch_failed, Phase::spawning, "sandbox: no bwrap") ==
          "spawning: sandbox: no bwrap");
    CHECK(text_of(Refusal::launch_failed, Phase::claiming, "nothing came within its time") ==
          "claiming: nothing came within its time");
    CHECK(text_of(Refusal::storage_unavailable, Phase::preparing, "x: No space left on device") ==
          "preparing: x: No space left on device");
}

TEST_CASE("a launch that was turned away says what a person can do with") {
    using launch::Phase;
    const auto of = [](Refusal code) { return text_of(code, Phase::authorizing, "left over"); };
    CHECK(of(Refusal::busy) == "too many launches are being set up, and this one waited 30000 ms");
    CHECK(of(Refusal::host_stopping) == "the host is stopping");
    CHECK(of(Refusal::broker_unavailable) == "the broker isn't running at the moment");
    CHECK(of(Refusal::launch_revoked) == "launches are revoked");
    CHECK(of(Refusal::decision_required) == "it needs a decision: d7");
    CHECK(of(Refusal::not_authorized) == "pm has no authority for role.launch");
}

TEST_CASE("what the disk refuses is storage-unavailable, the rest a failed launch") {
    for (const int sys : {ENOSPC, EDQUOT, EIO, EROFS, EACCES}) {
        CAPTURE(sys);
        CHECK(host::refusal_of(Error{Code::system, sys, "x"}) == Refusal::storage_unavailable);
    }
    for (const int sys : {0, EEXIST, ELOOP, ENOTDIR, EMFILE}) {
        CAPTURE(sys);
        CHECK(host::refusal_of(Error{Code::system, sys, "x"}) == Refusal::launch_failed);
    }
}
