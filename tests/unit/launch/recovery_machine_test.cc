// Goal: a leftover is settled exactly once, with its end recorded before its entry goes. Method:
// every combination of facts through every order of events.

#include "launch/recovery_machine.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace mosaic::launch;

namespace {

std::string trace(const LeftoverFacts& facts, const std::vector<LeftoverEvent>& events) {
    constexpr const char* kNames[] = {"kill", "arm", "report", "end", "log", "unrecord", "settle"};
    std::string out;
    const auto add = [&](const LeftoverStep& s) {
        for (const LeftoverEffect effect : s.effects) {
            out += out.empty() ? "" : " ";
            out += kNames[static_cast<size_t>(effect)];
        }
    };
    LeftoverStep s = begin_leftover(facts);
    add(s);
    for (const LeftoverEvent event : events) {
        s = step(s.next, event);
        add(s);
    }
    CHECK(s.next.phase == LeftoverPhase::over);
    return out;
}

}  // namespace

TEST_CASE("each kind of leftover is walked down in order") {
    using E = LeftoverEvent;
    CHECK(trace({true, true, true}, {E::gone, E::ended, E::removed}) ==
          "kill arm end log unrecord settle");
    CHECK(trace({false, true, true}, {E::ended, E::removed}) == "end log unrecord settle");
    CHECK(trace({false, true, false}, {E::ended}) == "end log settle");
    CHECK(trace({true, false, false}, {E::gone}) == "kill arm settle");
    CHECK(trace({true, false, true}, {E::gone, E::removed}) == "kill arm unrecord settle");
    CHECK(trace({false, false, true}, {E::removed}) == "unrecord settle");
    CHECK(trace({false, false, false}, {}) == "settle");
}

TEST_CASE("an end that was recorded before gets no second line") {
    using E = LeftoverEvent;
    CHECK(trace({false, true, true}, {E::ended_before, E::removed}) == "end unrecord settle");
}

TEST_CASE("one that does not die is reported once, killed again, and settled when it is gone") {
    using E = LeftoverEvent;
    CHECK(trace({true, true, true}, {E::deadline, E::deadline, E::gone, E::ended, E::removed}) ==
          "kill arm report kill arm kill arm end log unrecord settle");
}
