// Goal: the list of what a session sees is complete, minimal and in an order that works wherever
// the paths lie; and the command line made of it holds exactly that. Method: tables and whole
// snapshots.

#include "sandbox/binds.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using mosaic::sandbox::Bind;
using mosaic::sandbox::BindKind;
using mosaic::sandbox::binds;
using mosaic::sandbox::bwrap_argv;
using mosaic::sandbox::BwrapOptions;
using mosaic::sandbox::Entry;
using mosaic::sandbox::EntryKind;
using mosaic::sandbox::in_mount_order;
using mosaic::sandbox::Layout;
using mosaic::sandbox::lies_in;
using mosaic::sandbox::SandboxSpec;
using mosaic::sandbox::tidy_path;

namespace {

Layout merged_layout() {
    Layout layout;
    layout.entries = {Entry{"/usr", EntryKind::directory, ""},
                      Entry{"/etc", EntryKind::directory, ""},
                      Entry{"/bin", EntryKind::link, "usr/bin"},
                      Entry{"/lib", EntryKind::link, "usr/lib"},
                      Entry{"/lib32", EntryKind::absent, ""},
                      Entry{"/lib64", EntryKind::link, "usr/lib64"}};
    return layout;
}

SandboxSpec plain_spec() {
    SandboxSpec spec;
    spec.layout = merged_layout();
    spec.run_dir = "/data/launches/acme/r0123456789ab";
    spec.stage_dir = "/data/bus-host/stage/aa";
    spec.workspace = "/srv/acme/coder";
    spec.bus_socket = "/data/bus-host/bus.sock";
    return spec;
}

Bind read_only_at(const std::string& path) {
    return Bind{.kind = BindKind::read_only, .source = path, .dest = path, .reason = "test"};
}

std::vector<std::string> dests(const std::vector<Bind>& list) {
    std::vector<std::string> out;
    for (const Bind& bind : list) {
        const char* mark = bind.kind == BindKind::remount_read_only ? "ro " : "";
        out.push_back(mark + bind.dest);
    }
    return out;
}

std::string joined(const std::vector<std::string>& words) {
    std::string out;
    for (const std::string& word : words) {
        out += out.empty() ? word : " " + word;
    }
    return out;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("paths are compared by whole segments") {
    CHECK(tidy_path("/a//b/./c/") == "/a/b/c");
    CHECK(tidy_path("/") == "/");
    CHECK(tidy_path("//") == "/");
    CHECK(tidy_path("/a/..") == "/a/..");
    CHECK(lies_in("/a/b", "/a"));
    CHECK(lies_in("/a", "/a"));
    CHECK(lies_in("/a", "/"));
    CHECK_FALSE(lies_in("/ab", "/a"));
    CHECK_FALSE(lies_in("/a", "/a/b"));
}

TEST_CASE("a session's whole command line") {
    BwrapOptions options;
    options.directory = "/data/launches/acme/r0123456789ab";
    const SandboxSpec spec = plain_spec();
    const std::vector<std::string> argv =
        bwrap_argv(options, binds(spec), mosaic::sandbox::runner_command(spec.run_dir));
    CHECK(joined(argv) ==
          "/usr/bin/bwrap --unshare-user --unshare-pid --unshare-ipc --unshare-uts "
          "--unshare-cgroup --as-pid-1 --cap-drop ALL --disable-userns --json-status-fd 3 "
          "--bind /data/launches/acme/r0123456789ab/rw/tmp /tmp "
          "--ro-bind /usr /usr --ro-bind /etc /etc --symlink usr/bin /bin --symlink usr/lib /lib "
          "--symlink usr/lib64 /lib64 --proc /proc --remount-ro /proc --dev /dev "
          "--size 67108864 --perms 1777 --tmpfs /dev/shm "
          "--ro-bind /data/bus-host/stage/aa /run/mosaic "
          "--bind-fd 4 /srv/acme/coder "
          "--ro-bind /data/bus-host/bus.sock /data/bus-host/bus.sock "
          "--ro-bind /data/launches/acme/r0123456789ab /data/launches/acme/r0123456789ab "
          "--bind /data/launches/acme/r0123456789ab/rw /data/launches/acme/r0123456789ab/rw "
          "--remount-ro /dev --remount-ro / "
          "--chdir /data/launches/acme/r0123456789ab "
          "-- /run/mosaic/mosaic-runner /data/launches/acme/r0123456789ab");
}

TEST_CASE("options change the flags they name and no others") {
    BwrapOptions plain;
    plain.directory = "/d";
    const Words base = bwrap_argv(plain, {}, {"/x"});
    const auto added = [&](const BwrapOptions& options) {
        Words out;
        for (const std::string& word : bwrap_argv(options, {}, {"/x"})) {
            if (std::find(base.begin(), base.end(), word) == base.end()) {
                out.push_back(word);
            }
        }
        return out;
    };
    BwrapOptions none = plain;
    none.network_none = true;
    CHECK(added(none) == Words{"--unshare-net"});
    BwrapOptions filtered = plain;
    filtered.seccomp_fd = mosaic::sandbox::kSeccompFd;
    CHECK(added(filtered) == Words{"--seccomp", "5"});
    BwrapOptions gated = plain;
    gated.gate_fd = mosaic::sandbox::kGateFd;
    CHECK(added(gated) == Words{"--args", "6"});
    BwrapOptions nested = plain;
    nested.nested = true;
    CHECK(added(nested) == Words{"--cap-add", "CAP_SYS_RESOURCE", "--cap-add", "CAP_SETPCAP"});
    CHECK(bwrap_argv(nested, {}, {"/x"}).size() == base.size() + 3);
    const std::vector<Bind> proc{Bind{.kind = BindKind::proc, .dest = "/proc"}};
    const size_t whole = bwrap_argv(plain, proc, {"/x"}).size();
    CHECK(bwrap_argv(nested, proc, {"/x"}).size() == whole + 1);
    for (const std::string never : {"--die-with-parent", "--setenv", "--share-net"}) {
        CHECK(std::find(base.begin(), base.end(), never) == base.end());
    }
    for (const std::string& word : base) {
        CHECK_FALSE(word.ends_with("-try"));
    }
}

TEST_CASE("what only some sessions have is there only for them") {
    SandboxSpec spec = plain_spec();
    const size_t plain = binds(spec).size();
    spec.launch_socket = "/data/bus-host/launch.sock";
    spec.thread_store = "/data/threads/acme/coder/t1";
    spec.extra = {read_only_at("/opt/tool")};
    spec.layout.outside = {read_only_at("/run/systemd/resolve/stub-resolv.conf")};
    const std::vector<Bind> list = binds(spec);
    CHECK(list.size() == plain + 4);
    const auto kind_of = [&](const std::string& dest) {
        const auto hit = std::find_if(
            list.begin(), list.end(), [&](const Bind& bind) { return bind.dest == dest; });
        REQUIRE(hit != list.end());
        return hit->kind;
    };
    CHECK(kind_of("/data/bus-host/launch.sock") == BindKind::read_only);
    CHECK(kind_of("/data/threads/acme/coder/t1") == BindKind::read_write);
    CHECK(kind_of("/opt/tool") == BindKind::read_only);
    CHECK(kind_of("/run/systemd/resolve/stub-resolv.conf") == BindKind::read_only);
}

TEST_CASE("every bind says why") {
    SandboxSpec spec = plain_spec();
    spec.launch_socket = "/data/bus-host/launch.sock";
    spec.thread_store = "/data/threads/acme/coder/t1";
    for (const Bind& bind : binds(spec)) {
        CAPTURE(bind.dest);
        CHECK_FALSE(bind.reason.empty());
        CHECK_FALSE(mosaic::sandbox::to_string(bind.kind).empty());
    }
}

TEST_CASE("parents come before what lies in them, /tmp first, remounts last") {
    for (const std::string workspace : {"/tmp/x/ws",
                                        "/srv/acme/coder",
                                        "/w",
                                        "/home/u/src/deep/er/and/deeper",
                                        "/opt/tool/work"}) {
        CAPTURE(workspace);
        SandboxSpec spec = plain_spec();
        spec.workspace = workspace;
        spec.extra = {read_only_at(workspace + "/.git/hooks"),
                      read_only_at("/opt/tool"),
                      Bind{.kind = BindKind::symlink,
                           .source = "/opt/tool",
                           .dest = "/home/u/tool",
                           .reason = "test"}};
        const std::vector<Bind> list = binds(spec);
        CHECK(list.front().dest == "/tmp");
        CHECK(list.back().kind == BindKind::remount_read_only);
        CHECK(list.back().dest == "/");
        for (size_t i = 0; i < list.size(); ++i) {
            for (size_t j = i + 1; j < list.size(); ++j) {
                const bool remount = list[j].kind == BindKind::remount_read_only;
                const bool hides =
                    !remount && list[i].dest != list[j].dest && lies_in(list[i].dest, list[j].dest);
                CHECK_MESSAGE(!hides, list[j].dest << " is mounted over " << list[i].dest);
            }
        }
    }
}

TEST_CASE("equal depth keeps the given order") {
    const std::vector<Bind> list = {
        read_only_at("/c/1"), read_only_at("/b"), read_only_at("/a/1"), read_only_at("/a0")};
    CHECK(dests(in_mount_order(list)) == Words{"/b", "/a0", "/c/1", "/a/1"});
}

TEST_CASE("binds that others already bring are left out") {
    const auto after = [](std::vector<Bind> list) {
        return dests(in_mount_order(std::move(list)));
    };
    const Bind workspace{.kind = BindKind::read_write,
                         .source = "/usr/src/ws",
                         .dest = "/usr/src/ws",
                         .reason = "test"};
    SUBCASE("below a read-only bind of the same place") {
        CHECK(after({read_only_at("/usr"), read_only_at("/usr/share/ca.pem")}) == Words{"/usr"});
    }
    SUBCASE("below one that is itself left out") {
        CHECK(after({read_only_at("/usr"), read_only_at("/usr/a"), read_only_at("/usr/a/b")}) ==
              Words{"/usr"});
    }
    SUBCASE("the same thing twice") {
        CHECK(after({read_only_at("/opt/a"), read_only_at("/opt/a/")}) == Words{"/opt/a"});
    }
    SUBCASE("not below a writable one, which it protects") {
        CHECK(after({read_only_at("/usr"), workspace, read_only_at("/usr/src/ws/.git")}) ==
              Words{"/usr", "/usr/src/ws", "/usr/src/ws/.git"});
    }
    SUBCASE("not a writable one") {
        CHECK(after({read_only_at("/usr"), workspace}) == Words{"/usr", "/usr/src/ws"});
    }
    SUBCASE("not below a bind of another place") {
        Bind stage = read_only_at("/run/mosaic");
        stage.source = "/data/stage";
        CHECK(after({stage, read_only_at("/run/mosaic/x")}) ==
              Words{"/run/mosaic", "/run/mosaic/x"});
    }
    const Bind link{
        .kind = BindKind::symlink, .source = "v2", .dest = "/opt/corp/current", .reason = "test"};
    SUBCASE("a link that a shown directory holds already") {
        for (const BindKind kind :
             {BindKind::read_only, BindKind::read_write, BindKind::read_write_fd}) {
            Bind corp = read_only_at("/opt/corp");
            corp.kind = kind;
            CHECK(after({link, corp}) == Words{"/opt/corp"});
        }
    }
    SUBCASE("not a link in a directory that is another one outside") {
        Bind other = read_only_at("/opt/corp");
        other.source = "/data/corp";
        CHECK(after({link, other}) == Words{"/opt/corp", "/opt/corp/current"});
        CHECK(after({link}) == Words{"/opt/corp/current"});
    }
    SUBCASE("not below one with a similar name") {
        CHECK(after({read_only_at("/usr"), read_only_at("/usrlocal/x")}) ==
              Words{"/usr", "/usrlocal/x"});
    }
}

TEST_CASE("paths of any bytes stand as they are, each an argument of its own") {
    SandboxSpec spec = plain_spec();
    const std::vector<std::string> odd = {"/srv/with space",
                                          "/srv/new\nline",
                                          "/srv/-rf",
                                          "/srv/--ro-bind",
                                          "/srv/\xff\xfe",
                                          "/srv/\"quoted\" 'twice' $x `y`"};
    for (const std::string& path : odd) {
        CAPTURE(path);
        spec.workspace = path;
        spec.extra = {read_only_at(path + "/inner")};
        BwrapOptions options;
        options.directory = spec.run_dir;
        const Words argv = bwrap_argv(options, binds(spec), {"/x"});
        const auto fd = std::find(argv.begin(), argv.end(), "--bind-fd");
        REQUIRE(fd != argv.end());
        CHECK(*(fd + 1) == "4");
        CHECK(*(fd + 2) == path);
        CHECK(std::count(argv.begin(), argv.end(), path + "/inner") == 2);
    }
}

TEST_CASE("a workspace that is shown elsewhere is bound by descriptor all the same") {
    SandboxSpec spec = plain_spec();
    spec.workspace = "/srv/odd\xFFname";
    spec.workspace_inside = "/srv/link";
    const std::vector<Bind> list = binds(spec);
    const auto at = std::find_if(
        list.begin(), list.end(), [](const Bind& bind) { return bind.dest == "/srv/link"; });
    REQUIRE(at != list.end());
    CHECK(at->kind == BindKind::read_write_fd);
    CHECK(at->source == "/srv/odd\xFFname");
    CHECK(at->fd == spec.workspace_fd);
}
