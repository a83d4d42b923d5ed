// Goal: a session can do what it must and nothing else, and each row of the probe table would
// notice if that changed. Method: a shell in the runner's place inside real bubblewrap, built by
// the very functions that build a launch; then the same with one thing wrong on purpose, where
// exactly the rows that are about it must differ.

#include "probe_table.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sandbox/binds.h"
#include "sandbox/layout.h"
#include "sandbox/seccomp.h"
#include "sandbox/workspace.h"
#include "session.h"

using mosaic::UniqueFd;
using mosaic::sandbox::Bind;
using mosaic::sandbox::BindKind;
using mosaic::sandbox::binds;
using mosaic::sandbox::bwrap_argv;
using mosaic::sandbox::BwrapOptions;
using mosaic::sandbox::kSeccompFd;
using mosaic::sandbox::open_program;
using mosaic::sandbox::open_workspace;
using mosaic::sandbox::program_file;
using mosaic::sandbox::SandboxSpec;
using mosaic::sandbox::seccomp_program;
using mosaic::sandbox::SeccompFilter;
using mosaic::sandbox::session_filter;
using mosaic::test::Probe;
using mosaic::test::probe_answers;
using mosaic::test::probe_script;
using mosaic::test::probe_table;
using mosaic::test::ProbePlaces;
using mosaic::test::sandbox_works;
using mosaic::test::Session;
using mosaic::test::shell_word;
using mosaic::test::Start;
using mosaic::test::World;
using mosaic::test::WorldNames;

namespace {

using Words = std::vector<std::string>;

// Everything of one start that a test may spoil.
struct Plan {
    SandboxSpec spec;
    std::vector<Bind> binds;
    BwrapOptions options;
    SeccompFilter filter = session_filter(false);
    Words dropped_flags;
    bool stray_fd = false;
    bool new_keyring = true;
};

Plan plan_of(const World& world) {
    Plan plan;
    plan.spec = world.spec();
    plan.binds = binds(plan.spec);
    plan.options.directory = plan.spec.run_dir;
    plan.options.seccomp_fd = kSeccompFd;
    return plan;
}

UniqueFd filter_of(const SeccompFilter& filter) {
    const auto program = seccomp_program(filter);
    REQUIRE(program.has_value());
    const auto file = program_file(*program);
    REQUIRE(file.has_value());
    auto opened = open_program(file->get());
    REQUIRE(opened.has_value());
    return std::move(*opened);
}

// Runs a script in the runner's place.
std::string run(const World& world, const Plan& plan, const std::string& script) {
    auto workspace = open_workspace(world.configured_workspace(), {});
    REQUIRE(workspace.has_value());
    REQUIRE(workspace->path == world.places().workspace);
    Words argv = bwrap_argv(plan.options, plan.binds, {"/bin/sh", "-c", script});
    for (const std::string& flag : plan.dropped_flags) {
        const auto hit = std::find(argv.begin(), argv.end(), flag);
        REQUIRE(hit != argv.end());
        argv.erase(hit);
    }
    const UniqueFd filter = filter_of(plan.filter);
    const UniqueFd stray(::open("/etc/hostname", O_RDONLY | O_CLOEXEC));
    Start start{.argv = argv,
                .environment = world.environment(),
                .workspace_fd = workspace->fd.get(),
                .new_keyring = plan.new_keyring};
    start.more = {{filter.get(), kSeccompFd}};
    if (plan.stray_fd) {
        start.more.emplace_back(stray.get(), 7);
    }
    Session session(start);
    session.finish();
    CHECK_MESSAGE(session.errors() == "", session.errors());
    CHECK(session.status().child_pid().has_value());
    return session.output();
}

// The names of the probes whose output isn't what the table says.
std::set<std::string> failing(const World& world, const Plan& plan, bool report) {
    const std::vector<Probe> table = probe_table(world.places());
    const auto answers = probe_answers(run(world, plan, probe_script(table)), table);
    std::set<std::string> out;
    for (const Probe& probe : table) {
        const auto answer = answers.find(probe.name);
        const std::string got = answer == answers.end() ? "(no answer)" : answer->second;
        if (got != probe.expected) {
            out.insert(probe.name);
            if (report) {
                MESSAGE(probe.name << ": expected \"" << probe.expected << "\", got \"" << got
                                   << "\"");
            }
        }
    }
    return out;
}

void check_whole_table(const WorldNames& names) {
    const World world(names);
    CHECK(failing(world, plan_of(world), true).empty());
}

Bind& at(Plan& plan, const std::string& dest) {
    const auto hit = std::find_if(plan.binds.begin(), plan.binds.end(), [&](const Bind& bind) {
        return bind.dest == dest && bind.kind != BindKind::remount_read_only;
    });
    REQUIRE(hit != plan.binds.end());
    return *hit;
}

void remove(Plan& plan, const std::string& dest, bool remount) {
    const size_t before = plan.binds.size();
    plan.binds.erase(std::remove_if(plan.binds.begin(),
                                    plan.binds.end(),
                                    [&](const Bind& bind) {
                                        return bind.dest == dest &&
                                               (bind.kind == BindKind::remount_read_only) ==
                                                   remount;
                                    }),
                     plan.binds.end());
    REQUIRE(plan.binds.size() == before - 1);
}

// Takes the rules of one group out of the filter.
void drop(Plan& plan, std::string_view group) {
    auto& rules = plan.filter.rules;
    const size_t before = rules.size();
    rules.erase(
        std::remove_if(rules.begin(), rules.end(), [&](const auto& r) { return r.group == group; }),
        rules.end());
    REQUIRE(rules.size() < before);
}

// Makes a filter compare ioctl numbers by all their bits.
void compare_whole(Plan& plan) {
    for (auto& rule : plan.filter.rules) {
        if (rule.group == "typing into terminals") {
            rule.conditions.at(0).mask = ~uint64_t{0};
        }
    }
}

void add(Plan& plan, BindKind kind, const std::string& path) {
    plan.binds.push_back(Bind{.kind = kind, .source = path, .dest = path, .reason = "a mistake"});
    plan.binds = mosaic::sandbox::in_mount_order(plan.binds);
}

struct Mistake {
    std::string name;
    void (*make)(Plan&, const ProbePlaces&);
    std::set<std::string> noticed_by;
};

}  // namespace

TEST_CASE("the table has at least 80 rows, each named once") {
    std::set<std::string> names;
    const std::vector<Probe> table = probe_table(ProbePlaces{});
    for (const Probe& probe : table) {
        names.insert(probe.name);
    }
    CHECK(names.size() == table.size());
    CHECK(table.size() >= 80);
}

TEST_CASE("a session may what it must and nothing else") {
    if (!sandbox_works()) {
        return;
    }
    SUBCASE("with plain names") {
        check_whole_table({});
    }
    SUBCASE("with odd names") {
        check_whole_table({.parent = "-with space, new\nline, \xc3\xa9, 'quotes' \"and\" $more",
                           .workspace = "--ro-bind"});
    }
    SUBCASE("with a workspace in the host's /tmp") {
        check_whole_table({.workspace_in_tmp = true});
    }
    SUBCASE("with a workspace that is configured through a link") {
        check_whole_table({.workspace_by_link = true});
    }
    SUBCASE("with a workspace in /tmp of an odd name behind a link") {
        check_whole_table(
            {.workspace = "a b/\n/-x", .workspace_in_tmp = true, .workspace_by_link = true});
    }
    SUBCASE("when it may launch others") {
        World world;
        ProbePlaces places = world.places();
        places.may_launch = true;
        Plan plan = plan_of(world);
        plan.spec.launch_socket = places.data_root + "/bus-host/launch.sock";
        plan.binds = binds(plan.spec);
        const std::vector<Probe> table = probe_table(places);
        const auto answers = probe_answers(run(world, plan, probe_script(table)), table);
        for (const Probe& probe : table) {
            CHECK_MESSAGE(answers.at(probe.name) == probe.expected, probe.name);
        }
    }
}

TEST_CASE("each mistake in a sandbox is noticed by the rows that are about it, and no others") {
    if (!sandbox_works()) {
        return;
    }
    const std::vector<Mistake> mistakes = {
        {"the host's /tmp instead of the run's",
         [](Plan& plan, const ProbePlaces&) { at(plan, "/tmp").source = "/tmp"; },
         {"/tmp is the run's own", "the host's /tmp is hidden"}},
        {"no /tmp",
         [](Plan& plan, const ProbePlaces&) { remove(plan, "/tmp", false); },
         {"/tmp is the run's own", "files move and are linked across directories"}},
        {"the user's home",
         [](Plan& plan, const ProbePlaces& p) { add(plan, BindKind::read_only, p.home); },
         {"the user's ssh keys are hidden",
          "the user's configuration is hidden",
          "the user's harness settings are hidden"}},
        {"the data root",
         [](Plan& plan, const ProbePlaces& p) { add(plan, BindKind::read_only, p.data_root); },
         {"another run is hidden",
          "the record of sessions is hidden",
          "the broker's store is hidden",
          "the human's socket is hidden",
          "launch.sock is there only for who may launch",
          "no sibling of the run directory is listed"}},
        {"another run",
         [](Plan& plan, const ProbePlaces& p) { add(plan, BindKind::read_only, p.other_run); },
         {"another run is hidden", "no sibling of the run directory is listed"}},
        {"another workspace",
         [](Plan& plan, const ProbePlaces& p) {
             add(plan, BindKind::read_write, p.other_workspace);
         },
         {"another workspace is hidden"}},
        {"launch.sock",
         [](Plan& plan, const ProbePlaces& p) {
             add(plan, BindKind::read_only, p.data_root + "/bus-host/launch.sock");
         },
         {"launch.sock is there only for who may launch"}},
        {"no bus.sock",
         [](Plan& plan, const ProbePlaces& p) {
             remove(plan, p.data_root + "/bus-host/bus.sock", false);
         },
         {"bus.sock is there"}},
        {"a writable run directory",
         [](Plan& plan, const ProbePlaces& p) { at(plan, p.run_dir).kind = BindKind::read_write; },
         {"nothing is written beside rw",
          "nothing is added to the bundle",
          "the bundle's prompt can't be changed",
          "session.json can't be changed",
          "the runner's log can't be changed",
          // Two mounts of one file system: what refuses now is the move between them.
          "session.json can't be moved away"}},
        {"a read-only rw",
         [](Plan& plan, const ProbePlaces& p) {
             at(plan, p.run_dir + "/rw").kind = BindKind::read_only;
         },
         {"HOME is the run's own",
          "the run's rw is written",
          // Refused for that reason first.
          "the runner's log can't be linked"}},
        {"no workspace",
         [](Plan& plan, const ProbePlaces& p) { remove(plan, p.workspace, false); },
         {"the workspace is read",
          "the workspace is written",
          "the workspace is at its own path",
          "no file gets the set-user-ID bit, however it is tried",
          // bubblewrap closes the descriptor only when it binds it.
          "descriptors are 0, 1 and 2"}},
        {"a writable runner's tree",
         [](Plan& plan, const ProbePlaces&) {
             at(plan, "/run/mosaic").kind = BindKind::read_write;
         },
         {"nothing is written to the runner's tree", "the runner's program can't be written"}},
        {"a writable /usr",
         [](Plan& plan, const ProbePlaces&) { at(plan, "/usr").kind = BindKind::read_write; },
         {"nothing is written to /usr"}},
        {"a writable /etc",
         [](Plan& plan, const ProbePlaces&) { at(plan, "/etc").kind = BindKind::read_write; },
         {"nothing is written to /etc"}},
        {"a writable root",
         [](Plan& plan, const ProbePlaces&) { remove(plan, "/", true); },
         {"nothing is written to /", "nothing is written beside the mounts"}},
        {"a writable /dev",
         [](Plan& plan, const ProbePlaces&) { remove(plan, "/dev", true); },
         {"nothing is written to /dev"}},
        {"no /dev/shm of its own",
         [](Plan& plan, const ProbePlaces&) { remove(plan, "/dev/shm", false); },
         {"/dev/shm is bounded", "named semaphores work"}},
        {"the host's /dev/shm",
         [](Plan& plan, const ProbePlaces&) {
             Bind& shm = at(plan, "/dev/shm");
             shm.kind = BindKind::read_write;
             shm.source = "/dev/shm";
         },
         {"the host's /dev/shm is hidden", "/dev/shm is bounded"}},
        {"the host's /proc",
         [](Plan& plan, const ProbePlaces&) {
             Bind& proc = at(plan, "/proc");
             proc.kind = BindKind::read_only;
             proc.source = "/proc";
         },
         {"processes of the host are out of sight", "descriptors are 0, 1 and 2"}},
        {"the host's /sys",
         [](Plan& plan, const ProbePlaces&) { add(plan, BindKind::read_only, "/sys"); },
         {"/sys is hidden"}},
        {"the host's System V memory",
         [](Plan& plan, const ProbePlaces&) { plan.dropped_flags = {"--unshare-ipc"}; },
         {"shared memory of the host is out of reach",
          "message queues of the host are out of reach",
          "its namespaces are its own"}},
        {"the host's name",
         [](Plan& plan, const ProbePlaces&) { plan.dropped_flags = {"--unshare-uts"}; },
         {"its namespaces are its own"}},
        {"the host's control groups",
         [](Plan& plan, const ProbePlaces&) { plan.dropped_flags = {"--unshare-cgroup"}; },
         {"its namespaces are its own"}},
        {"user namespaces allowed by bubblewrap and by the filter",
         [](Plan& plan, const ProbePlaces&) {
             plan.options.nested = true;
             drop(plan, "user namespaces");
         },
         {"no user namespace can be made",
          "no call makes a user namespace or enters one",
          // The runner gives up what bwrap leaves it; here it is a shell that has it.
          "it has no capability",
          // Sandboxes inside have to write to /proc.
          "that it goes first when memory runs out can't be changed"}},
        {"user namespaces allowed by the filter alone",
         [](Plan& plan, const ProbePlaces&) { drop(plan, "user namespaces"); },
         {"no call makes a user namespace or enters one"}},
        {"a filter without mounts",
         [](Plan& plan, const ProbePlaces&) { drop(plan, "mounts"); },
         {"no call of mounts is let through"}},
        {"a filter without keyrings",
         [](Plan& plan, const ProbePlaces&) { drop(plan, "keyrings"); },
         {"no call of keyrings is let through", "a key of the host can't be read"}},
        {"the host's keyring",
         [](Plan& plan, const ProbePlaces&) { plan.new_keyring = false; },
         {"the host's keyring isn't inherited"}},
        {"a filter without what reaches into the kernel",
         [](Plan& plan, const ProbePlaces&) { drop(plan, "reaching into the kernel"); },
         {"nothing is loaded into the kernel, and its log not read"}},
        {"a filter without security modules",
         [](Plan& plan, const ProbePlaces&) { drop(plan, "security modules"); },
         {"security modules aren't asked"}},
        {"a filter without io_uring",
         [](Plan& plan, const ProbePlaces&) { drop(plan, "io_uring"); },
         {"there is no io_uring"}},
        {"a filter for one ABI only",
         [](Plan& plan, const ProbePlaces&) { plan.filter.foreign_refused = false; },
         {"there is no other ABI"}},
        {"a filter without terminals",
         [](Plan& plan, const ProbePlaces&) { drop(plan, "typing into terminals"); },
         {"nothing is typed into a terminal"}},
        {"a filter that compares ioctl numbers whole",
         [](Plan& plan, const ProbePlaces&) { compare_whole(plan); },
         {"nothing is typed into a terminal"}},
        {"a filter without the set-user-ID bit",
         [](Plan& plan, const ProbePlaces&) { drop(plan, "setuid files"); },
         {"no file gets the set-user-ID bit, however it is tried"}},
        {"a filter without sockets of the whole machine",
         [](Plan& plan, const ProbePlaces&) { drop(plan, "sockets of the whole machine"); },
         {"sockets of the whole machine can't be made"}},
        {"a filter without leases",
         [](Plan& plan, const ProbePlaces&) { drop(plan, "leases"); },
         {"nobody is kept waiting for a file"}},
        {"a filter without settings of the runner",
         [](Plan& plan, const ProbePlaces&) { drop(plan, "settings of the runner"); },
         {"the first process's limits and priorities can't be changed"}},
        {"a descriptor of the host",
         [](Plan& plan, const ProbePlaces&) { plan.stray_fd = true; },
         {"descriptors are 0, 1 and 2"}},
    };
    for (const Mistake& mistake : mistakes) {
        CAPTURE(mistake.name);
        const World world;
        Plan plan = plan_of(world);
        mistake.make(plan, world.places());
        const std::set<std::string> noticed = failing(world, plan, false);
        for (const std::string& name : noticed) {
            CHECK_MESSAGE(mistake.noticed_by.contains(name), name << " differs without a reason");
        }
        for (const std::string& name : mistake.noticed_by) {
            CHECK_MESSAGE(noticed.contains(name), name << " doesn't notice");
        }
    }
}

TEST_CASE("the root holds the first segments of the binds and nothing else") {
    if (!sandbox_works()) {
        return;
    }
    const World world;
    const Plan plan = plan_of(world);
    std::set<std::string> expected;
    for (const Bind& bind : plan.binds) {
        if (bind.dest != "/") {
            expected.insert(bind.dest.substr(1, bind.dest.find('/', 1) - 1));
        }
    }
    std::string listing;
    for (const std::string& name : expected) {
        listing += name + "\n";
    }
    CHECK(run(world, plan, "LC_ALL=C ls -A /") == listing);
}

TEST_CASE("a workspace that is swapped between check and start stays the one that was checked") {
    if (!sandbox_works()) {
        return;
    }
    namespace fs = std::filesystem;
    const World world({.workspace_by_link = true});
    const std::string& real = world.places().workspace;
    const std::string link = world.configured_workspace();
    auto workspace = open_workspace(link, {});
    REQUIRE(workspace.has_value());
    const Plan plan = plan_of(world);
    SUBCASE("the link on its way leads elsewhere") {
        const fs::path way = fs::path(link).parent_path();
        fs::remove(way);
        fs::create_directory_symlink(world.places().home + "/.ssh", way);
    }
    SUBCASE("a link to secrets stands in its place") {
        fs::rename(real, real + ".moved");
        fs::create_directory_symlink(world.places().home + "/.ssh", real);
    }
    SUBCASE("another directory stands in its place") {
        fs::rename(real, real + ".moved");
        fs::copy(world.places().home + "/.ssh", real, fs::copy_options::recursive);
    }
    const UniqueFd filter = filter_of(plan.filter);
    Session session(
        {.argv = bwrap_argv(
             plan.options, plan.binds, {"/bin/sh", "-c", "ls -A -- " + shell_word(real)}),
         .environment = world.environment(),
         .workspace_fd = workspace->fd.get(),
         .more = {{filter.get(), kSeccompFd}}});
    session.finish();
    CHECK(session.output() == "mine\n");
    CHECK(session.errors() == "");
}

TEST_CASE("a file behind links is readable at the path that names it, and its neighbours aren't") {
    if (!sandbox_works()) {
        return;
    }
    namespace fs = std::filesystem;
    const World world;
    const std::string corp = world.parent() + "/corp";
    fs::create_directories(corp + "/v2");
    std::ofstream(corp + "/v2/ca.pem") << "certificate\n";
    std::ofstream(corp + "/v2/key.pem") << "key\n";
    fs::permissions(corp + "/v2/ca.pem", fs::perms::all);
    fs::create_symlink("v2", corp + "/current");
    fs::create_symlink(corp + "/current/ca.pem", world.parent() + "/ca.pem");
    Plan plan = plan_of(world);
    auto mounts =
        mosaic::sandbox::mounts_for(plan.spec.layout, world.parent() + "/ca.pem", "certificates");
    REQUIRE(mounts.has_value());
    plan.spec.extra = *mounts;
    plan.binds = binds(plan.spec);
    CHECK(run(world,
              plan,
              std::string(mosaic::test::kProbePreamble) + "cat -- " +
                  shell_word(world.parent() + "/ca.pem") + "\ntry cat -- " +
                  shell_word(corp + "/current/key.pem") + "\nopens " +
                  shell_word(world.parent() + "/ca.pem")) ==
          "certificate\nNo such file or directory\nRead-only file system\n");
}

TEST_CASE("a link in what is bound anyway is no obstacle") {
    if (!sandbox_works()) {
        return;
    }
    namespace fs = std::filesystem;
    const World world;
    const std::string tool = world.parent() + "/tool";
    fs::create_directories(tool + "/v2");
    std::ofstream(tool + "/v2/file") << "of the tool\n";
    fs::create_symlink("v2", tool + "/current");
    fs::create_symlink(tool + "/current/file", world.places().workspace + "/link");
    Plan plan = plan_of(world);
    for (const std::string& path : {tool, world.places().workspace + "/link"}) {
        const auto mounts = mosaic::sandbox::mounts_for(plan.spec.layout, path, "test");
        REQUIRE(mounts.has_value());
        plan.spec.extra.insert(plan.spec.extra.end(), mounts->begin(), mounts->end());
    }
    plan.binds = binds(plan.spec);
    CHECK(run(world, plan, "cat -- " + shell_word(world.places().workspace + "/link")) ==
          "of the tool\n");
}

TEST_CASE("a read-only spot in the workspace can't be written, moved or replaced") {
    if (!sandbox_works()) {
        return;
    }
    namespace fs = std::filesystem;
    const World world;
    const std::string git = world.places().workspace + "/.git";
    fs::create_directories(git + "/hooks");
    fs::permissions(git, fs::perms::all);
    Plan plan = plan_of(world);
    plan.spec.extra = {
        Bind{.kind = BindKind::read_write, .source = git, .dest = git, .reason = "pins it"},
        Bind{.kind = BindKind::read_only,
             .source = git + "/hooks",
             .dest = git + "/hooks",
             .reason = "hooks act on the human"}};
    plan.binds = binds(plan.spec);
    CHECK(run(world,
              plan,
              std::string(mosaic::test::kProbePreamble) + "cd -- " +
                  shell_word(world.places().workspace) +
                  "\ntry touch .git/hooks/x\ntry mv .git away\ntry rmdir .git/hooks\ntry touch "
                  ".git/index") ==
          "Read-only file system\nDevice or resource busy\nDevice or resource busy\nok\n");
}

TEST_CASE("a thread's store is written at its own path") {
    if (!sandbox_works()) {
        return;
    }
    namespace fs = std::filesystem;
    const World world;
    const std::string store = world.places().data_root + "/threads/acme/coder/t1";
    fs::create_directories(store + "/session");
    fs::permissions(store + "/session", fs::perms::all);
    Plan plan = plan_of(world);
    plan.spec.thread_store = store;
    plan.binds = binds(plan.spec);
    CHECK(run(world, plan, "echo kept >" + shell_word(store + "/session/memory")) == "");
    std::string line;
    std::getline(std::ifstream(store + "/session/memory"), line);
    CHECK(line == "kept");
}

TEST_CASE("without network there is loopback and nothing else") {
    if (!sandbox_works()) {
        return;
    }
    const World world;
    Plan plan = plan_of(world);
    plan.options.network_none = true;
    // Flags 0x49 are those of a loopback that is up and running (IFF_UP, IFF_LOOPBACK,
    // IFF_RUNNING).
    CHECK(run(world, plan, "tail -n +3 /proc/net/dev | sed 's/:.*//; s/ //g'") == "lo\n");
    CHECK(run(world, plan, "grep -c 00000000000000000000000000000001 /proc/net/if_inet6") == "1\n");
}
