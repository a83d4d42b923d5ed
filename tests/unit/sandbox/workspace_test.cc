// Goal: no directory whose contents act for somebody else ever becomes a workspace, however it is
// spelled, and what was judged is what is bound. Method: tables for the pure part; a scratch tree
// with links for the rest.

#include "sandbox/workspace.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "scratch.h"

using mosaic::Refusal;
using mosaic::sandbox::forbidden_places;
using mosaic::sandbox::open_workspace;
using mosaic::sandbox::Place;
using mosaic::sandbox::PlaceFacts;
using mosaic::sandbox::resolve_places;
using mosaic::sandbox::unsafe_reason;

namespace {

PlaceFacts plain_facts() {
    PlaceFacts facts;
    facts.home = "/home/u";
    facts.config_home = "/home/u/cfg";
    facts.data_roots = {"/var/lib/mosaic/acme"};
    facts.config_dirs = {"/opt/mosaic/etc"};
    facts.config_files = {"/srv/acme/acme.json"};
    facts.roles_dir = "/srv/roles";
    facts.plugin_dirs = {"/srv/plugins"};
    facts.module_dirs = {"/opt/modules/pi"};
    facts.programs = {"/opt/node/bin/node"};
    facts.others = {{"reviewer", "/srv/acme/reviewer", true}};
    return facts;
}

}  // namespace

TEST_CASE("places that a workspace may not be, hold or lie in") {
    const std::vector<Place> places = forbidden_places(plain_facts());
    const std::vector<std::pair<std::string, std::string>> table = {
        {"/", "/ is the root directory /"},
        {"/tmp", "/tmp is the place of the session's own /tmp, /tmp"},
        {"/home", "/home holds the home directory /home/u"},
        {"/home/u", "/home/u is the home directory /home/u"},
        {"/home/u/.ssh", "/home/u/.ssh is secrets of the user, /home/u/.ssh"},
        {"/home/u/.ssh/x", "/home/u/.ssh/x lies in secrets of the user, /home/u/.ssh"},
        {"/home/u/.local",
         "/home/u/.local holds secrets of the user, /home/u/.local/share/keyrings"},
        {"/home/u/.config/x", "/home/u/.config/x lies in secrets of the user, /home/u/.config"},
        {"/home/u/cfg", "/home/u/cfg is the configuration directory /home/u/cfg"},
        {"/usr", "/usr is the system directory /usr"},
        {"/usr/local/src", "/usr/local/src lies in the system directory /usr"},
        {"/etc/x", "/etc/x lies in the system directory /etc"},
        {"/proc/self", "/proc/self lies in the system directory /proc"},
        {"/sys", "/sys is the system directory /sys"},
        {"/dev/shm", "/dev/shm lies in the system directory /dev"},
        {"/run/user/1000", "/run/user/1000 lies in the system directory /run"},
        {"/boot", "/boot is the system directory /boot"},
        {"/nix", "/nix holds the system directory /nix/store"},
        {"/var/lib/mosaic/acme", "/var/lib/mosaic/acme is the data root /var/lib/mosaic/acme"},
        {"/var/lib", "/var/lib holds the data root /var/lib/mosaic/acme"},
        {"/var/lib/mosaic/acme/x",
         "/var/lib/mosaic/acme/x lies in the data root /var/lib/mosaic/acme"},
        {"/opt/mosaic/etc/x",
         "/opt/mosaic/etc/x lies in the configuration directory /opt/mosaic/etc"},
        {"/srv/acme", "/srv/acme holds the configuration file /srv/acme/acme.json"},
        {"/srv/roles/x", "/srv/roles/x lies in the roles directory /srv/roles"},
        {"/srv/plugins", "/srv/plugins is the plugin directory /srv/plugins"},
        {"/opt/modules", "/opt/modules holds the harness module /opt/modules/pi"},
        {"/opt/node/bin", "/opt/node/bin is the program directory /opt/node/bin"},
        {"/opt/node", "/opt/node holds the program directory /opt/node/bin"},
        {"/srv/acme/reviewer",
         "/srv/acme/reviewer is the workspace of reviewer, /srv/acme/reviewer"},
        {"/srv/acme/reviewer/sub",
         "/srv/acme/reviewer/sub lies in the workspace of reviewer, /srv/acme/reviewer"},
        // Fine.
        {"/srv/acme/coder", ""},
        {"/tmp/x/ws", ""},
        {"/home/u/src/project", ""},
        {"/home/user2", ""},
        {"/home/u/.sshx", ""},
        {"/usrx", ""},
        {"/opt/node/lib", ""},
        {"/var/lib/mosaic/other", ""},
        {"/srv/acme/reviewer2", ""},
        {"/nix/other", ""},
    };
    for (const auto& [workspace, expected] : table) {
        CAPTURE(workspace);
        CHECK(unsafe_reason(workspace, places) == expected);
    }
}

TEST_CASE("another instance's workspace is shared only when both say so and it is the very same") {
    for (const bool mine : {false, true}) {
        for (const bool theirs : {false, true}) {
            PlaceFacts facts;
            facts.shared = mine;
            facts.others = {{"reviewer", "/srv/ws", theirs}};
            const std::vector<Place> places = forbidden_places(facts);
            CAPTURE(mine);
            CAPTURE(theirs);
            CHECK((unsafe_reason("/srv/ws", places).empty()) == (mine && theirs));
            CHECK_FALSE(unsafe_reason("/srv", places).empty());
            CHECK_FALSE(unsafe_reason("/srv/ws/sub", places).empty());
        }
    }
}

TEST_CASE("a directory that the layout binds is a system directory") {
    mosaic::sandbox::Layout layout;
    layout.entries = {{"/sysroot/usr", mosaic::sandbox::EntryKind::directory, ""},
                      {"/absent", mosaic::sandbox::EntryKind::absent, ""}};
    PlaceFacts facts;
    facts.layout = &layout;
    const std::vector<Place> places = forbidden_places(facts);
    CHECK_FALSE(unsafe_reason("/sysroot/usr/x", places).empty());
    CHECK(unsafe_reason("/absent", places).empty());
}

TEST_CASE("a good workspace gives its descriptor and real path") {
    const Scratch scratch;
    const std::string real = scratch.directory("real/ws");
    scratch.link("real", "by-link");
    const std::string plain = scratch / "real/ws";
    for (const std::string& configured : {plain,
                                          plain + "/",
                                          scratch / "real//./ws",
                                          scratch / "real/ws/../ws",
                                          scratch / "by-link/ws"}) {
        CAPTURE(configured);
        const auto workspace = open_workspace(configured, {});
        REQUIRE(workspace.has_value());
        CHECK(workspace->path == real);
        CHECK((::fcntl(workspace->fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
        CHECK((::fcntl(workspace->fd.get(), F_GETFL) & O_PATH) != 0);
    }
}

TEST_CASE("names of any characters are good workspaces") {
    const Scratch scratch;
    for (const std::string name : {"with space", "new\nline", "-rf", "x (deleted)"}) {
        CAPTURE(name);
        const auto workspace = open_workspace(scratch.directory(name), {});
        REQUIRE(workspace.has_value());
        CHECK(workspace->path == scratch / name);
    }
}

TEST_CASE("what is no directory is missing, and the reason names it") {
    const Scratch scratch;
    scratch.file("file");
    scratch.link("nothing", "dangling");
    scratch.link("loop", "loop");
    const std::vector<std::pair<std::string, std::string>> table = {
        {scratch / "none", " does not exist (or is a link to nothing)"},
        {scratch / "file", " is not a directory"},
        {scratch / "file/x", " is not a directory"},
        {scratch / "dangling", " does not exist (or is a link to nothing)"},
        {scratch / "loop", ": Too many levels of symbolic links"},
    };
    for (const auto& [path, reason] : table) {
        const auto workspace = open_workspace(path, {});
        REQUIRE_FALSE(workspace.has_value());
        CHECK(workspace.error().code == Refusal::workspace_missing);
        CHECK(workspace.error().reason == path + reason);
    }
    CHECK(open_workspace("relative", {}).error().reason == "\"relative\" is not an absolute path");
}

TEST_CASE("an unsafe directory is refused however its path is spelled, with both paths named") {
    const Scratch scratch;
    scratch.directory("home/u/.ssh");
    scratch.directory("home/u/project");
    scratch.link("home/u", "innocent");
    PlaceFacts facts;
    facts.home = scratch / "home/u";
    const std::vector<Place> places = resolve_places(forbidden_places(facts));
    const std::string home = scratch / "home/u";
    const std::string is_home = home + " is the home directory " + home;
    const std::string to_home = " leads to " + home + ", which is the home directory " + home;
    const std::vector<std::pair<std::string, std::string>> table = {
        {home, is_home},
        {home + "/", is_home},
        {scratch / "innocent", scratch / "innocent" + to_home},
        {scratch / "home/u/project/..", scratch / "home/u/project/.." + to_home},
        {scratch / "innocent/project/..", scratch / "innocent/project/.." + to_home},
    };
    for (const auto& [path, reason] : table) {
        CAPTURE(path);
        const auto workspace = open_workspace(path, places);
        REQUIRE_FALSE(workspace.has_value());
        CHECK(workspace.error().code == Refusal::workspace_unsafe);
        CHECK(workspace.error().reason == reason);
    }
    CHECK(open_workspace(scratch / "innocent/project", places).has_value());
    CHECK_FALSE(open_workspace(scratch / "innocent/.ssh", places).has_value());
    CHECK_FALSE(open_workspace(scratch.path(), places).has_value());
}

TEST_CASE("a workspace is where its real path is unless that isn't UTF-8") {
    const Scratch scratch;
    for (const std::string name : {"a b", "two\nlines", "-rf", "gr\xC3\xBC\xC3\x9F"}) {
        CAPTURE(name);
        scratch.directory(name);
        scratch.link(name, "to " + name);
        for (const std::string& path : {scratch / name, scratch / ("to " + name)}) {
            const auto workspace = open_workspace(path, {});
            REQUIRE(workspace.has_value());
            CHECK(workspace->path == scratch / name);
            CHECK(workspace->inside == scratch / name);
        }
    }
    scratch.directory("odd\xFFname/deeper");
    scratch.link("odd\xFFname", "link");
    const auto by_link = open_workspace(scratch / "link//deeper/.", {});
    REQUIRE(by_link.has_value());
    CHECK(by_link->path == scratch / "odd\xFFname/deeper");
    CHECK(by_link->inside == scratch / "link/deeper");
    const std::string why = scratch /
                            "odd\\xffname/deeper is not UTF-8, which no session can be told: "
                            "name it by a link whose path is, without \"..\"";
    for (const std::string& path :
         {scratch / "odd\xFFname/deeper", scratch / "link/deeper/../deeper"}) {
        const auto refused = open_workspace(path, {});
        REQUIRE_FALSE(refused.has_value());
        CHECK(refused.error().code == Refusal::workspace_unsafe);
        CHECK(refused.error().reason == why);
    }
}

TEST_CASE("a workspace that is shown elsewhere covers nothing that it must keep clear of") {
    const Scratch scratch;
    scratch.directory("odd\xFFname");
    scratch.directory("system");
    scratch.link("../odd\xFFname", "system/ws");
    const std::vector<Place> places =
        resolve_places({Place{.path = scratch / "system", .what = "the system directory"}});
    const auto refused = open_workspace(scratch / "system/ws", places);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == Refusal::workspace_unsafe);
    CHECK(refused.error().reason ==
          scratch / "system/ws lies in the system directory " + scratch.path() + "/system");
}

TEST_CASE("a reason is one line whatever the path holds") {
    const Scratch scratch;
    const std::string odd = "odd\n\x1b[2J\xFF";
    scratch.directory(odd);
    const std::string shown = scratch / "odd\\n\\u001b[2J\\xff";
    const std::vector<Place> places = {Place{.path = scratch / odd, .what = "the data root"}};
    CHECK(open_workspace(scratch / odd, places).error().reason ==
          shown + " is the data root " + shown);
    CHECK(open_workspace(scratch / (odd + "/none"), {}).error().reason ==
          shown + "/none does not exist (or is a link to nothing)");
    CHECK(open_workspace("a\nb", {}).error().reason == "\"a\\nb\" is not an absolute path");
}

TEST_CASE("a place that is a link is guarded at both of its ends") {
    const Scratch scratch;
    scratch.directory("store/data");
    scratch.directory("links");
    scratch.link("../store/data", "links/data");
    PlaceFacts facts;
    facts.data_roots = {scratch / "links/data"};
    const std::vector<Place> places = resolve_places(forbidden_places(facts));
    CHECK_FALSE(unsafe_reason(scratch / "store", places).empty());
    CHECK_FALSE(unsafe_reason(scratch / "store/data/x", places).empty());
    CHECK_FALSE(unsafe_reason(scratch / "links", places).empty());
    CHECK(unsafe_reason(scratch / "other", places).empty());
}

TEST_CASE("every link on the way to a place is guarded") {
    const Scratch scratch;
    scratch.directory("opt/tools/modules");
    scratch.directory("ws/one");
    scratch.link("../../opt/tools", "ws/one/tools");
    scratch.link("ws/one", "alias");
    PlaceFacts facts;
    facts.plugin_dirs = {scratch / "alias/tools/modules"};
    const std::vector<Place> places = resolve_places(forbidden_places(facts));
    CHECK(unsafe_reason(scratch / "ws/one", places) ==
          scratch / "ws/one holds the plugin directory " + scratch.path() + "/ws/one/tools");
    CHECK_FALSE(unsafe_reason(scratch / "opt/tools", places).empty());
    CHECK(unsafe_reason(scratch / "ws/two", places).empty());
}

TEST_CASE(
    "a directory that a place's path leads out of again is guarded from who could replace it") {
    const Scratch scratch;
    scratch.directory("ws/one");
    scratch.directory("modules");
    PlaceFacts facts;
    facts.plugin_dirs = {scratch / "ws/one/../../modules"};
    const std::vector<Place> places = resolve_places(forbidden_places(facts));
    CHECK(unsafe_reason(scratch / "ws", places) ==
          scratch / "ws holds the plugin directory " + scratch.path() + "/ws/one");
    // What it can't replace: itself, and what lies above it.
    CHECK(unsafe_reason(scratch / "ws/one", places).empty());
    CHECK(unsafe_reason(scratch / "ws/one/sub", places).empty());
    // Another's workspace that is named so is refused, and not the one that its name goes through.
    facts.plugin_dirs.clear();
    facts.others = {{"coder", scratch / "ws/one/../../modules", false}};
    CHECK(unsafe_reason(scratch / "ws", resolve_places(forbidden_places(facts))).empty());
}

TEST_CASE("a workspace to which another's session could lead elsewhere is refused") {
    const Scratch scratch;
    scratch.directory("theirs/directory");
    scratch.directory("elsewhere/sub");
    scratch.link("../elsewhere", "theirs/link");
    scratch.link("theirs", "alias");
    scratch.link("alias/link/sub", "by-several");
    scratch.link("elsewhere", "harmless");
    PlaceFacts facts;
    facts.shared = true;
    facts.others = {{"coder", scratch / "alias", true}};
    const std::vector<Place> places = resolve_places(forbidden_places(facts));
    for (const std::string path : {"theirs/link",
                                   "theirs/link/sub",
                                   "alias/link/sub",
                                   "by-several",
                                   "alias/directory/../../elsewhere"}) {
        CAPTURE(path);
        const auto workspace = open_workspace(scratch / path, places);
        REQUIRE_FALSE(workspace.has_value());
        CHECK(workspace.error().code == Refusal::workspace_unsafe);
        CHECK(workspace.error().reason ==
              scratch / path + " leads through the workspace of coder, " + scratch.path() +
                  "/theirs, where a session decides where it ends");
    }
    // What it can't change: its own place, and links beside it.
    for (const std::string path : {"theirs", "alias", "theirs/../elsewhere", "harmless/sub"}) {
        CAPTURE(path);
        CHECK(open_workspace(scratch / path, places).has_value());
    }
}

TEST_CASE("a workspace that its own session could lead elsewhere is refused") {
    const Scratch scratch;
    scratch.directory("ws/sub");
    scratch.link(".", "ws/link");
    scratch.link("ws", "alias");
    for (const std::string path : {"ws/sub/..", "ws/link", "alias/link/.", "alias/sub/../../ws"}) {
        CAPTURE(path);
        const auto workspace = open_workspace(scratch / path, {});
        REQUIRE_FALSE(workspace.has_value());
        CHECK(workspace.error().code == Refusal::workspace_unsafe);
        CHECK(workspace.error().reason ==
              scratch / path + " leads through itself, where a session decides where it ends");
    }
    for (const std::string path : {"ws", "alias", "ws/sub", "ws/../alias", "ws/link/../ws/sub"}) {
        CAPTURE(path);
        CHECK(open_workspace(scratch / path, {}).has_value());
    }
}

TEST_CASE("a workspace that a session makes and takes away while it is looked at is refused") {
    // The session whose workspace is `theirs` has a link to somebody's directory there, and has it
    // not, again and again: what isn't there leads nowhere.
    const Scratch scratch;
    scratch.directory("theirs");
    scratch.directory("private/sub");
    scratch.link("../private", "theirs/aside");
    const std::vector<Place> places = {
        {.path = scratch / "theirs",
         .what = std::string(mosaic::sandbox::kWorkspaceOf) + "coder,"}};
    std::atomic<bool> over = false;
    std::thread switcher([&] {
        while (!over) {
            ::rename((scratch / "theirs/aside").c_str(), (scratch / "theirs/way").c_str());
            ::rename((scratch / "theirs/way").c_str(), (scratch / "theirs/aside").c_str());
        }
    });
    int opened = 0;
    for (int i = 0; i < 20000; ++i) {
        opened += open_workspace(scratch / "theirs/way/sub", places).has_value() ? 1 : 0;
    }
    over = true;
    switcher.join();
    CHECK(opened == 0);
}

TEST_CASE(
    "a place that doesn't exist yet is guarded all the same, below the real path of what does") {
    const Scratch scratch;
    scratch.directory("real-home");
    scratch.link("real-home", "home");
    const std::vector<Place> places =
        resolve_places({Place{.path = scratch / "home/.aws/x", .what = "secrets"}});
    CHECK(unsafe_reason(scratch / "real-home/.aws", places) ==
          scratch / "real-home/.aws holds secrets " + scratch.path() + "/real-home/.aws/x");
}

TEST_CASE("the descriptor stays with the directory that was judged when its path changes") {
    const Scratch scratch;
    scratch.directory("good");
    scratch.directory("secret");
    scratch.link("good", "ws");
    const auto workspace = open_workspace(scratch / "ws", {});
    REQUIRE(workspace.has_value());
    std::filesystem::remove(scratch / "ws");
    scratch.link("secret", "ws");

    struct stat held {};

    struct stat good {};

    REQUIRE(::fstat(workspace->fd.get(), &held) == 0);
    REQUIRE(::stat((scratch / "good").c_str(), &good) == 0);
    CHECK(held.st_ino == good.st_ino);
    CHECK(workspace->path == scratch / "good");
}

TEST_CASE("a directory that is gone isn't taken for one that has the name the kernel gives it") {
    const Scratch scratch;
    const std::string path = scratch.directory("ws");
    const mosaic::UniqueFd held(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(held.valid());
    std::filesystem::remove(path);
    scratch.directory("ws (deleted)");
    const auto workspace = open_workspace("/proc/self/fd/" + std::to_string(held.get()), {});
    REQUIRE_FALSE(workspace.has_value());
    CHECK(workspace.error().code == Refusal::workspace_missing);
    CHECK(workspace.error().reason.ends_with(" was moved or removed while it was looked at"));
}
