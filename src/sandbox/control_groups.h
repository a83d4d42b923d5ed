#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

// A control group (cgroup v2) of its own for each run, where a group was delegated to the host, as
// systemd does for a unit with Delegate=yes. Of the group that the host was started in this makes
//
//   <group>/host             the host and its children: a group that hands controllers down to
//                            others may hold no process itself
//   <group>/<run>            the limits of that run; it holds no process
//   <group>/<run>/session    bwrap of that run, from before its exec on, and all that comes of it
//
// and nothing above or beside it is ever touched. A session's namespace of control groups begins at
// "session": what it may mount there (sandbox.nested) and write with its user's rights lies below
// the limits.

namespace mosaic::sandbox {

// The one way to the files of control groups. Paths are absolute. Tests put a directory in their
// place.
class GroupFiles {
  public:
    GroupFiles() = default;
    GroupFiles(const GroupFiles&) = delete;
    GroupFiles& operator=(const GroupFiles&) = delete;
    virtual ~GroupFiles() = default;

    [[nodiscard]] virtual Result<std::string> read(const std::string& path);
    // One write(2) to a file that is there.
    [[nodiscard]] virtual Result<void> write(const std::string& path, std::string_view text);
    [[nodiscard]] virtual Result<UniqueFd> open_directory(const std::string& path);
    [[nodiscard]] virtual bool may_write(const std::string& path);
    // The same but for mounts: one that is read-only here needn't be so elsewhere.
    [[nodiscard]] virtual bool has_right_to_write(const std::string& path);
    // Whether systemd has marked the directory as delegated.
    [[nodiscard]] virtual bool is_marked(const std::string& path);
    // One that is there already is an error whose `sys` is EEXIST.
    [[nodiscard]] virtual Result<void> make(const std::string& path);
    // `sys` is EBUSY while processes or groups are in it.
    [[nodiscard]] virtual Result<void> remove(const std::string& path);
    // Names of the directories in it, sorted; an error when it can't be read.
    [[nodiscard]] virtual Result<std::vector<std::string>> directories(const std::string& path);
    // Names of all else in it, sorted; an error when it can't be read.
    [[nodiscard]] virtual Result<std::vector<std::string>> files(const std::string& path);

    // The same one segment below an open directory, for what no path is short enough for. The one
    // that is opened may be read and written by us afterwards, whatever its mode was.
    [[nodiscard]] virtual Result<UniqueFd> open_below(int directory, const std::string& name);
    [[nodiscard]] virtual Result<void> remove_below(int directory, const std::string& name);
    // The name of some directory in it; empty: there is none. Reads no further than that.
    [[nodiscard]] virtual Result<std::string> any_directory(int directory);
};

// The directory of a process's group. `own` is /proc/PID/cgroup, `mounts` our own mountinfo. Pure.
// Code::missing says why there is none.
[[nodiscard]] Result<std::string> group_directory(std::string_view own, std::string_view mounts);

// A group that a process is in, of one hierarchy.
struct ProcessGroup {
    std::string hierarchy;  // "" is that of version 2; else "memory", "cpu,cpuacct", "name=systemd"
    std::string group;      // as /proc/PID/cgroup calls it
    std::string directory;  // empty: it can't be seen through any mount

    bool operator==(const ProcessGroup&) const = default;
};

// Each group of a process, of either version; arguments as above. Pure.
[[nodiscard]] std::vector<ProcessGroup> process_groups(std::string_view own,
                                                       std::string_view mounts);

// The same of a process by its number.
[[nodiscard]] Result<std::vector<ProcessGroup>> process_groups_of(GroupFiles& files, pid_t process);

// How many groups find_writable looks at.
constexpr size_t kGroupsSeenMax = 4096;

// The first file of a group, or of one below it, that we have the right to write, or the directory
// itself; empty: none. Files that do nobody any harm don't count. An error when a directory can't
// be read or there are more than kGroupsSeenMax. Some system calls for each file: nothing for a
// launch.
[[nodiscard]] Result<std::string> find_writable(GroupFiles& files, const std::string& directory);

// A group that a host may make groups in.
struct Delegation {
    std::string base;     // the directory
    bool inside = false;  // the host is in <base>/host already
    bool memory = false;  // controllers that it may hand down
    bool pids = false;

    bool operator==(const Delegation&) const = default;
};

// Whether the group at `directory`, which holds the process `host`, is that. Changes nothing. The
// error's text is the reason why not: it isn't ours to write, systemd made it and didn't delegate
// it, or others than the host are in it, whom the host won't move.
[[nodiscard]] Result<Delegation> find_delegation(GroupFiles& files,
                                                 const std::string& directory,
                                                 pid_t host);

// The same of a process by its number: all of /proc and the groups that it needs are looked up.
[[nodiscard]] Result<Delegation> find_delegation_of(GroupFiles& files, pid_t host);

struct GroupLimits {
    int64_t memory_bytes = 0;  // of all that the run uses, swap included; 0: no limit
    int64_t processes = 0;     // inside the session; bwrap's own come on top
};

// What a session's group does, or why there is none: for the list of levels.
struct GroupLevel {
    bool on = false;
    std::string reason = "this host looks for none";
    std::string remedy{};

    bool operator==(const GroupLevel&) const = default;
};

// In words. `limits` are what a run gets.
[[nodiscard]] GroupLevel group_level(const Result<Delegation>& delegation,
                                     const GroupLimits& limits);

// How far a removal has got.
enum class Removal {
    gone,
    under_way,  // it has used up its steps; go on soon
    held,       // something is in it still, ask again later
};

// A removal of a group and of those that a session made in it, which goes on where it stopped.
// Holds one descriptor while it is under way.
class GroupWalk {
  public:
    // One step is the removal of one group, or the look into one: a few system calls, however many
    // groups there are and however long their names. Takes what it needs off `steps`.
    [[nodiscard]] Removal go_on(GroupFiles& files, const std::string& group, int& steps);

  private:
    [[nodiscard]] Removal stop(Removal how);

    UniqueFd at_;           // the directory that it is in; none: it begins
    size_t depth_ = 0;      // of that, below the run's group
    bool removed_ = false;  // something of what was there
};

// The groups of one host's runs. Made once; every call but those of a host without groups is a few
// system calls.
class RunGroups {
  public:
    // None: on() is false, and nothing may be made.
    RunGroups();
    // Takes the delegation up: moves the process `host` into <base>/host and hands the controllers
    // down. Where that fails there are none and level() says why; what was begun is undone.
    RunGroups(std::unique_ptr<GroupFiles> files, Result<Delegation> delegation, pid_t host);

    [[nodiscard]] bool on() const { return delegation_.has_value(); }

    [[nodiscard]] GroupLevel level(const GroupLimits& limits) const {
        return group_level(delegation_, limits);
    }

    // Makes the group of a run with its limits set, and the one for its processes below it, whose
    // directory the descriptor is of, for SpawnSpec. On an error no group is left. Only when on().
    [[nodiscard]] Result<UniqueFd> make(const std::string& run, const GroupLimits& limits);
    // SIGKILL to whatever is in it, groups below it included. Nothing where there is no such group.
    void kill(const std::string& run);
    // Removes it, and groups that a session made in it, in at most so many steps, which it takes
    // off `steps`. `walk` is this removal's own, kept from one call to the next.
    [[nodiscard]] Removal remove(const std::string& run, GroupWalk& walk, int& steps);
    // Processes of it that the kernel killed because it had no more memory; 0 when that can't be
    // told.
    [[nodiscard]] int64_t out_of_memory_kills(const std::string& run);
    // The runs that have a group, whoever made it.
    [[nodiscard]] std::vector<std::string> runs();

  private:
    [[nodiscard]] std::string path_of(const std::string& run) const;
    [[nodiscard]] Result<void> set_limits(const std::string& group, const GroupLimits& limits);
    [[nodiscard]] Result<void> take_up(pid_t host);

    std::unique_ptr<GroupFiles> files_;
    Result<Delegation> delegation_;
};

}  // namespace mosaic::sandbox
