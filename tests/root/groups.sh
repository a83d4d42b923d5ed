#!/bin/bash
# Run by root, with MOSAIC_TREE (a built tree), MOSAIC_E2E_PREFIX and MOSAIC_TEST_USER: hosts in control
# groups that are delegated to that user. The groups lie in one that this makes and removes; cgroup2 is
# mounted for it in a mount namespace of its own. What the machine keeps in its older hierarchies (version
# 1) can't be limited there; the tests then say what they leave out.
set -euo pipefail
tree=${MOSAIC_TREE:?}
user=${MOSAIC_TEST_USER:?}
[ "$(id -u)" -eq 0 ] || { echo "groups: only root can run this" >&2; exit 1; }

if [ "${1:-}" != inside ]; then
    # Where systemd runs, the groups are its own: it gives one away.
    if [ -d /run/systemd/system ]; then
        exec systemd-run --quiet --scope --property=Delegate=yes unshare --mount "$0" inside
    fi
    exec unshare --mount "$0" inside
fi
mount --make-rprivate /
for at in $(awk '$3 == "cgroup2" { print $2 }' /proc/mounts); do
    umount --lazy "$at"
done
scratch=$(mktemp -d /var/tmp/mosaic-groups.XXXXXX)
chmod 755 "$scratch"
if ! mount -t cgroup2 none "$scratch"; then
    rmdir "$scratch"
    echo "left out: cgroup2 can't be mounted here"
    exit 0
fi
before=$scratch$(sed -n 's/^0:://p' /proc/self/cgroup)
before=${before%/}
group=$before/mosaic-groups-$$
older=$(mktemp -d /var/tmp/mosaic-groups.XXXXXX) # a hierarchy of version 1
older_group=                                     # in it, below the group that we are in
log=$(mktemp)

clean_up() {
    local status=$?
    trap - EXIT
    echo $$ >"$before/cgroup.procs"
    [ ! -e "$group/cgroup.kill" ] || echo 1 >"$group/cgroup.kill"
    for _ in $(seq 100); do
        find "$group" -depth -type d -exec rmdir {} + 2>/dev/null && break
        sleep 0.1
    done
    umount "$scratch"
    for _ in $(seq 100); do
        [ -d "$older_group" ] || break
        rmdir "$older_group" 2>/dev/null || sleep 0.1
    done
    ! mountpoint -q "$older" || umount "$older"
    rmdir "$scratch" "$older"
    rm -f "$log"
    exit "$status"
}
trap clean_up EXIT

mkdir "$group" "$group/tests"
echo $$ >"$group/tests/cgroup.procs"
for controller in memory pids; do
    # A scope of systemd's is as much ours as what we make in it.
    [ ! -d /run/systemd/system ] || echo "+$controller" >"$before/cgroup.subtree_control" || true
    # Only what this group has been given; its parent stays as it is.
    if grep -qw "$controller" "$group/cgroup.controllers"; then
        echo "+$controller" >"$group/cgroup.subtree_control"
    else
        echo "left out: the $controller controller isn't given to cgroup2 here"
    fi
done
for name in "" /cgroup.procs /cgroup.subtree_control /tests /tests/cgroup.procs; do
    chown "$user" "$group$name"
done
cd /
tests() { # how many; the rest says which
    MOSAIC_E2E_OLDER_GROUP=$older_group MOSAIC_E2E_GROUP=$group MOSAIC_MUST_WORK=1 \
        "$tree/build/debug/bin/e2e_test" --source-file='*groups_test*' "${@:2}" | tee "$log"
    grep -q "test cases: *$1 | *$1 passed" "$log" || { echo "groups: not all passed" >&2; exit 1; }
}
tests 7 --test-case-exclude='*of version 1'

# Only now: sandbox.nested is refused for every host above it.
chmod 755 "$older"
if mount -t cgroup -o freezer none "$older" 2>/dev/null; then
    above=$older$(sed -n 's/^[0-9]*:freezer://p' /proc/self/cgroup)
    older_group=${above%/}/mosaic-groups-$$
    mkdir "$older_group"
    chown -R "$user" "$older_group"
    tests 1 --test-case='*of version 1'
else
    echo "left out: there is no freezer of version 1 here"
fi
