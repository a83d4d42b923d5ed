// Goal: the first failing check of the contract's order answers, whatever else fails too. Method:
// every check made to fail alone, and every pair at once.

#include "launch/checks.h"

#include <doctest/doctest.h>

#include <vector>

using namespace mosaic;
using launch::CheckFacts;

namespace {

struct Failing {
    Refusal code;
    void (*fail)(CheckFacts& facts);
};

const std::vector<Failing> kOrder = {
    {Refusal::bad_request, [](CheckFacts& f) { f.well_formed = false; }},
    {Refusal::unknown_capability, [](CheckFacts& f) { f.capability_alive = false; }},
    {Refusal::launch_not_configured, [](CheckFacts& f) { f.launch_configured = false; }},
    {Refusal::instance_not_listed, [](CheckFacts& f) { f.listed = false; }},
    {Refusal::instance_running, [](CheckFacts& f) { f.seat_free = false; }},
    {Refusal::no_role_contract, [](CheckFacts& f) { f.has_contract = false; }},
    {Refusal::harness_off, [](CheckFacts& f) { f.route = Refusal::harness_off; }},
    {Refusal::sandbox_unavailable, [](CheckFacts& f) { f.sandbox = Refusal::sandbox_unavailable; }},
    {Refusal::workspace_unsafe, [](CheckFacts& f) { f.workspace = Refusal::workspace_unsafe; }},
    {Refusal::thread_unsafe, [](CheckFacts& f) { f.thread_safe = false; }},
    {Refusal::unknown_model, [](CheckFacts& f) { f.model_known = false; }},
    {Refusal::capacity_full, [](CheckFacts& f) { f.has_room = false; }},
};

}  // namespace

TEST_CASE("a request that fails no check is not refused here") {
    CHECK_FALSE(launch::first_refusal(CheckFacts{}).has_value());
}

TEST_CASE("each check refuses with its own code") {
    REQUIRE(kOrder.size() == launch::kChecks.size());
    for (const Failing& one : kOrder) {
        CheckFacts facts;
        one.fail(facts);
        CHECK(launch::first_refusal(facts) == one.code);
    }
}

TEST_CASE("of every two failing checks the earlier answers") {
    for (size_t i = 0; i < kOrder.size(); ++i) {
        for (size_t k = i + 1; k < kOrder.size(); ++k) {
            CheckFacts facts;
            kOrder[i].fail(facts);
            kOrder[k].fail(facts);
            CAPTURE(i);
            CAPTURE(k);
            CHECK(launch::first_refusal(facts) == kOrder[i].code);
        }
    }
}
