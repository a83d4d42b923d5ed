#include "launch/checks.h"

namespace mosaic::launch {
namespace {

std::optional<Refusal> unless(bool holds, Refusal code) {
    return holds ? std::nullopt : std::optional<Refusal>(code);
}

}  // namespace

const std::array<Check, kChecksCount> kChecks = {{
    {"request", [](const CheckFacts& f) { return unless(f.well_formed, Refusal::bad_request); }},
    {"capability",
     [](const CheckFacts& f) { return unless(f.capability_alive, Refusal::unknown_capability); }},
    {"launch block",
     [](const CheckFacts& f) {
         return unless(f.launch_configured, Refusal::launch_not_configured);
     }},
    {"listed", [](const CheckFacts& f) { return unless(f.listed, Refusal::instance_not_listed); }},
    {"seat", [](const CheckFacts& f) { return unless(f.seat_free, Refusal::instance_running); }},
    {"contract",
     [](const CheckFacts& f) { return unless(f.has_contract, Refusal::no_role_contract); }},
    {"route", [](const CheckFacts& f) { return f.route; }},
    {"sandbox", [](const CheckFacts& f) { return f.sandbox; }},
    {"workspace", [](const CheckFacts& f) { return f.workspace; }},
    {"thread", [](const CheckFacts& f) { return unless(f.thread_safe, Refusal::thread_unsafe); }},
    {"model", [](const CheckFacts& f) { return unless(f.model_known, Refusal::unknown_model); }},
    {"capacity", [](const CheckFacts& f) { return unless(f.has_room, Refusal::capacity_full); }},
}};

std::optional<Refusal> first_refusal(const CheckFacts& facts) {
    for (const Check& check : kChecks) {
        if (const auto refusal = check.decide(facts)) {
            return refusal;
        }
    }
    return std::nullopt;
}

}  // namespace mosaic::launch
