#pragma once

#include "harness/route.h"
#include "host/data_root.h"
#include "host/run_slot.h"
#include "host/settings.h"
#include "sandbox/workspace.h"
#include "sandbox/worktree.h"

namespace mosaic::host {

// What a plan is made of. All must outlive the call only.
struct PlanFacts {
    const Settings& settings;
    const DataRoot& root;
    const Seat& seat;
    const std::string& launched_by;  // empty: a warm seat's
    const config::Instance& instance;
    const harness::ChosenRoute& route;
    const std::string& contract;
    const std::string& bwrap_version;
    const std::string& harness_version;  // empty: unknown
    uint64_t mounts = 0;                 // the version of the table of mounts
    bool warm = false;                   // nobody asks for it yet
};

// Fixes everything of one launch: its run id, files, command line and environment. Makes nothing.
[[nodiscard]] Result<Plan> make_plan(const PlanFacts& facts,
                                     sandbox::Workspace workspace,
                                     sandbox::GitFinding git);

}  // namespace mosaic::host
