#pragma once

#include <optional>
#include <string>

#include "host/data_root.h"
#include "host/mount_table.h"
#include "host/probe.h"
#include "host/run_slot.h"
#include "host/runs.h"
#include "host/settings.h"
#include "host/versions.h"
#include "launch/leftovers.h"

namespace mosaic::host {

// What the checks say to one request.
struct Decision {
    bool ask_again = false;  // when the probe, or a look for a version, is settled
    std::optional<Refusal> refusal;
    std::string reason;
    Plan plan;  // when neither
};

struct AdmissionParts {
    const Settings& settings;
    const DataRoot& root;
    const Runs& runs;
    const launch::Leftovers& leftovers;
    Probe& probe;
    Versions& versions;
    MountTable& mounts;
};

// Checks 2 to 9 of a launch request, in the contract's order, and the plan of a launch that passes
// them. Facts are gathered in the same order and no further than the first that fails; which one
// decides is launch/checks.h's. Makes nothing on disk.
[[nodiscard]] Decision decide(const AdmissionParts& parts, const Ask& ask, bool again);

// The same for a warm seat of the instance, which takes neither its seat nor room. Nobody asks, so
// a refusal is nobody's answer.
[[nodiscard]] Decision decide_warm(const AdmissionParts& parts,
                                   const std::string& instance,
                                   bool again);

}  // namespace mosaic::host
