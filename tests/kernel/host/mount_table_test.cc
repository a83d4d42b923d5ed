// The table of mounts is looked at in namespaces of the test's own.

#include "host/mount_table.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

using namespace mosaic;
using namespace mosaic::test;

namespace {

enum Step : int {
    fine,
    no_namespaces,
    changed_by_nothing,
    no_mount,
    mount_not_seen,
    changed_twice,
    unmount_not_seen
};

int watch_mounts(const char* place) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
        return no_namespaces;
    }
    host::MountTable table;
    const uint64_t before = table.version();
    if (table.version() != before) {
        return changed_by_nothing;
    }
    if (::mount("none", place, "tmpfs", 0, nullptr) != 0) {
        return no_mount;
    }
    const uint64_t mounted = table.version();
    if (mounted == before) {
        return mount_not_seen;
    }
    if (table.version() != mounted) {
        return changed_twice;
    }
    return ::umount2(place, MNT_DETACH) == 0 && table.version() == mounted ? unmount_not_seen
                                                                           : fine;
}

}  // namespace

TEST_CASE("what is mounted and unmounted gives the table of mounts another version") {
    const Scratch scratch;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::_exit(watch_mounts(scratch.path().c_str()));
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == fine);
}
