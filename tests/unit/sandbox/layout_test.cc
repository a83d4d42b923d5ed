// Goal: the facts about a machine's file system that a sandbox depends on, for every layout that
// machines have. Method: fake roots in a scratch directory, one per layout.

#include "sandbox/layout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "scratch.h"

using mosaic::sandbox::Bind;
using mosaic::sandbox::BindKind;
using mosaic::sandbox::Chain;
using mosaic::sandbox::Entry;
using mosaic::sandbox::EntryKind;
using mosaic::sandbox::follow;
using mosaic::sandbox::Layout;
using mosaic::sandbox::Link;
using mosaic::sandbox::mounts_for;
using mosaic::sandbox::read_layout;

namespace {

// A merged-/usr root with a shell: what most machines are.
void merged_usr(const Scratch& root) {
    root.file("usr/bin/sh");
    root.directory("usr/lib");
    root.directory("etc");
    root.link("usr/bin", "bin");
    root.link("usr/lib", "lib");
}

Layout layout_of(const Scratch& root) {
    auto layout = read_layout(root.path());
    REQUIRE(layout.has_value());
    return *layout;
}

Entry entry_of(const Layout& layout, const std::string& path) {
    const auto hit = std::find_if(layout.entries.begin(),
                                  layout.entries.end(),
                                  [&](const Entry& entry) { return entry.path == path; });
    return hit == layout.entries.end() ? Entry{path, EntryKind::absent, ""} : *hit;
}

// "link /run/x -> y" and "file /run/z", for comparing whole lists. A file comes read-only and from
// its own path.
std::vector<std::string> shape(const std::vector<Bind>& binds) {
    std::vector<std::string> out;
    for (const Bind& bind : binds) {
        out.push_back(bind.kind == BindKind::symlink ? "link " + bind.dest + " -> " + bind.source
                                                     : "file " + bind.dest);
        if (bind.kind != BindKind::symlink) {
            CHECK(bind.kind == BindKind::read_only);
            CHECK(bind.source == bind.dest);
        }
        CHECK_FALSE(bind.reason.empty());
    }
    return out;
}

using Shape = std::vector<std::string>;

}  // namespace

TEST_CASE("a merged /usr keeps its links as they are written") {
    const Scratch root;
    merged_usr(root);
    root.link("/usr/lib64", "lib64");
    root.link("./usr/sbin", "sbin");
    const Layout layout = layout_of(root);
    CHECK(layout.missing == "");
    CHECK(entry_of(layout, "/bin") == Entry{"/bin", EntryKind::link, "usr/bin"});
    CHECK(entry_of(layout, "/lib64") == Entry{"/lib64", EntryKind::link, "/usr/lib64"});
    CHECK(entry_of(layout, "/sbin") == Entry{"/sbin", EntryKind::link, "./usr/sbin"});
    CHECK(entry_of(layout, "/lib32").kind == EntryKind::absent);
    CHECK(layout.brings("/bin"));
    CHECK_FALSE(layout.brings("/bin/sh"));
    CHECK(entry_of(layout, "/usr").kind == EntryKind::directory);
    CHECK(entry_of(layout, "/etc").kind == EntryKind::directory);
}

TEST_CASE("directories of a split /usr are directories, and what isn't there is absent") {
    const Scratch root;
    root.directory("usr");
    root.directory("etc");
    root.file("bin/sh");
    root.directory("lib");
    const Layout layout = layout_of(root);
    CHECK(layout.missing == "");
    CHECK(entry_of(layout, "/bin").kind == EntryKind::directory);
    CHECK(entry_of(layout, "/lib64").kind == EntryKind::absent);
    CHECK(layout.brings("/bin/sh"));
    CHECK_FALSE(layout.brings("/lib64/ld-linux-x86-64.so.2"));
    CHECK_FALSE(layout.brings("/binary"));
}

TEST_CASE("a shell in a store brings the store") {
    for (const std::string store : {"/nix/store", "/gnu/store"}) {
        const Scratch root;
        root.file(store.substr(1) + "/abc-bash/bin/bash");
        root.link(store + "/abc-bash/bin/bash", "bin/sh");
        root.link(store + "/abc-coreutils/bin/env", "usr/bin/env");
        root.directory("etc");
        const Layout layout = layout_of(root);
        CHECK(layout.missing == "");
        CHECK(entry_of(layout, store).kind == EntryKind::directory);
        CHECK(layout.brings(store + "/xyz"));
    }
}

TEST_CASE("what no session can start without is named") {
    SUBCASE("no /usr") {
        const Scratch root;
        root.directory("etc");
        root.file("bin/sh");
        CHECK(layout_of(root).missing == "there is no /usr");
    }
    SUBCASE("no /etc") {
        const Scratch root;
        root.file("usr/bin/sh");
        root.link("usr/bin", "bin");
        CHECK(layout_of(root).missing == "there is no /etc");
    }
    SUBCASE("no /bin") {
        const Scratch root;
        root.file("usr/bin/sh");
        root.directory("etc");
        CHECK(layout_of(root).missing == "there is no /bin/sh: /bin does not exist");
    }
    SUBCASE("no sh in it") {
        const Scratch root;
        root.directory("usr/bin");
        root.directory("etc");
        root.link("usr/bin", "bin");
        CHECK(layout_of(root).missing == "there is no /bin/sh: /usr/bin/sh does not exist");
    }
    SUBCASE("a shell outside of all that sessions see") {
        const Scratch root;
        root.file("opt/busybox/sh");
        root.directory("usr");
        root.directory("etc");
        root.link("/opt/busybox/sh", "bin/sh");
        CHECK(layout_of(root).missing == "/bin/sh leads to /opt/busybox/sh, which no sandbox gets");
    }
    SUBCASE("a shell reached over a link outside") {
        const Scratch root;
        merged_usr(root);
        root.file("usr/lib/shells/dash");
        root.link("../../opt/sh", "usr/bin/zsh");
        std::filesystem::remove(root / "usr/bin/sh");
        root.link("/opt/sh", "usr/bin/sh");
        root.link("/usr/lib/shells/dash", "opt/sh");
        CHECK(layout_of(root).missing == "/bin/sh leads to /opt/sh, which no sandbox gets");
    }
}

TEST_CASE("a root that can't be read is an error") {
    const Scratch root;
    CHECK_FALSE(read_layout(root / "nowhere").has_value());
}

TEST_CASE("name servers outside of /etc come at their own path") {
    const Scratch root;
    merged_usr(root);
    SUBCASE("a plain file needs nothing") {
        root.file("etc/resolv.conf");
        CHECK(layout_of(root).outside.empty());
    }
    SUBCASE("no file at all needs nothing and warns of nothing") {
        const Layout layout = layout_of(root);
        CHECK(layout.outside.empty());
        CHECK(layout.warnings.empty());
    }
    SUBCASE("a relative link") {
        root.file("run/systemd/resolve/stub-resolv.conf");
        root.link("../run/systemd/resolve/stub-resolv.conf", "etc/resolv.conf");
        CHECK(shape(layout_of(root).outside) ==
              Shape{"file /run/systemd/resolve/stub-resolv.conf"});
    }
    SUBCASE("an absolute link") {
        root.file("mnt/wsl/resolv.conf");
        root.link("/mnt/wsl/resolv.conf", "etc/resolv.conf");
        CHECK(shape(layout_of(root).outside) == Shape{"file /mnt/wsl/resolv.conf"});
    }
    SUBCASE("two hops, the second outside") {
        root.file("run/b");
        root.link("/run/a", "etc/resolv.conf");
        root.link("b", "run/a");
        CHECK(shape(layout_of(root).outside) == Shape{"link /run/a -> b", "file /run/b"});
    }
    SUBCASE("a directory on the way that is a link") {
        root.file("run/nm/resolv.conf");
        root.link("../run", "var/run");
        root.link("/var/run/nm/resolv.conf", "etc/resolv.conf");
        CHECK(shape(layout_of(root).outside) ==
              Shape{"link /var/run -> ../run", "file /run/nm/resolv.conf"});
    }
    SUBCASE("out of /etc and back again") {
        root.file("etc/real.conf");
        root.link("/var/x", "etc/resolv.conf");
        root.link("../etc/real.conf", "var/x");
        CHECK(shape(layout_of(root).outside) == Shape{"link /var/x -> ../etc/real.conf"});
    }
    SUBCASE("over /etc/static into a store that isn't bound") {
        root.file("nix/store/h-etc/resolv.conf");
        root.link("/etc/static/resolv.conf", "etc/resolv.conf");
        root.link("/nix/store/h-etc", "etc/static");
        CHECK(shape(layout_of(root).outside) == Shape{"file /nix/store/h-etc/resolv.conf"});
    }
    SUBCASE("a link that stays in /etc or /usr needs nothing") {
        root.file("usr/share/resolv.conf");
        root.link("/usr/share/resolv.conf", "etc/resolv.conf");
        CHECK(layout_of(root).outside.empty());
    }
    SUBCASE("a link to nothing is a warning, not a bind") {
        root.link("../run/systemd/resolve/stub-resolv.conf", "etc/resolv.conf");
        const Layout layout = layout_of(root);
        CHECK(layout.outside.empty());
        CHECK(layout.missing == "");
        CHECK(layout.warnings == Shape{"/etc/resolv.conf leads to nothing: /run does not exist"});
    }
    SUBCASE("a link to itself is a warning, not a bind") {
        root.link("resolv.conf", "etc/resolv.conf");
        const Layout layout = layout_of(root);
        CHECK(layout.outside.empty());
        CHECK(layout.warnings ==
              Shape{"/etc/resolv.conf leads to nothing: /etc/resolv.conf: Too many levels of "
                    "symbolic links"});
    }
}

TEST_CASE("a certificate bundle that lies elsewhere comes once") {
    const Scratch root;
    merged_usr(root);
    root.file("var/lib/ca/bundle.pem");
    root.link("/var/lib/ca/bundle.pem", "etc/ssl/certs/ca-certificates.crt");
    root.link("/var/lib/ca/bundle.pem", "etc/pki/tls/certs/ca-bundle.crt");
    root.link("certs/ca-certificates.crt", "etc/ssl/cert.pem");
    CHECK(shape(layout_of(root).outside) == Shape{"file /var/lib/ca/bundle.pem"});
}

TEST_CASE("any file can be made readable at its own path, over whatever links") {
    const Scratch root;
    merged_usr(root);
    root.file("opt/corp/v2/ca.pem");
    root.link("v2", "opt/corp/current");
    root.link("/opt/corp/current/ca.pem", "home/u/ca.pem");
    root.file("usr/share/ca.pem");
    const Layout layout = layout_of(root);
    const auto mounts = [&](const std::string& path) {
        return mounts_for(layout, path, "a reason", root.path());
    };
    CHECK(shape(*mounts("/home/u/ca.pem")) ==
          Shape{"link /home/u/ca.pem -> /opt/corp/current/ca.pem",
                "link /opt/corp/current -> v2",
                "file /opt/corp/v2/ca.pem"});
    CHECK(mounts("/usr/share/ca.pem")->empty());
    CHECK(shape(*mounts("/opt/corp/v2/../v2//ca.pem")) == Shape{"file /opt/corp/v2/ca.pem"});
    CHECK(shape(*mounts("/opt/corp/v2")) == Shape{"file /opt/corp/v2"});
    REQUIRE_FALSE(mounts("/opt/corp/v3").has_value());
    CHECK(mounts("/opt/corp/v3").error().text == "/opt/corp/v3 does not exist");
    CHECK(mounts("relative").error().text == "\"relative\" is not an absolute path");
    CHECK(mounts("/opt/corp/v2/ca.pem/x").error().text == "/opt/corp/v2/ca.pem/x: Not a directory");
}

TEST_CASE("a path that climbs above the root stays in it, as in the kernel") {
    const Scratch root;
    root.file("a/b");
    root.link("../../../../a", "l");
    const Chain chain = follow(root.path(), "/../l/b");
    CHECK(chain.reached());
    CHECK(chain.real == "/a/b");
    CHECK(chain.links == std::vector<Link>{{"/l", "../../../../a"}});
    CHECK(follow(root.path(), "/").real == "/");
}

TEST_CASE("this machine has a layout") {
    const auto layout = read_layout();
    REQUIRE(layout.has_value());
    CHECK(layout->missing == "");
    CHECK(layout->brings("/usr/bin/env"));
}
