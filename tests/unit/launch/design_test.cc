// Goal: the machines' tables in docs/design.md are the machines'. Method: print the tables from the
// code and look for them in the document.

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "launch/checks.h"
#include "launch/recovery_machine.h"
#include "launch/run_machine.h"

using namespace mosaic::launch;

namespace {

std::string run_table() {
    std::string out;
    for (size_t p = 0; p < kPhases; ++p) {
        const auto phase = static_cast<Phase>(p);
        out += "| " + std::string(to_string(phase)) + " |";
        std::string ignored;
        for (size_t e = 0; e < kEventKinds; ++e) {
            const auto event = static_cast<EventKind>(e);
            const std::string action(action_name(phase, event));
            if (action == "impossible") {
                continue;
            }
            if (action == "ignore") {
                ignored += " " + std::string(to_string(event));
                continue;
            }
            out += " " + std::string(to_string(event)) + " → " + action + ";";
        }
        out += " |" + (ignored.empty() ? std::string(" -") : ignored) + " |\n";
    }
    return out;
}

std::string leftover_table() {
    std::string out;
    for (size_t p = 0; p < kLeftoverPhases; ++p) {
        const auto phase = static_cast<LeftoverPhase>(p);
        out += "| " + std::string(to_string(phase)) + " |";
        for (size_t e = 0; e < kLeftoverEvents; ++e) {
            const auto event = static_cast<LeftoverEvent>(e);
            const std::string action(action_name(phase, event));
            if (action != "impossible") {
                out += " " + std::string(to_string(event)) + " → " + action + ";";
            }
        }
        out += " |\n";
    }
    return out;
}

std::string design() {
    std::ifstream in(MOSAIC_SOURCE_DIR "/docs/design.md");
    std::stringstream out;
    out << in.rdbuf();
    return out.str();
}

}  // namespace

TEST_CASE("docs/design.md prints the run machine's table as it is") {
    const bool same = design().find(run_table()) != std::string::npos;
    CHECK_MESSAGE(same, "docs/design.md must hold:\n" << run_table());
}

TEST_CASE("docs/design.md prints the recovery machine's table as it is") {
    const bool same = design().find(leftover_table()) != std::string::npos;
    CHECK_MESSAGE(same, "docs/design.md must hold:\n" << leftover_table());
}
