// Goal: a path that somebody else wrote is resolved as realpath(3) does, and never past a mount of
// a file system that may not answer. Method: links of every kind below a scratch directory; /proc
// and /sys stand for such mounts.
#include "process/local_path.h"

#include <cerrno>

#include "scratch.h"

using namespace mosaic;
using namespace mosaic::process;
using namespace mosaic::test;

namespace {

// A place on a local disk, with the links that a test lays.
struct Place {
    Scratch scratch;
    LocalPaths paths{scratch.fd()};
    std::string real = *real_path(scratch.path());

    void link(const std::string& target, const std::string& name) const {
        REQUIRE(::symlink(target.c_str(), scratch.at(name).c_str()) == 0);
    }

    Result<LocalPath> open(const std::string& path) { return paths.open(scratch.fd(), path); }

    // As the path after the scratch directory's own, or what is wrong.
    std::string resolved(const std::string& path) {
        const auto found = open(path);
        if (!found) {
            return found.error().text;
        }
        CHECK(found->path.starts_with(real));
        return found->path.substr(real.size());
    }

    void check_refused(const std::string& path, const std::string& mount, const std::string& type) {
        CAPTURE(path);
        const auto found = open(path);
        REQUIRE_FALSE(found.has_value());
        CHECK(found.error().code == Code::unsafe);
        CHECK(found.error().text ==
              mount + " lies on a file system of type " + type + ", which may not answer");
    }
};

}  // namespace

TEST_CASE("a path that somebody else wrote is resolved as the kernel does") {
    Place place;
    place.scratch.directory("a");
    place.scratch.directory("a/b");
    place.scratch.file("a/file");
    place.link("a/b", "relative");
    place.link(place.scratch.at("a"), "absolute");
    place.link("../../relative/..", "a/b/around");
    place.link("absolute/file", "chain");
    CHECK(place.resolved("a/b") == "/a/b");
    CHECK(place.resolved(place.scratch.at("a/b")) == "/a/b");
    CHECK(place.resolved("a//b/./") == "/a/b");
    CHECK(place.resolved(".").empty());
    CHECK(place.resolved("relative") == "/a/b");
    CHECK(place.resolved("relative/../file") == "/a/file");
    CHECK(place.resolved("absolute/b") == "/a/b");
    CHECK(place.resolved("a/b/around") == "/a");
    CHECK(place.resolved("chain") == "/a/file");
    const auto root = place.open("/../..");
    REQUIRE(root.has_value());
    CHECK(root->path == "/");
    // What is opened is what the path names.
    const auto found = place.open("chain");

    struct stat by_fd {};

    struct stat by_path {};

    REQUIRE(::fstat(found->fd.get(), &by_fd) == 0);
    REQUIRE(::stat(place.scratch.at("a/file").c_str(), &by_path) == 0);
    CHECK(by_fd.st_ino == by_path.st_ino);
}

TEST_CASE("a path that leads nowhere says why") {
    Place place;
    place.scratch.file("file");
    place.link("none", "dangling");
    place.link("loop2", "loop1");
    place.link("loop1", "loop2");
    const auto code_of = [&](const std::string& path) { return place.open(path).error().code; };
    const auto sys_of = [&](const std::string& path) { return place.open(path).error().sys; };
    CHECK(code_of("none") == Code::missing);
    CHECK(code_of("none/below") == Code::missing);
    CHECK(code_of("dangling") == Code::missing);
    CHECK(code_of("") == Code::invalid);
    CHECK(code_of(std::string("a\0b", 3)) == Code::invalid);
    CHECK(sys_of("file/below") == ENOTDIR);
    CHECK(sys_of("loop1") == ELOOP);
    CHECK(place.open("no\nne").error().text == "no\\nne: No such file or directory");
}

TEST_CASE("a path has no more links and names than the bounds") {
    Place place;
    place.scratch.directory("d");
    place.link("d", "1");
    for (int i = 2; i <= 41; ++i) {
        place.link(std::to_string(i - 1), std::to_string(i));
    }
    CHECK(place.resolved("40") == "/d");
    CHECK(place.open("41").error().sys == ELOOP);
    std::string path = "d";
    for (int i = 0; i < 127; ++i) {
        path += "/../d";
    }
    CHECK(place.resolved(path) == "/d");
    CHECK(place.resolved(path + "/..").empty());
    CHECK(place.open(path + "/../d").error().sys == ENAMETOOLONG);
}

TEST_CASE("a path that leads to a mount that may not answer ends at it") {
    Place place;
    place.link("/proc", "far");
    place.link("far/self/root", "magic");
    place.link("/sys/kernel", "below");
    place.check_refused("/proc", "/proc", "proc");
    place.check_refused("/proc/self/root" + place.scratch.path(), "/proc", "proc");
    place.check_refused("far", "/proc", "proc");
    place.check_refused("magic", "/proc", "proc");
    place.check_refused("below", "/sys", "sysfs");
    // Nothing below is looked up.
    place.check_refused("far/none/at/all", "/proc", "proc");
    place.check_refused("far/..", "/proc", "proc");
    // Nor from there, once more.
    place.check_refused("far", "/proc", "proc");
}

TEST_CASE("one name of a directory is opened itself, and on no such mount") {
    Place place;
    place.link("/proc", "far");
    const auto link = place.paths.open_in(place.scratch.fd(), "far");
    REQUIRE(link.has_value());

    struct stat facts {};

    REQUIRE(::fstat(link->get(), &facts) == 0);
    CHECK(S_ISLNK(facts.st_mode));
    const auto root = place.open("/");
    REQUIRE(root.has_value());
    CHECK(place.paths.open_in(root->fd.get(), "proc").error().code == Code::unsafe);
    CHECK(place.paths.open_in(root->fd.get(), "no-such-name").error().code == Code::missing);
    const auto up = place.paths.open_in(place.scratch.fd(), "..");
    CHECK(up.has_value());
}

TEST_CASE("the mount that is trusted may be of any type") {
    const UniqueFd proc(::open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC));
    LocalPaths paths(proc.get());
    const auto found = paths.open(proc.get(), "/proc/sys/kernel");
    REQUIRE(found.has_value());
    CHECK(found->path == "/proc/sys/kernel");
    CHECK(paths.open(proc.get(), "/sys").error().code == Code::unsafe);
}

TEST_CASE("the mount of a descriptor is read from fdinfo") {
    CHECK(mount_id_in("pos:\t0\nflags:\t012100000\nmnt_id:\t29\nino:\t2\n") == 29);
    CHECK(mount_id_in("mnt_id:\t7") == 7);
    for (const char* text : {"", "pos:\t0\n", "mnt_id:\t\n", "mnt_id:\t-1\n", "mnt_id:\tx\n"}) {
        CAPTURE(text);
        CHECK(mount_id_in(text) == -1);
    }
}

TEST_CASE("the type of a mount is read from mountinfo") {
    constexpr const char* kMounts =
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "36 22 0:40 / /mnt/a\\040b rw - fuse.sshfs u@h:/ rw,user_id=1\n"
        "37 22 0:41 /r /n rw shared:2 master:1 propagate_from:3 - nfs4 h:/ rw\n"
        "broken\n"
        "38 22 0:42 / /x rw\n"
        "3 22 0:43 / /y rw - autofs - rw\n";
    CHECK(mount_type_in(kMounts, 22) == "ext4");
    CHECK(mount_type_in(kMounts, 36) == "fuse.sshfs");
    CHECK(mount_type_in(kMounts, 37) == "nfs4");
    CHECK(mount_type_in(kMounts, 3) == "autofs");
    for (const int id : {38, 39, 0, -1}) {
        CAPTURE(id);
        CHECK(mount_type_in(kMounts, id).empty());
    }
}

TEST_CASE("only what answers from this machine alone is local") {
    for (const char* type : {"ext4", "xfs", "btrfs", "tmpfs", "overlay"}) {
        CHECK(is_local_type(type));
    }
    for (const char* type : {"", "nfs", "nfs4", "fuse", "fuse.sshfs", "autofs", "cifs", "9p"}) {
        CAPTURE(type);
        CHECK_FALSE(is_local_type(type));
    }
}
