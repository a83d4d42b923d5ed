#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "launch/recovery_machine.h"
#include "wire/messages.h"

namespace mosaic::launch {

// What a process looks like from outside.
struct SeenProcess {
    std::string exe;  // without " (deleted)"
    std::vector<std::string> argv;
    // Its number in each PID namespace from ours inwards: one number, it is in ours.
    std::vector<pid_t> numbers{};
};

// Between the point of no return of an execve(2) and its end a process has its new program and no
// arguments yet: what it is can't be told. (A zombie or a kernel thread has no program.)
[[nodiscard]] bool is_being_executed(const SeenProcess& process);

// The run whose process this is by the look of it, empty when it is none of a session's: the
// configured bwrap with a run directory among what it binds, or a runner with one as its argument.
// Where it stands counts as well, for what it looks like is its own to choose: the outer bwrap is
// in our PID namespace, the inner and then the runner number 1 of one right below ours. What a
// session starts is neither. `bwrap` is its real path, `runs_path` the directory of the run
// directories.
[[nodiscard]] std::string run_of(const SeenProcess& process,
                                 const std::string& bwrap,
                                 const std::string& runs_path);

// One leftover of a host that died hard.
struct Leftover {
    LeftoverState state;
    std::string run;
    Seat seat;  // of no instance: only a process is left
    wire::ProcessIdentity process;
    std::string harness;
    std::string provider;  // empty when no entry says so
    std::string model;
    bool warm = false;  // its entry says that nobody had taken it
};

// All of them: who they are by what sessions.json, the broker and /proc say, one machine each.
class Leftovers {
  public:
    // An entry of sessions.json. One that is warm has an end only when the broker holds it.
    void add_entry(Leftover entry);
    // A run that the broker holds as bound. What an entry says of it wins.
    void add_bound(const wire::BoundRun& bound);
    // The leftover of a run, made when nothing named it yet.
    uint32_t of_run(const std::string& run);

    [[nodiscard]] LeftoverStep begin(uint32_t index, bool alive);
    [[nodiscard]] LeftoverStep step(uint32_t index, LeftoverEvent event);

    // Everything is settled, or reported as stuck: launches may begin.
    [[nodiscard]] bool may_launch() const;
    [[nodiscard]] bool over() const;
    // A warm seat that nobody had taken holds neither seat nor room.
    [[nodiscard]] bool is_taken(const Seat& seat) const;
    // Those of this model that aren't over. One of which nobody knows the model counts for all.
    [[nodiscard]] int64_t count(const std::string& provider, const std::string& model) const;
    // Those of any model. Nobody knows on whose account one is, so for an account all count.
    [[nodiscard]] int64_t count() const;
    // The run was found among what is left.
    [[nodiscard]] bool knows(const std::string& run) const;
    // ... and isn't over.
    [[nodiscard]] bool holds(const std::string& run) const;
    // Somebody knew it as a run: the broker, or an entry of one that was more than a warm seat. Of
    // anything else nothing is kept.
    [[nodiscard]] bool was_run(uint32_t index) const;

    [[nodiscard]] const Leftover& operator[](uint32_t index) const { return leftovers_[index]; }

    [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(leftovers_.size()); }

  private:
    std::vector<Leftover> leftovers_;
};

// The event that the broker's answer to endLaunch means. `first`: this end was recorded now;
// `logged`: the launch log has an `end` line of the run. An end that was recorded before has its
// line already, unless the host died between the two.
[[nodiscard]] LeftoverEvent end_event(bool first, bool logged);

// What a broker that was started again while its host lived says it holds, taken apart. `ours` are
// the runs that the host holds as bound, or ends as leftovers.
struct HeldRuns {
    // Claims that an earlier broker may have committed before it could say so.
    std::vector<std::string> claimed;
    // Runs that the host believes were never bound: the commit was answered as failed, and this
    // broker found it in its store all the same. Nobody else would end them, and their seats would
    // stay taken.
    std::vector<wire::EndLaunchArgs> to_end;
};

[[nodiscard]] HeldRuns take_apart(const std::vector<wire::BoundRun>& held,
                                  const std::set<std::string>& ours);

}  // namespace mosaic::launch
