// The end of runs' control groups, which may come later than theirs.

#include <algorithm>
#include <iterator>
#include <utility>

#include "host/log.h"
#include "host/runs.h"

namespace mosaic::host {
namespace {

// A group is empty when its last process is reaped, which a SIGKILL only begins.
constexpr Duration kGroupAgain = milliseconds(100);
constexpr int kGroupTriesMax = 100;
// What the removals of control groups may do in a turn of the loop, all together, and when a run
// ends; the rest is done in later turns, with time for others between them.
constexpr int kGroupSteps = 32;
constexpr int kGroupStepsAtEnd = 4;
constexpr Duration kGroupGoOn = milliseconds(10);

}  // namespace

void Runs::drop_group(RunSlot& s) {
    if (std::exchange(s.has_group, false)) {
        remove_group(s.run);
    }
}

void Runs::remove_group(const std::string& run) {
    GroupLeft group{.run = run};
    int steps = kGroupStepsAtEnd;
    if (!try_group(group, steps)) {
        groups_left_.push_back(std::move(group));
        arm_group_timer();
    }
}

bool Runs::try_group(GroupLeft& group, int& steps) {
    const sandbox::Removal removal = parts_.groups.remove(group.run, group.walk, steps);
    group.held = removal == sandbox::Removal::held;
    group.due = parts_.loop.now + (group.held ? kGroupAgain : kGroupGoOn);
    if (group.held && ++group.tries > kGroupTriesMax) {
        log_line("the control group of run " + group.run +
                 " can't be removed; the next host tries again");
        return true;
    }
    return removal == sandbox::Removal::gone;
}

void Runs::arm_group_timer() {
    if (groups_left_.empty() || std::exchange(group_timer_, true)) {
        return;
    }
    const auto first = std::min_element(
        groups_left_.begin(), groups_left_.end(), [](const GroupLeft& a, const GroupLeft& b) {
            return a.due < b.due;
        });
    parts_.loop.set_timer(TimerKind::group_retry, 0, 0, first->due - parts_.loop.now);
}

// Those that had their turn go behind those that hadn't.
void Runs::on_group_timer() {
    group_timer_ = false;
    int steps = kGroupSteps;
    std::vector<GroupLeft> tried;
    std::vector<GroupLeft> left = std::exchange(groups_left_, {});
    for (GroupLeft& group : left) {
        if (steps == 0 || group.due > parts_.loop.now) {
            groups_left_.push_back(std::move(group));
            continue;
        }
        if (group.held) {
            parts_.groups.kill(group.run);
        }
        if (!try_group(group, steps)) {
            tried.push_back(std::move(group));
        }
    }
    std::move(tried.begin(), tried.end(), std::back_inserter(groups_left_));
    arm_group_timer();
}

void Runs::sweep_groups(const std::vector<std::string>& runs) {
    for (const std::string& run : parts_.groups.runs()) {
        if (std::find(runs.begin(), runs.end(), run) != runs.end()) {
            parts_.groups.kill(run);
            remove_group(run);
        }
    }
}

}  // namespace mosaic::host
