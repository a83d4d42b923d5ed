#!/bin/bash
# Run by root, with MOSAIC_E2E_PREFIX (an installed product) and MOSAIC_TEST_USER: a host whose data root is
# mounted read-only says so and ends, changes nothing, and loses nothing of what was there. The mounts are
# made in a mount namespace of this script's own.
set -uo pipefail
prefix=${MOSAIC_E2E_PREFIX:?}
user=${MOSAIC_TEST_USER:?}
[ "$(id -u)" -eq 0 ] || { echo "read_only: only root can run this" >&2; exit 1; }
[ "${1:-}" = inside ] || exec unshare --mount "$0" inside
mount --make-rprivate /
host=

fail() {
    printf 'read_only: %s\n' "$*" >&2
    [ ! -f "$scratch/host.log" ] || cat "$scratch/host.log" >&2
    exit 1
}

scratch=$(mktemp -d /var/tmp/mosaic-root.XXXXXX)
chmod 755 "$scratch"

clean_up() {
    local status=$? at
    trap - EXIT
    if [ -n "$host" ]; then
        kill -TERM "$host" 2>/dev/null
        wait "$host" 2>/dev/null
    fi
    for at in data new; do
        ! mountpoint -q "$scratch/$at" || umount "$scratch/$at"
    done
    rm -rf "$scratch"
    exit "$status"
}
trap clean_up EXIT

for directory in config config/businesses config/roles data new ws ws/pm; do
    install -d -m 0700 -o "$user" -g "$(id -g "$user")" "$scratch/$directory"
done
cat >"$scratch/config/system.json" <<JSON
{"plugins": {"harness": ["script"]}}
JSON
cat >"$scratch/config/businesses/acme.json" <<JSON
{"id": "acme", "human": "jordan", "arbiters": {},
 "roles": {"pm": {"definition": "pm", "workspace": "$scratch/ws/pm",
   "vars": {"harness": "script", "provider": "local", "model": "shell", "thinking": "off", "script.command": "sh",
            "limits.tools": [], "limits.typed": ["launch"], "network": "none"},
   "authority": {"withinRole": ["message.send", "role.launch"], "crossRole": [], "gated": []}}},
 "launch": {"by": "pm", "instances": [], "models": [{"provider": "local", "model": "shell", "max": 2}]}}
JSON
echo "# pm" >"$scratch/config/roles/pm.md"
chown -R "$user:" "$scratch/config"

# start DATA: in the background, to $scratch/host.log.
start() {
    "$prefix/bin/mosaic-host" --business "$scratch/config/businesses/acme.json" \
        --config "$scratch/config/system.json" --data "$1" --user "$user" --pm >"$scratch/host.log" 2>&1 &
    host=$!
}

read_only() {
    mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || fail "$1 can't be mounted read-only"
}

# refuses DATA: a start must end with 3 and say which path and why.
refuses() {
    start "$1"
    wait "$host"
    local status=$?
    host=
    [ "$status" -eq 3 ] || fail "a host on the read-only $1 ended with $status, not 3"
    grep -qF "$1" "$scratch/host.log" || fail "the refusal doesn't name $1"
    grep -qF 'Read-only file system' "$scratch/host.log" || fail "the refusal doesn't say why"
}

# serves N: the PM is launched for the Nth time; then the host stops with 0.
serves() {
    start "$scratch/data"
    local launched
    launched=$(
        exec 3< <(exec timeout 20 tail -n +1 -s 0.1 -F --pid="$host" "$scratch/data/launches/acme.jsonl" 2>/dev/null)
        grep -c -m "$1" '"event":"launch"' <&3
        kill $! 2>/dev/null
    )
    [ "$launched" = "$1" ] || fail "the PM was not launched"
    kill -TERM "$host"
    wait "$host"
    local status=$?
    host=
    [ "$status" -eq 0 ] || fail "the host ended with $status"
    [ "$(grep -c '"event":"launch"' "$scratch/data/launches/acme.jsonl")" -eq "$1" ] ||
        fail "the launch log has lost something"
    [ "$(grep -c '"event":"end"' "$scratch/data/launches/acme.jsonl")" -eq "$1" ] || fail "not every run has its end"
}

# Names, owners, modes, times of change and contents.
state() {
    (cd "$scratch/data" && find . -printf '%p %u %m %T@ %s\n' | sort && find . -type f -exec sha256sum {} + | sort)
}

# A data root that is to be made on a read-only file system.
read_only "$scratch/new"
refuses "$scratch/new/data"
[ -z "$(ls -A "$scratch/new")" ] || fail "a refused host made something"

# One that has been in use.
serves 1
before=$(state)
read_only "$scratch/data"
refuses "$scratch/data"
[ "$(state)" = "$before" ] || fail "a refused host changed its data root"
umount "$scratch/data"
[ "$(state)" = "$before" ] || fail "a refused host changed what lies below the mount"
serves 2
echo "read_only: hosts on read-only data roots refused and lost nothing"
