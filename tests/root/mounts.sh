#!/bin/bash
# Run by root, with MOSAIC_E2E_PREFIX (an installed product) and MOSAIC_TEST_USER: a warm seat that was made
# before something was mounted isn't taken after it. The mounts are made in a mount namespace of this
# script's own.
set -uo pipefail
prefix=${MOSAIC_E2E_PREFIX:?}
user=${MOSAIC_TEST_USER:?}
[ "$(id -u)" -eq 0 ] || { echo "mounts: only root can run this" >&2; exit 1; }
[ "${1:-}" = inside ] || exec unshare --mount "$0" inside
mount --make-rprivate /
host=

fail() {
    printf 'mounts: %s\n' "$*" >&2
    [ ! -f "$scratch/host.log" ] || cat "$scratch/host.log" >&2
    exit 1
}

scratch=$(mktemp -d /var/tmp/mosaic-root.XXXXXX)
chmod 755 "$scratch"

clean_up() {
    local status=$?
    trap - EXIT
    if [ -n "$host" ]; then
        kill -TERM "$host" 2>/dev/null
        wait "$host" 2>/dev/null
    fi
    ! mountpoint -q "$scratch/ws/pm/later" || umount "$scratch/ws/pm/later"
    rm -rf "$scratch"
    exit "$status"
}
trap clean_up EXIT

for directory in config config/businesses config/roles data ws ws/pm ws/pm/later; do
    install -d -m 0700 -o "$user" -g "$(id -g "$user")" "$scratch/$directory"
done
cat >"$scratch/config/system.json" <<JSON
{"plugins": {"harness": ["script"]}}
JSON
cat >"$scratch/config/businesses/acme.json" <<JSON
{"id": "acme", "human": "jordan", "arbiters": {},
 "roles": {"pm": {"definition": "pm", "workspace": "$scratch/ws/pm", "warm": 1,
   "vars": {"harness": "script", "provider": "local", "model": "shell", "thinking": "off", "script.command": "sh"},
   "authority": {"withinRole": [], "crossRole": [], "gated": []}}},
 "launch": {"by": "pm", "instances": [], "models": [{"provider": "local", "model": "shell", "max": 2}]}}
JSON
echo "# pm" >"$scratch/config/roles/pm.md"
chown -R "$user:" "$scratch/config"
"$prefix/bin/mosaic-host" --business "$scratch/config/businesses/acme.json" \
    --config "$scratch/config/system.json" --data "$scratch/data" --user "$user" >"$scratch/host.log" 2>&1 &
host=$!

# Until sessions.json has a warm seat.
await_warm_seat() {
    exec 3< <(exec timeout 20 tail -n +1 -s 0.1 -F --pid="$host" "$scratch/data/bus-host/sessions.json" 2>/dev/null)
    grep -q -m 1 '"warm":true' <&3 || fail "no warm seat was made"
    kill $! 2>/dev/null
}

as_human() {
    setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups "$prefix/bin/mosaic" "$@" --data "$scratch/data" \
        --config "$scratch/config/system.json" --business "$scratch/config/businesses/acme.json" >/dev/null
}

# How many launches took a warm seat.
taken() {
    grep -c 'launched pm .* from a warm seat' "$scratch/host.log"
}

await_warm_seat
as_human launch pm || fail "the first launch failed"
[ "$(taken)" -eq 1 ] || fail "the first launch took no warm seat"
as_human stop pm || fail "the session can't be stopped"
await_warm_seat
mount --bind "$scratch/config/roles" "$scratch/ws/pm/later" || fail "nothing can be mounted"
as_human launch pm || fail "the second launch failed"
[ "$(taken)" -eq 1 ] || fail "the second launch took a seat from before the mount"
echo "mounts: a warm seat from before a mount wasn't taken"
