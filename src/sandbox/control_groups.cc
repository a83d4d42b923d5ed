#include "sandbox/control_groups.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "base/assert.h"
#include "base/ids.h"
#include "base/utf8.h"
#include "process/files.h"

namespace mosaic::sandbox {
namespace {

constexpr uint64_t kFileBytesMax = uint64_t{4} * 1024 * 1024;
constexpr const char* kHostGroup = "host";
// What bwrap needs of its run's processes: itself, and the child that becomes the runner before the
// runner's own limit counts it.
constexpr int64_t kProcessesOfBwrap = 8;
// Where its processes are, below the group that limits them.
constexpr const char* kSessionGroup = "session";
// Groups that a session that may nest can make in its own, and how deep. They are the kernel's
// memory, which nobody is charged for.
constexpr int kGroupsMax = 256;
constexpr int kGroupDepthMax = 16;
// Of one getdents64(2): a group has some sixty files among which its groups lie.
constexpr size_t kEntriesBytes = 4096;

std::string_view next_line(std::string_view& text) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
}

std::vector<std::string_view> words_of(std::string_view line) {
    std::vector<std::string_view> out;
    while (!line.empty()) {
        const size_t end = std::min(line.find(' '), line.size());
        if (end > 0) {
            out.push_back(line.substr(0, end));
        }
        line.remove_prefix(std::min(end + 1, line.size()));
    }
    return out;
}

// A path of mountinfo, where blanks and backslashes stand as \ and three octal digits.
std::string unescaped(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        int value = 0;
        if (text[0] == '\\' && text.size() >= 4 &&
            std::from_chars(text.data() + 1, text.data() + 4, value, 8).ptr == text.data() + 4) {
            out += static_cast<char>(value);
            text.remove_prefix(4);
        } else {
            out += text[0];
            text.remove_prefix(1);
        }
    }
    return out;
}

struct GroupsMount {
    std::string root;  // which group is mounted
    std::string at;
    std::string options;  // of the hierarchy: "rw,freezer"; empty for version 2
};

// "36 25 0:32 ROOT AT rw,relatime shared:9 - cgroup2 cgroup2 rw", each mount of either version.
std::vector<GroupsMount> all_mounts(std::string_view mounts) {
    std::vector<GroupsMount> out;
    while (!mounts.empty()) {
        const std::vector<std::string_view> words = words_of(next_line(mounts));
        const auto dash = std::find(words.begin(), words.end(), "-");
        if (words.size() <= 5 || words.end() - dash <= 1) {
            continue;
        }
        const std::string_view type = *(dash + 1);
        if (type == "cgroup2") {
            out.push_back({unescaped(words[3]), unescaped(words[4]), ""});
        } else if (type == "cgroup" && words.end() - dash > 3) {
            out.push_back({unescaped(words[3]), unescaped(words[4]), std::string(*(dash + 3))});
        }
    }
    return out;
}

GroupsMount find_mount(std::string_view mounts) {
    for (GroupsMount& mount : all_mounts(mounts)) {
        if (mount.options.empty()) {
            return std::move(mount);
        }
    }
    return {};
}

// Whether all of "cpu,cpuacct" stand in "rw,cpu,cpuacct".
bool has_all(std::string_view options, std::string_view wanted) {
    const std::string all = "," + std::string(options) + ",";
    while (!wanted.empty()) {
        const size_t end = std::min(wanted.find(','), wanted.size());
        if (all.find("," + std::string(wanted.substr(0, end)) + ",") == std::string::npos) {
            return false;
        }
        wanted.remove_prefix(std::min(end + 1, wanted.size()));
    }
    return true;
}

// Where a mount shows a group; empty: it doesn't. A mount of one group shows what lies below that
// group; "/.." leads out of what we may see.
std::string seen_through(const GroupsMount& mount, std::string_view group) {
    if (mount.root != "/") {
        const bool below = group.starts_with(mount.root) &&
                           (group.size() == mount.root.size() || group[mount.root.size()] == '/');
        if (!below) {
            return "";
        }
        group.remove_prefix(mount.root.size());
    }
    if ((std::string(group) + "/").find("/../") != std::string::npos) {
        return "";
    }
    return group.empty() || group == "/" ? mount.at : mount.at + std::string(group);
}

// Of "0::/path", the line of cgroup2; the others are of the older kind.
std::string_view unified_group(std::string_view own) {
    constexpr std::string_view kUnified = "0::";
    while (!own.empty()) {
        const std::string_view line = next_line(own);
        if (line.starts_with(kUnified)) {
            return line.substr(kUnified.size());
        }
    }
    return {};
}

std::string parent_of(const std::string& path) {
    return path.substr(0, path.rfind('/'));
}

std::string name_of(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

bool has_word(std::string_view text, std::string_view word) {
    const std::string_view line = next_line(text);
    const std::vector<std::string_view> words = words_of(line);
    return std::find(words.begin(), words.end(), word) != words.end();
}

// Units of systemd end so; it undoes what others do to those that it hasn't delegated.
bool is_of_systemd(const std::string& path) {
    const std::string name = name_of(path);
    return name.ends_with(".service") || name.ends_with(".scope") || name.ends_with(".slice");
}

bool is_empty(GroupFiles& files, const std::string& group) {
    const auto processes = files.read(group + "/cgroup.procs");
    return processes && processes->empty();
}

bool holds_only(GroupFiles& files, const std::string& group, pid_t process) {
    const auto processes = files.read(group + "/cgroup.procs");
    return processes && *processes == std::to_string(process) + "\n";
}

std::string limit_text(int64_t value) {
    return value > 0 ? std::to_string(value) : "max";
}

// The directories in a directory, or all else; sorted.
Result<std::vector<std::string>> names_in(const std::string& path, bool directories) {
    DIR* directory = ::opendir(path.c_str());
    if (directory == nullptr) {
        return fail_sys(errno, path);
    }
    std::vector<std::string> out;
    int sys = 0;
    while (true) {
        errno = 0;
        const dirent* entry = ::readdir(directory);
        if (entry == nullptr) {
            sys = errno;
            break;
        }
        std::string name = static_cast<const char*>(entry->d_name);
        if ((entry->d_type == DT_DIR) == directories && name != "." && name != "..") {
            out.push_back(std::move(name));
        }
    }
    ::closedir(directory);
    if (sys != 0) {
        return fail_sys(sys, path);
    }
    std::sort(out.begin(), out.end());
    return out;
}

// As find_writable, of one group alone.
Result<std::string> writable_of(GroupFiles& files, const std::string& directory) {
    MOSAIC_TRY_ASSIGN(const std::vector<std::string> names, files.files(directory));
    for (const std::string& name : names) {
        // Anybody may wait for events, and systemd gives a unit's user its memory.pressure.
        const bool harmless = name == "cgroup.event_control" || name.ends_with(".pressure");
        if (!harmless && files.has_right_to_write(directory + "/" + name)) {
            return directory + "/" + name;
        }
    }
    return files.has_right_to_write(directory) ? directory : std::string();
}

}  // namespace

// ---- files ----

Result<std::string> GroupFiles::read(const std::string& path) {
    return process::read_file(path, kFileBytesMax);
}

Result<void> GroupFiles::write(const std::string& path, std::string_view text) {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file.valid()) {
        return fail_sys(errno, path);
    }
    if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
        return fail_sys(errno, "writing \"" + std::string(text) + "\" to " + path);
    }
    return {};
}

Result<UniqueFd> GroupFiles::open_directory(const std::string& path) {
    UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!directory.valid()) {
        return fail_sys(errno, path);
    }
    return directory;
}

bool GroupFiles::may_write(const std::string& path) {
    return ::access(path.c_str(), W_OK) == 0;
}

bool GroupFiles::has_right_to_write(const std::string& path) {
    // Nobody can tell of a path that is too long, and a session may come by a shorter one.
    return ::access(path.c_str(), W_OK) == 0 || errno == EROFS || errno == ENAMETOOLONG;
}

bool GroupFiles::is_marked(const std::string& path) {
    char value = 0;
    return ::getxattr(path.c_str(), "user.delegate", &value, 1) == 1 && value == '1';
}

Result<void> GroupFiles::make(const std::string& path) {
    if (::mkdir(path.c_str(), 0755) != 0) {
        return fail_sys(errno, path);
    }
    return {};
}

Result<void> GroupFiles::remove(const std::string& path) {
    if (::rmdir(path.c_str()) != 0) {
        return fail_sys(errno, path);
    }
    return {};
}

Result<std::vector<std::string>> GroupFiles::directories(const std::string& path) {
    return names_in(path, true);
}

Result<std::vector<std::string>> GroupFiles::files(const std::string& path) {
    return names_in(path, false);
}

Result<UniqueFd> GroupFiles::open_below(int directory, const std::string& name) {
    // Its user may have taken the rights from itself. No group is a link.
    ignore(::fchmodat(directory, name.c_str(), 0755, 0), "opening it says what is wrong");
    UniqueFd below(
        ::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!below.valid()) {
        return fail_sys(errno, name);
    }
    return below;
}

Result<void> GroupFiles::remove_below(int directory, const std::string& name) {
    if (::unlinkat(directory, name.c_str(), AT_REMOVEDIR) != 0) {
        return fail_sys(errno, name);
    }
    return {};
}

Result<std::string> GroupFiles::any_directory(int directory) {
    if (::lseek(directory, 0, SEEK_SET) != 0) {
        return fail_sys(errno, "lseek");
    }
    alignas(dirent64) std::array<char, kEntriesBytes> buffer{};
    while (true) {
        const ssize_t size = ::getdents64(directory, buffer.data(), buffer.size());
        if (size < 0) {
            return fail_sys(errno, "getdents64");
        }
        if (size == 0) {
            return std::string();
        }
        for (ssize_t at = 0; at < size;) {
            const auto* entry = reinterpret_cast<const dirent64*>(buffer.data() + at);
            const std::string_view name = static_cast<const char*>(entry->d_name);
            if (entry->d_type == DT_DIR && name != "." && name != "..") {
                return std::string(name);
            }
            at += entry->d_reclen;
        }
    }
}

// ---- what is delegated ----

Result<std::string> group_directory(std::string_view own, std::string_view mounts) {
    const GroupsMount mount = find_mount(mounts);
    if (mount.at.empty()) {
        return fail(Code::missing, "control groups (cgroup v2) aren't mounted here");
    }
    std::string_view group = unified_group(own);
    if (group.empty()) {
        return fail(Code::missing, "it is in no control group of version 2");
    }
    std::string directory = seen_through(mount, group);
    if (directory.empty()) {
        return fail(Code::missing, "its control group isn't below " + mount.at);
    }
    return directory;
}

std::vector<ProcessGroup> process_groups(std::string_view own, std::string_view mounts) {
    const std::vector<GroupsMount> all = all_mounts(mounts);
    std::vector<ProcessGroup> out;
    while (!own.empty()) {
        // "4:memory:/path"; a path may have colons.
        const std::string_view line = next_line(own);
        const size_t first = line.find(':');
        const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
        if (second == std::string_view::npos) {
            continue;
        }
        ProcessGroup group;
        group.hierarchy = line.substr(first + 1, second - first - 1);
        group.group = line.substr(second + 1);
        for (const GroupsMount& mount : all) {
            const bool same = group.hierarchy.empty() ? mount.options.empty()
                                                      : !mount.options.empty() &&
                                                            has_all(mount.options, group.hierarchy);
            if (same && group.directory.empty()) {
                group.directory = seen_through(mount, group.group);
            }
        }
        out.push_back(std::move(group));
    }
    return out;
}

Result<std::vector<ProcessGroup>> process_groups_of(GroupFiles& files, pid_t process) {
    MOSAIC_TRY_ASSIGN(const std::string mounts, files.read("/proc/self/mountinfo"));
    MOSAIC_TRY_ASSIGN(const std::string own,
                      files.read("/proc/" + std::to_string(process) + "/cgroup"));
    return process_groups(own, mounts);
}

Result<std::string> find_writable(GroupFiles& files, const std::string& directory) {
    std::vector<std::string> groups = {directory};  // not looked at yet; the last is next
    size_t known = 1;
    while (!groups.empty()) {
        const std::string group = std::move(groups.back());
        groups.pop_back();
        auto writable = writable_of(files, group);
        if (writable && !writable->empty()) {
            return writable;
        }
        const auto below =
            writable.and_then([&](const std::string&) { return files.directories(group); });
        if (!below) {
            // One below may go meanwhile.
            if (below.error().sys == ENOENT && group != directory) {
                continue;
            }
            return tl::unexpected(below.error());
        }
        known += below->size();
        if (known > kGroupsSeenMax) {
            return fail(Code::unsafe,
                        "there are more than " + std::to_string(kGroupsSeenMax) +
                            " groups with those below it");
        }
        for (auto name = below->rbegin(); name != below->rend(); ++name) {
            groups.push_back(group + "/" + *name);
        }
    }
    return std::string();
}

Result<Delegation> find_delegation(GroupFiles& files, const std::string& directory, pid_t host) {
    Delegation out;
    out.base = directory;
    // Where a host that was here before left us, or whoever made both groups put us.
    const std::string parent = parent_of(directory);
    if (name_of(directory) == kHostGroup && is_empty(files, parent) &&
        files.may_write(parent + "/cgroup.subtree_control")) {
        out.base = parent;
        out.inside = true;
    }
    const std::string group = "its control group " + escape_path(out.base);
    for (const char* name : {"", "/cgroup.procs", "/cgroup.subtree_control"}) {
        if (!files.may_write(out.base + name)) {
            return fail(Code::unsafe, group + " isn't delegated to its user");
        }
    }
    if (is_of_systemd(out.base) && !files.is_marked(out.base)) {
        return fail(Code::unsafe, group + " is a unit of systemd without Delegate=yes");
    }
    if (!out.inside && !holds_only(files, directory, host)) {
        return fail(Code::held, group + " holds other processes than the host");
    }
    const auto controllers = files.read(out.base + "/cgroup.controllers");
    out.memory = controllers && has_word(*controllers, "memory");
    out.pids = controllers && has_word(*controllers, "pids");
    return out;
}

Result<Delegation> find_delegation_of(GroupFiles& files, pid_t host) {
    MOSAIC_TRY_ASSIGN(const std::string mounts, files.read("/proc/self/mountinfo"));
    MOSAIC_TRY_ASSIGN(const std::string own,
                      files.read("/proc/" + std::to_string(host) + "/cgroup"));
    MOSAIC_TRY_ASSIGN(const std::string directory, group_directory(own, mounts));
    return find_delegation(files, directory, host);
}

GroupLevel group_level(const Result<Delegation>& delegation, const GroupLimits& limits) {
    const std::string remedy =
        "run the host as a unit with Delegate=yes (mosaic service install writes one)";
    if (!delegation) {
        return {false,
                "runs have no control group of their own, so that memory is bounded by the host's "
                "group alone: " +
                    delegation.error().text,
                remedy};
    }
    std::string text;
    if (delegation->memory && limits.memory_bytes > 0) {
        text = "at most " + std::to_string(limits.memory_bytes) + " bytes of memory";
    }
    if (delegation->pids) {
        text += (text.empty() ? "at most " : " and ") +
                std::to_string(limits.processes + kProcessesOfBwrap) + " processes";
    }
    if (text.empty()) {
        text = "no limit";
    }
    const std::string what = "a control group for each run: " + text;
    if (!delegation->memory) {
        return {false,
                what +
                    "; the memory controller isn't delegated, so that memory is bounded by the "
                    "host's group alone",
                "delegate the memory controller to the host's unit"};
    }
    if (limits.memory_bytes == 0) {
        return {false, what + "; limits.memoryBytes is 0", ""};
    }
    return {true, what, ""};
}

// ---- a removal ----

Removal GroupWalk::stop(Removal how) {
    at_.reset();
    depth_ = 0;
    removed_ = false;
    return how;
}

// Depth first. Groups can't be moved, so that ".." is where it came from.
Removal GroupWalk::go_on(GroupFiles& files, const std::string& group, int& steps) {
    if (!at_.valid()) {
        auto top = files.open_directory(group);
        if (!top) {
            return stop(top.error().sys == ENOENT ? Removal::gone : Removal::held);
        }
        at_ = std::move(*top);
    }
    while (steps > 0) {
        --steps;
        const auto below = files.any_directory(at_.get());
        if (!below) {
            return stop(Removal::held);
        }
        if (below->empty() && depth_ == 0) {
            const auto removed = files.remove(group);
            return stop(removed || removed.error().sys == ENOENT ? Removal::gone : Removal::held);
        }
        // It was busy, and not for groups in it.
        if (below->empty() && !removed_) {
            return stop(Removal::held);
        }
        const std::string next = below->empty() ? ".." : *below;
        if (!below->empty()) {
            const auto removed = files.remove_below(at_.get(), next);
            if (removed || removed.error().sys == ENOENT) {
                removed_ = true;
                continue;
            }
        }
        auto to = files.open_below(at_.get(), next);
        if (!to) {
            return stop(Removal::held);
        }
        at_ = std::move(*to);
        removed_ = false;
        depth_ = below->empty() ? depth_ - 1 : depth_ + 1;
    }
    return Removal::under_way;
}

// ---- the groups of a host ----

RunGroups::RunGroups() : delegation_(fail(Code::missing, "none was looked for")) {}

RunGroups::RunGroups(std::unique_ptr<GroupFiles> files, Result<Delegation> delegation, pid_t host)
    : files_(std::move(files)), delegation_(std::move(delegation)) {
    if (!delegation_) {
        return;
    }
    if (auto taken = take_up(host); !taken) {
        delegation_ = tl::unexpected<Error>(std::move(taken.error()));
    }
}

Result<void> RunGroups::take_up(pid_t host) {
    const std::string& base = delegation_->base;
    const std::string own = base + "/" + kHostGroup;
    if (!delegation_->inside) {
        if (auto made = files_->make(own); !made && made.error().sys != EEXIST) {
            return made;
        }
        MOSAIC_TRY(files_->write(own + "/cgroup.procs", std::to_string(host)));
    }
    std::string controllers = delegation_->memory ? "+memory" : "";
    if (delegation_->pids) {
        controllers += controllers.empty() ? "+pids" : " +pids";
    }
    if (controllers.empty()) {
        return {};
    }
    auto handed = files_->write(base + "/cgroup.subtree_control", controllers);
    if (!handed && !delegation_->inside) {
        ignore(files_->write(base + "/cgroup.procs", std::to_string(host)), "as it was");
        ignore(files_->remove(own), "as it was");
    }
    return handed;
}

std::string RunGroups::path_of(const std::string& run) const {
    MOSAIC_ASSERT(is_run_id(run));
    return delegation_->base + "/" + run;
}

Result<void> RunGroups::set_limits(const std::string& group, const GroupLimits& limits) {
    if (delegation_->memory) {
        MOSAIC_TRY(files_->write(group + "/memory.max", limit_text(limits.memory_bytes)));
        // Else a run could put as much again there, and the machine to swapping. Kernels that don't
        // count swap have no such file.
        if (limits.memory_bytes > 0) {
            auto no_swap = files_->write(group + "/memory.swap.max", "0");
            if (!no_swap && no_swap.error().sys != ENOENT) {
                return no_swap;
            }
        }
    }
    if (delegation_->pids) {
        MOSAIC_TRY(files_->write(group + "/pids.max",
                                 std::to_string(limits.processes + kProcessesOfBwrap)));
    }
    // Each counts the session's own group too.
    MOSAIC_TRY(files_->write(group + "/cgroup.max.descendants", std::to_string(kGroupsMax + 1)));
    MOSAIC_TRY(files_->write(group + "/cgroup.max.depth", std::to_string(kGroupDepthMax + 1)));
    return {};
}

Result<UniqueFd> RunGroups::make(const std::string& run, const GroupLimits& limits) {
    const std::string group = path_of(run);
    MOSAIC_TRY(files_->make(group));
    const std::string session = group + "/" + kSessionGroup;
    auto directory = [&]() -> Result<UniqueFd> {
        MOSAIC_TRY(set_limits(group, limits));
        MOSAIC_TRY(files_->make(session));
        return files_->open_directory(session);
    }();
    if (!directory) {
        ignore(files_->remove(session), "the error says what failed");
        ignore(files_->remove(group), "the error says what failed");
    }
    return directory;
}

void RunGroups::kill(const std::string& run) {
    if (on()) {
        ignore(files_->write(path_of(run) + "/cgroup.kill", "1"),
               "an addition: its processes were killed one by one");
    }
}

Removal RunGroups::remove(const std::string& run, GroupWalk& walk, int& steps) {
    return on() ? walk.go_on(*files_, path_of(run), steps) : Removal::gone;
}

int64_t RunGroups::out_of_memory_kills(const std::string& run) {
    if (!on()) {
        return 0;
    }
    const auto events = files_->read(path_of(run) + "/memory.events");
    std::string_view rest = events ? std::string_view(*events) : std::string_view();
    constexpr std::string_view kKills = "oom_kill ";
    while (!rest.empty()) {
        const std::string_view line = next_line(rest);
        int64_t count = 0;
        if (line.starts_with(kKills) &&
            std::from_chars(line.data() + kKills.size(), line.data() + line.size(), count).ec ==
                std::errc()) {
            return count;
        }
    }
    return 0;
}

std::vector<std::string> RunGroups::runs() {
    std::vector<std::string> out;
    if (on()) {
        out = files_->directories(delegation_->base).value_or(std::vector<std::string>());
        std::erase_if(out, [](const std::string& name) { return !is_run_id(name); });
    }
    return out;
}

}  // namespace mosaic::sandbox
