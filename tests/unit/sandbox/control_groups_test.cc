// Goal: runs get control groups where a host was given a group of its own and nowhere else, with
// their limits set before anything runs in them, and none stays. Method: a directory stands in for
// cgroupfs: a group that is made gets the files that the kernel would give it, one that is removed
// must be empty, and each write is noted. What only the kernel knows: tests/root/groups.sh.

#include "sandbox/control_groups.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "scratch.h"

using namespace mosaic;
using namespace mosaic::sandbox;

namespace {

constexpr const char* kRun = "r0123456789ab";
constexpr const char* kOther = "rba9876543210";
constexpr pid_t kHost = 4711;
constexpr GroupLimits kLimits{.memory_bytes = int64_t{64} << 20, .processes = 100};

constexpr std::array kFiles = {"cgroup.procs",
                               "cgroup.subtree_control",
                               "cgroup.kill",
                               "cgroup.max.depth",
                               "cgroup.max.descendants",
                               "memory.max",
                               "memory.swap.max",
                               "memory.events",
                               "pids.max"};

// What the kernel would do, in a plain directory.
class StandIn : public GroupFiles {
  public:
    explicit StandIn(std::string root) : root_(std::move(root)) {}

    Result<void> write(const std::string& path, std::string_view text) override {
        if (const auto hit = failing_.find(path.substr(root_.size())); hit != failing_.end()) {
            return fail_sys(hit->second, path);
        }
        auto written = GroupFiles::write(path, text);
        if (written) {
            notes.push_back(path.substr(root_.size()) + "=" + std::string(text));
        }
        return written;
    }

    bool is_marked(const std::string& path) override {
        return marked.count(path.substr(root_.size())) > 0;
    }

    Result<void> make(const std::string& path) override {
        auto made = GroupFiles::make(path);
        if (made) {
            notes.push_back("make " + path.substr(root_.size()));
            add_files(path);
        }
        return made;
    }

    Result<void> remove(const std::string& path) override {
        std::error_code none;
        if (!std::filesystem::exists(path, none)) {
            return fail_sys(ENOENT, path);
        }
        if (!text_of(path + "/cgroup.procs").empty() || !directories(path)->empty()) {
            return fail_sys(EBUSY, path);
        }
        std::filesystem::remove_all(path);
        notes.push_back("remove " + path.substr(root_.size()));
        return {};
    }

    Result<void> remove_below(int directory, const std::string& name) override {
        ++steps;
        const UniqueFd group(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!group.valid()) {
            return fail_sys(errno, name);
        }

        struct stat processes {};

        const bool populated =
            ::fstatat(group.get(), "cgroup.procs", &processes, 0) == 0 && processes.st_size > 0;
        const auto below = any_directory(group.get());
        if (populated || !below || !below->empty()) {
            return fail_sys(EBUSY, name);
        }
        for (const char* file : kFiles) {
            ::unlinkat(group.get(), file, 0);
        }
        return GroupFiles::remove_below(directory, name);
    }

    Result<UniqueFd> open_below(int directory, const std::string& name) override {
        ++steps;
        return GroupFiles::open_below(directory, name);
    }

    bool has_right_to_write(const std::string& path) override {
        return ours.count(path.substr(root_.size())) > 0;
    }

    // The files of a group.
    void add_files(const std::string& path) const {
        for (const char* name : kFiles) {
            std::ofstream(path + "/" + name).flush();
        }
        if (!swap) {
            std::filesystem::remove(path + "/memory.swap.max");
        }
    }

    static std::string text_of(const std::string& path) {
        std::ostringstream out;
        out << std::ifstream(path).rdbuf();
        return out.str();
    }

    void fail_at(const std::string& path, int sys) { failing_[path] = sys; }

    std::vector<std::string> notes;
    std::set<std::string> marked;
    std::set<std::string> ours;  // what we have the right to write
    int steps = 0;
    bool swap = true;

  private:
    std::string root_;
    std::map<std::string, int> failing_;
};

// A stand-in with one group "/g" that holds the host alone.
struct Fixture {
    Scratch scratch;
    std::unique_ptr<StandIn> owned = std::make_unique<StandIn>(scratch.path());
    StandIn& files = *owned;
    std::string group = scratch.directory("g");

    explicit Fixture(const std::string& controllers = "cpuset cpu io memory pids") {
        files.add_files(group);
        set("g/cgroup.controllers", controllers + "\n");
        set("g/cgroup.procs", std::to_string(kHost) + "\n");
    }

    void set(const std::string& path, const std::string& text) const {
        std::ofstream(scratch / path) << text;
    }

    [[nodiscard]] std::string get(const std::string& path) const {
        return StandIn::text_of(scratch / path);
    }

    RunGroups groups() {
        auto delegation = find_delegation(files, group, kHost);
        REQUIRE_MESSAGE(delegation.has_value(), (delegation ? "" : delegation.error().text));
        // The kernel takes the host out of its old group as it enters the new one.
        set("g/cgroup.procs", "");
        return RunGroups(std::move(owned), std::move(delegation), kHost);
    }
};

std::string why_not(GroupFiles& files, const std::string& directory) {
    const auto delegation = find_delegation(files, directory, kHost);
    return delegation ? "" : delegation.error().text;
}

// With as many steps as it wants.
bool remove(RunGroups& groups, const std::string& run) {
    GroupWalk walk;
    int steps = 100'000;
    const Removal removal = groups.remove(run, walk, steps);
    CHECK(removal != Removal::under_way);
    return removal == Removal::gone;
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a process's group is found below the mount of cgroup2") {
    const std::string plain =
        "24 30 0:22 / /proc rw,relatime shared:12 - proc proc rw\n"
        "35 25 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    CHECK(*group_directory("0::/user.slice/x\n", plain) == "/sys/fs/cgroup/user.slice/x");
    CHECK(*group_directory("4:memory:/y\n0::/x", plain) == "/sys/fs/cgroup/x");
    CHECK(*group_directory("0::/\n", plain) == "/sys/fs/cgroup");
    // Of a container: one group is mounted, at a path with a blank.
    const std::string part = "1 2 0:30 /box /mnt/c\\040g rw master:1 shared:2 - cgroup2 none rw\n";
    CHECK(*group_directory("0::/box/host\n", part) == "/mnt/c g/host");
    CHECK(*group_directory("0::/box\n", part) == "/mnt/c g");
    for (const auto& [own, mounts] : std::vector<std::pair<std::string, std::string>>{
             {"0::/boxes\n", part},
             {"0::/\n", part},
             {"0::/../other\n", plain},
             {"4:memory:/x\n", plain},
             {"", plain},
             {"0::/x\n", "36 25 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"},
             {"0::/x\n", "- cgroup2\n"},
             {"0::/x\n", ""}}) {
        CAPTURE(own);
        CAPTURE(mounts);
        CHECK_FALSE(group_directory(own, mounts).has_value());
    }
}

TEST_CASE("each group of a process is found, of either version") {
    const std::string mounts =
        "24 30 0:22 / /proc rw - proc proc rw\n"
        "31 25 0:31 / /cg/fr rw - cgroup cgroup rw,freezer\n"
        "32 25 0:32 /other /cg/else rw - cgroup cgroup rw,cpu,cpuacct\n"
        "33 25 0:32 / /cg/c\\040pu ro - cgroup cgroup rw,cpu,cpuacct\n"
        "34 25 0:33 / /cg/sd rw - cgroup cgroup rw,xattr,name=systemd\n"
        "35 25 0:34 /box /cg/two rw - cgroup2 none rw\n";
    const std::string own =
        "9:freezer:/a\n8:cpu,cpuacct:/a:b\n7:name=systemd:/\n6:memory:/m\n5:cpu:/c\nnothing\n"
        "0::/box/x\n";
    CHECK(process_groups(own, mounts) ==
          std::vector<ProcessGroup>{{"freezer", "/a", "/cg/fr/a"},
                                    {"cpu,cpuacct", "/a:b", "/cg/c pu/a:b"},
                                    {"name=systemd", "/", "/cg/sd"},
                                    {"memory", "/m", ""},
                                    {"cpu", "/c", "/cg/c pu/c"},
                                    {"", "/box/x", "/cg/two/x"}});
    CHECK(process_groups("0::/elsewhere\n", mounts) ==
          std::vector<ProcessGroup>{{"", "/elsewhere", ""}});
    CHECK(process_groups("", mounts).empty());
}

TEST_CASE("a group is used only when it is ours alone and systemd doesn't want it back") {
    Fixture f;
    const auto found = find_delegation(f.files, f.group, kHost);
    REQUIRE(found.has_value());
    CHECK(*found == Delegation{f.group, false, true, true});

    SUBCASE("others are in it") {
        f.set("g/cgroup.procs", "4711\n4712\n");
        CHECK(contains(why_not(f.files, f.group), "holds other processes than the host"));
        f.set("g/cgroup.procs", "47\n");
        CHECK(contains(why_not(f.files, f.group), "holds other processes than the host"));
    }
    SUBCASE("it isn't writable") {
        for (const char* name : {"g/cgroup.procs", "g/cgroup.subtree_control", "g"}) {
            CAPTURE(name);
            // Root may write whatever the mode: what isn't there stands for what isn't ours.
            std::filesystem::rename(f.scratch / name, f.scratch / "away");
            CHECK(contains(why_not(f.files, f.group), "isn't delegated to its user"));
            std::filesystem::rename(f.scratch / "away", f.scratch / name);
        }
    }
    SUBCASE("it is a unit's that systemd keeps") {
        for (const std::string unit : {"a.service", "a.scope", "a.slice"}) {
            CAPTURE(unit);
            std::filesystem::rename(f.group, f.scratch / unit);
            CHECK(contains(why_not(f.files, f.scratch / unit), "without Delegate=yes"));
            f.files.marked = {"/" + unit};
            CHECK(why_not(f.files, f.scratch / unit).empty());
            std::filesystem::rename(f.scratch / unit, f.group);
        }
    }
    SUBCASE("controllers are what it says") {
        f.set("g/cgroup.controllers", "cpu pids hugetlb\n");
        CHECK(*find_delegation(f.files, f.group, kHost) == Delegation{f.group, false, false, true});
        f.set("g/cgroup.controllers", "xmemory memoryx\n");
        CHECK(*find_delegation(f.files, f.group, kHost) ==
              Delegation{f.group, false, false, false});
    }
}

TEST_CASE("a host that starts where an earlier one was takes over from it") {
    Fixture f;
    f.set("g/cgroup.procs", "");
    std::filesystem::create_directories(f.scratch / "g/host");
    f.files.add_files(f.scratch / "g/host");
    f.set("g/host/cgroup.procs", "4711\n9\n");
    const auto found = find_delegation(f.files, f.scratch / "g/host", kHost);
    REQUIRE(found.has_value());
    CHECK(*found == Delegation{f.group, true, true, true});
    RunGroups groups(std::move(f.owned), found, kHost);
    CHECK(groups.on());
    CHECK(f.files.notes == std::vector<std::string>{"/g/cgroup.subtree_control=+memory +pids"});
    // Not when others are above: then "host" is just a name.
    f.set("g/cgroup.procs", "1\n");
    CHECK_FALSE(find_delegation(f.files, f.scratch / "g/host", kHost).has_value());
}

TEST_CASE("the host moves down before it hands controllers down") {
    Fixture f;
    RunGroups groups = f.groups();
    CHECK(groups.on());
    CHECK(f.files.notes == std::vector<std::string>{"make /g/host",
                                                    "/g/host/cgroup.procs=4711",
                                                    "/g/cgroup.subtree_control=+memory +pids"});
    CHECK(groups.level(kLimits) ==
          GroupLevel{true,
                     "a control group for each run: at most 67108864 bytes of memory and "
                     "108 processes",
                     ""});
}

TEST_CASE("a host that can't take a group up is back where it was and says why") {
    Fixture f;
    SUBCASE("controllers can't be handed down") {
        f.files.fail_at("/g/cgroup.subtree_control", EBUSY);
        RunGroups groups = f.groups();
        CHECK_FALSE(groups.on());
        CHECK(contains(groups.level(kLimits).reason, "cgroup.subtree_control: "));
        // The stand-in moves nobody.
        CHECK(f.files.notes == std::vector<std::string>{"make /g/host",
                                                        "/g/host/cgroup.procs=4711",
                                                        "/g/cgroup.procs=4711"});
    }
    SUBCASE("it can't be moved") {
        f.files.fail_at("/g/host/cgroup.procs", EACCES);
        RunGroups groups = f.groups();
        CHECK_FALSE(groups.on());
        CHECK(f.get("g/cgroup.subtree_control").empty());
    }
}

TEST_CASE("a run's group has its limits before anything can be in it") {
    Fixture f;
    RunGroups groups = f.groups();
    f.files.notes.clear();
    const auto made = groups.make(kRun, kLimits);
    REQUIRE(made.has_value());
    const std::string group = std::string("/g/") + kRun;
    CHECK(f.files.notes == std::vector<std::string>{"make " + group,
                                                    group + "/memory.max=67108864",
                                                    group + "/memory.swap.max=0",
                                                    group + "/pids.max=108",
                                                    group + "/cgroup.max.descendants=257",
                                                    group + "/cgroup.max.depth=17",
                                                    "make " + group + "/session"});
    // Its processes are below its limits: where their namespace begins they can write.
    const std::string own =
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(made->get()));
    CHECK(own == std::filesystem::canonical(f.scratch / ("g/" + std::string(kRun) + "/session")));
    CHECK(::faccessat(made->get(), "cgroup.procs", W_OK, 0) == 0);
    CHECK((::fcntl(made->get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("what isn't limited isn't claimed to be") {
    const auto made = [](const std::string& controllers, const GroupLimits& limits, bool swap) {
        Fixture f(controllers);
        f.files.swap = swap;
        RunGroups groups = f.groups();
        f.files.notes.clear();
        REQUIRE(groups.make(kRun, limits).has_value());
        std::string notes;
        for (const std::string& note : f.files.notes) {
            const std::string name = note.substr(note.rfind('/') + 1);
            const bool always = name.starts_with("cgroup.max.") || name == "session";
            notes += always ? "" : name + " ";
        }
        const GroupLevel level = groups.level(limits);
        return notes + (level.on ? "on: " : "off: ") +
               level.reason.substr(std::string("a control group for each run: ").size());
    };
    const std::string name = std::string(kRun) + " ";
    CHECK(made("memory pids", {0, 5}, true) ==
          name + "memory.max=max pids.max=13 off: at most 13 processes; limits.memoryBytes is 0");
    CHECK(made("memory", kLimits, false) ==
          name + "memory.max=67108864 on: at most 67108864 bytes of memory");
    CHECK(made("pids", kLimits, true) ==
          name +
              "pids.max=108 off: at most 108 processes; the memory controller isn't delegated, so "
              "that memory is bounded by the host's group alone");
    CHECK(made("cpu", kLimits, true) ==
          name +
              "off: no limit; the memory controller isn't delegated, so that memory is bounded by "
              "the host's group alone");
}

TEST_CASE("a group whose limits can't be set is no group at all") {
    for (const char* file : {"memory.max",
                             "memory.swap.max",
                             "pids.max",
                             "cgroup.max.descendants",
                             "cgroup.max.depth"}) {
        CAPTURE(file);
        Fixture f;
        RunGroups groups = f.groups();
        f.files.fail_at(std::string("/g/") + kRun + "/" + file, EIO);
        const auto procs = groups.make(kRun, kLimits);
        REQUIRE_FALSE(procs.has_value());
        CHECK(contains(procs.error().text, file));
        CHECK(groups.runs().empty());
    }
    Fixture f;
    RunGroups groups = f.groups();
    REQUIRE(groups.make(kRun, kLimits).has_value());
    // A group that is there already is somebody else's.
    CHECK_FALSE(groups.make(kRun, kLimits).has_value());
    CHECK(groups.runs() == std::vector<std::string>{kRun});
}

TEST_CASE("a group is killed whole and goes when it is empty") {
    Fixture f;
    RunGroups groups = f.groups();
    REQUIRE(groups.make(kRun, kLimits).has_value());
    REQUIRE(groups.make(kOther, kLimits).has_value());
    std::filesystem::create_directories(f.scratch / "g/strange");
    CHECK(groups.runs() == std::vector<std::string>{kRun, kOther});
    f.set(std::string("g/") + kRun + "/cgroup.procs", "12\n");
    groups.kill(kRun);
    CHECK(f.get(std::string("g/") + kRun + "/cgroup.kill") == "1");
    CHECK(f.get(std::string("g/") + kOther + "/cgroup.kill").empty());
    CHECK_FALSE(remove(groups, kRun));
    f.set(std::string("g/") + kRun + "/cgroup.procs", "");
    CHECK(remove(groups, kRun));
    CHECK(remove(groups, kRun));  // gone is gone
    groups.kill(kRun);
    CHECK(groups.runs() == std::vector<std::string>{kOther});
    CHECK(std::filesystem::exists(f.scratch / "g/strange"));
    CHECK(std::filesystem::exists(f.scratch / "g/host"));
}

TEST_CASE("groups that a session made in its own go with it") {
    Fixture f;
    RunGroups groups = f.groups();
    REQUIRE(groups.make(kRun, kLimits).has_value());
    const std::string run = std::string("g/") + kRun;
    for (const std::string below : {"/a", "/a/b", "/a/c", "/z"}) {
        std::filesystem::create_directories(f.scratch / (run + below));
        f.files.add_files(f.scratch / (run + below));
    }
    f.set(run + "/a/c/cgroup.procs", "12\n");
    CHECK_FALSE(remove(groups, kRun));
    f.set(run + "/a/c/cgroup.procs", "");
    CHECK(remove(groups, kRun));
    CHECK_FALSE(std::filesystem::exists(f.scratch / run));
    CHECK(std::filesystem::exists(f.scratch / "g/host"));
}

TEST_CASE("a removal takes few steps at a time and few in all, however many groups there are") {
    constexpr int kWide = 300;
    constexpr int kAtOnce = 8;
    Fixture f;
    RunGroups groups = f.groups();
    REQUIRE(groups.make(kRun, kLimits).has_value());
    const std::string session = std::string("g/") + kRun + "/session/";
    for (int i = 0; i < kWide; ++i) {
        // Each has one below it, so that none goes at the first try.
        std::filesystem::create_directories(f.scratch / (session + std::to_string(i) + "/x"));
    }
    GroupWalk walk;
    int calls = 0;
    f.files.steps = 0;
    Removal removal = Removal::under_way;
    while (removal == Removal::under_way && calls < kWide) {
        const int before = f.files.steps;
        int steps = kAtOnce;
        removal = groups.remove(kRun, walk, steps);
        CHECK(steps == (removal == Removal::under_way ? 0 : steps));
        CHECK(f.files.steps - before <= 2 * kAtOnce);
        ++calls;
    }
    CHECK(removal == Removal::gone);
    CHECK(calls > kWide / kAtOnce);
    CHECK(f.files.steps < 8 * kWide);
    CHECK_FALSE(std::filesystem::exists(f.scratch / (std::string("g/") + kRun)));
}

TEST_CASE("groups go whose path is longer than any and whose rights were taken away") {
    Fixture f;
    RunGroups groups = f.groups();
    REQUIRE(groups.make(kRun, kLimits).has_value());
    const std::string name(250, 'd');
    UniqueFd at(::open((f.scratch / (std::string("g/") + kRun + "/session")).c_str(),
                       O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (int i = 0; i < 30; ++i) {
        REQUIRE(::mkdirat(at.get(), name.c_str(), 0755) == 0);
        UniqueFd next(::openat(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        REQUIRE(next.valid());
        REQUIRE(::fchmod(at.get(), 0) == 0);
        at = std::move(next);
    }
    CHECK(remove(groups, kRun));
    CHECK_FALSE(std::filesystem::exists(f.scratch / (std::string("g/") + kRun)));
}

TEST_CASE("kills for want of memory are counted by the kernel's own count") {
    Fixture f;
    RunGroups groups = f.groups();
    REQUIRE(groups.make(kRun, kLimits).has_value());
    const std::string events = std::string("g/") + kRun + "/memory.events";
    CHECK(groups.out_of_memory_kills(kRun) == 0);
    f.set(events, "low 0\nhigh 0\nmax 17\noom 2\noom_kill 1\noom_group_kill 5\n");
    CHECK(groups.out_of_memory_kills(kRun) == 1);
    f.set(events, "oom_group_kill 5\noom_kill\n");
    CHECK(groups.out_of_memory_kills(kRun) == 0);
    CHECK(groups.out_of_memory_kills(kOther) == 0);
}

TEST_CASE("a host without groups does nothing at all") {
    RunGroups none;
    CHECK_FALSE(none.on());
    none.kill(kRun);
    CHECK(remove(none, kRun));
    CHECK(none.runs().empty());
    CHECK(none.out_of_memory_kills(kRun) == 0);
    CHECK_FALSE(none.level(kLimits).on);

    Fixture f;
    RunGroups refused(std::move(f.owned), fail(Code::held, "others are there"), kHost);
    CHECK_FALSE(refused.on());
    CHECK(f.files.notes.empty());
    CHECK(refused.level(kLimits).reason ==
          "runs have no control group of their own, so that memory is bounded by the host's group "
          "alone: others are there");
    CHECK(contains(refused.level(kLimits).remedy, "Delegate=yes"));
}
