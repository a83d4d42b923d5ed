#!/bin/bash
# Plays the life of the acme business on real processes, and fails loudly when a step does not show
# what it should:   play.sh PREFIX SOURCES
# PREFIX is an installed mosaic-host, SOURCES the directory that the coder and the reviewer survey.
set -uo pipefail

prefix=$1
sources=$2
here=$(cd "$(dirname "$0")" && pwd -P)
export PATH="$prefix/bin:/usr/local/bin:/usr/bin:/bin"

if [ "$(id -u)" -eq 0 ]; then
    echo "play.sh: start this as an ordinary user; sessions never run as root" >&2
    exit 3
fi

# Not under /tmp: a data root there is refused.
scratch=$(mktemp -d /var/tmp/mosaic-demo.XXXXXX)
# A home of its own, so that the demo's stand-in secret never meets the user's real files.
export HOME="$scratch/home"
export MOSAIC_CONFIG="$scratch/config/system.json"
unset XDG_STATE_HOME XDG_CONFIG_HOME
data="$scratch/data/acme"
launches="$data/launches/acme.jsonl"
host_log="$scratch/host.log"
host=
watcher=

# The processes of this demo's sessions and broker, by their run directory or data root.
ours() {
    pgrep -u "$(id -u)" -f "^[^ ]*(bwrap|mosaic-runner|mosaic-broker) .*$scratch/"
}

clean_up() {
    local status=$?
    trap - EXIT
    if [ -n "$watcher" ]; then
        kill "$watcher" 2>/dev/null
    fi
    if [ -n "$host" ]; then
        kill -TERM "$host" 2>/dev/null
        wait "$host" 2>/dev/null
    fi
    if [ "$status" -ne 0 ] && [ -f "$host_log" ]; then
        printf '\n--- what the host logged (%s)\n' "$host_log" >&2
        tail -n 60 "$host_log" >&2
    fi
    # A host that was killed may have left sessions: this demo's own, known by their run directory.
    local pid
    for pid in $(ours); do
        kill -KILL "$pid" 2>/dev/null
    done
    chmod -R u+rwX "$scratch" 2>/dev/null
    rm -rf "$scratch"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

step=0
heading() {
    step=$((step + 1))
    printf '\n%d. %s\n' "$step" "$*"
}

fail() {
    printf '\nDEMO FAILED at step %d: %s\n' "$step" "$*" >&2
    exit 1
}

# Prints a command as a person would type it, and runs it.
run() {
    local word line=
    for word in "$@"; do
        case $word in
            *' '*) line+=" \"$word\"" ;;
            *) line+=" $word" ;;
        esac
    done
    printf '   $%s\n' "$line"
    "$@" 2>&1 | sed 's/^/   /'
    return "${PIPESTATUS[0]}"
}

lines_of_log() {
    if [ -f "$launches" ]; then
        wc -l <"$launches"
    else
        echo 0
    fi
}

# wait_line AFTER REGEX: waits for a line of the launch log past line AFTER that matches. tail follows
# the file by inotify and ends with the host.
wait_line() {
    local line
    line=$(
        exec 3< <(exec timeout 20 tail -n "+$(($1 + 1))" -s 0.1 -F --pid="$host" "$launches" 2>/dev/null)
        grep -m 1 -E "$2" <&3
        kill $! 2>/dev/null
    )
    [ -n "$line" ] || fail "no line like '$2' came into $launches"
    printf '%s\n' "$line"
}

start_host() {
    printf '   $ mosaic-host --business acme --pm &\n'
    local before
    before=$(lines_of_log)
    mosaic-host --business acme --pm >>"$host_log" 2>&1 &
    host=$!
    wait_line "$before" '"event":"(launch|refused)".*"instance":"pm"' >"$scratch/line"
    grep -q '"event":"launch"' "$scratch/line" || fail "the PM was refused: $(cat "$scratch/line")"
    echo "   the host runs (pid $host) and has launched the PM"
}

# Instance and stage times of the launches past line $1 of the launch log.
show_launches() {
    tail -n "+$(($1 + 1))" "$launches" |
        sed -n -E 's/.*"event":"launch".*"instance":"([^"]*)".*"stages":\{([^}]*)\}.*/\1 \2/p' |
        tr -d '"' | tr ',' ' ' | while read -r instance stages; do
        printf '   %-9s %s\n' "$instance" "$stages"
    done
}

mkdir -p "$HOME/.config" "$scratch/config"
cp -R "$here/system.json" "$here/businesses" "$here/roles" "$scratch/config/"
cp -R "$here/workspaces" "$scratch/workspaces"
cp -R "$sources" "$scratch/workspaces/coder/src"
cp -R "$sources" "$scratch/workspaces/reviewer/src"
chmod -R go-w "$scratch/config" "$scratch/workspaces"
echo "a secret that stands in for a real one" >"$HOME/.config/mosaic-demo-secret"

heading "Start the host; it launches the PM"
start_host
run mosaic ps || fail "ps failed"

heading "The human asks the PM; the PM launches the coder and the reviewer, and asks both"
before=$(lines_of_log)
run mosaic send pm "survey src" --wait 25 | tee "$scratch/answer" || fail "no answer came"
expected=$(find "$sources" -type f | wc -l)
[ "$(grep -c -E "total +$expected " "$scratch/answer")" -eq 2 ] ||
    fail "the answer should count $expected files twice, once from each role"

heading "Who runs now, and what each launch took, in microseconds from the request"
run mosaic ps || fail "ps failed"
show_launches 0 | tee "$scratch/stages"
[ "$(wc -l <"$scratch/stages")" -eq 3 ] || fail "three launches should be in the log"

heading "What the coder can read: nothing of the PM, of the human, or of the host"
pm_run=$(sed -n -E 's/.*"event":"launch".*"instance":"pm".*"run":"([^"]*)".*/\1/p' "$launches" | tail -n 1)
[ -d "$data/launches/acme/$pm_run" ] || fail "the PM's run directory is not where it should be"
probe="probe /etc/hostname $data/launches/acme/$pm_run $data/launches/acme/$pm_run/session.json \
$scratch/workspaces/pm/turn.sh $scratch/home/.config/mosaic-demo-secret $scratch/config/system.json \
$data/bus-host/broker.sqlite $data/bus-host/sessions.json $data/bus-host/admin.sock"
run mosaic send coder "$probe" --wait 20 >"$scratch/probe" || fail "the coder did not answer"
sed 's/"probe .*" --wait/"probe ..." --wait/' "$scratch/probe"
[ "$(grep -c -E '^ *(jordan: |coder: |)yes ' "$scratch/probe")" -eq 1 ] && grep -q 'yes /etc/hostname' "$scratch/probe" ||
    fail "the coder could read something that it must not"
[ "$(grep -c -E '(^| )no /' "$scratch/probe")" -eq 8 ] || fail "eight paths should be out of reach"

heading "The host is killed with SIGKILL; the sessions go on"
kill -KILL "$host"
wait "$host" 2>/dev/null
host=
run mosaic ps || fail "ps should work without a host"
[ "$(mosaic ps --json | grep -o '"live":true' | wc -l)" -eq 3 ] || fail "three sessions should be alive"

heading "The next host ends what the last one left, and launches again"
before=$(lines_of_log)
start_host
tail -n "+$((before + 1))" "$launches" | grep '"event":"end"' | tee "$scratch/ends" | sed 's/^/   /'
[ "$(grep -c '"reason":"host-lost"' "$scratch/ends")" -eq 3 ] || fail "three ends with host-lost should be in the log"
run mosaic launch coder || fail "the coder could not be launched again"
run mosaic ps || fail "ps failed"
show_launches "$before"

heading "A clean stop"
printf '   $ kill -TERM %s\n' "$host"
kill -TERM "$host"
wait "$host"
status=$?
host=
[ "$status" -eq 0 ] || fail "the host ended with status $status"
left=$(ours | wc -l)
[ "$left" -eq 0 ] || fail "$left processes are left"
tail -n 2 "$launches" | sed 's/^/   /'
echo "   the host ended with status 0 and left no process"
