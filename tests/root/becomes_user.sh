#!/bin/bash
# Run by root, with MOSAIC_E2E_PREFIX (an installed product) and MOSAIC_TEST_USER: a host that root starts
# becomes the named user before anything else, without one it refuses, and root's commands work on it.
set -uo pipefail
prefix=${MOSAIC_E2E_PREFIX:?}
user=${MOSAIC_TEST_USER:?}
host=

fail() {
    printf 'becomes_user: %s\n' "$*" >&2
    [ -f "$scratch/host.log" ] && cat "$scratch/host.log" >&2
    exit 1
}

[ "$(id -u)" -eq 0 ] || { echo "becomes_user: only root can run this" >&2; exit 1; }
scratch=$(mktemp -d /var/tmp/mosaic-root.XXXXXX)
chmod 755 "$scratch"

clean_up() {
    local status=$?
    trap - EXIT
    if [ -n "$host" ]; then
        kill -TERM "$host" 2>/dev/null
        wait "$host" 2>/dev/null
    fi
    rm -rf "$scratch"
    exit "$status"
}
trap clean_up EXIT

as_user() {
    setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups \
        env -i HOME="$home" PATH="$prefix/bin:/usr/bin:/bin" USER="$user" "$@"
}

home=$(getent passwd "$user" | cut -d: -f6)
install -d -m 0700 -o "$user" -g "$(id -g "$user")" "$scratch/config" "$scratch/data" "$scratch/ws"
as_user mkdir -p "$scratch/config/businesses" "$scratch/config/roles" "$scratch/ws/pm"
as_user sh -c 'cat >"$0/config/system.json"' "$scratch" <<JSON
{"plugins": {"harness": ["script"]}}
JSON
as_user sh -c 'cat >"$0/config/businesses/acme.json"' "$scratch" <<JSON
{"id": "acme", "human": "jordan", "arbiters": {},
 "roles": {"pm": {"definition": "pm", "workspace": "$scratch/ws/pm",
   "vars": {"harness": "script", "provider": "local", "model": "shell", "thinking": "off", "script.command": "sh",
            "limits.tools": [], "limits.typed": ["launch"], "network": "none"},
   "authority": {"withinRole": ["message.send", "role.launch"], "crossRole": [], "gated": []}}},
 "launch": {"by": "pm", "instances": [], "models": [{"provider": "local", "model": "shell", "max": 2}]}}
JSON
as_user sh -c 'echo "# pm" >"$0/config/roles/pm.md"' "$scratch"

options=(--business "$scratch/config/businesses/acme.json" --config "$scratch/config/system.json" --data "$scratch/data")

# Without a user: exit 3, the remedy, nothing made.
"$prefix/bin/mosaic-host" "${options[@]}" >"$scratch/refused" 2>&1
[ $? -eq 3 ] || fail "a host of root without --user should end with 3"
grep -q -- '--user' "$scratch/refused" || fail "the refusal should name --user: $(cat "$scratch/refused")"
[ -z "$(ls "$scratch/data")" ] || fail "a refused host should make nothing"

# With one, with something of root's in its environment, and with paths that are meant from root's directory.
cd "$scratch"
AS_ROOT_ONLY=secret MOSAIC_CONFIG=config/system.json "$prefix/bin/mosaic-host" --business config/businesses/acme.json \
    --data=data --user "$user" --pm >"$scratch/host.log" 2>&1 &
host=$!
line=$(
    exec 3< <(exec timeout 20 tail -n +1 -s 0.1 -F --pid="$host" "$scratch/data/launches/acme.jsonl" 2>/dev/null)
    grep -m 1 '"event":"launch"' <&3
    kill $! 2>/dev/null
)
[ -n "$line" ] || fail "the PM was not launched"
uid=$(id -u "$user")
[ "$(awk '/^Uid:/ {print $2, $3, $4, $5}' "/proc/$host/status")" = "$uid $uid $uid $uid" ] || fail "the host is not $user"
grep -q "^Groups:.*\b0\b" "/proc/$host/status" && fail "the host kept root's group"
tr '\0' '\n' <"/proc/$host/environ" | grep -q "^HOME=$home\$" || fail "the host kept root's HOME"
[ "$(stat -c %U "$scratch/data/bus-host/sessions.json")" = "$user" ] || fail "the files are not the user's"

# The command run as root becomes the lock's owner: as root it would be no human of that host.
answer=$("$prefix/bin/mosaic" send pm 'id -u; head -n 1 /etc/shadow 2>/dev/null || true' --wait 20 --config "$scratch/config/system.json" \
    --data "$scratch/data" 2>&1) || fail "root's mosaic send failed: $answer"
printf '%s' "$answer" | grep -q "^$uid\$" || fail "the session does not run as $user: $answer"
printf '%s' "$answer" | grep -q "root:" && fail "the session read /etc/shadow"

kill -TERM "$host"
wait "$host"
status=$?
host=
[ "$status" -eq 0 ] || fail "the host ended with $status"
echo "becomes_user: a host started by root ran as $user"
