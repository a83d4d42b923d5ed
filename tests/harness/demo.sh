#!/bin/bash
# Shows a real agent program at work in a sandbox, in front of a stand-in for the model that plays a
# script, and fails loudly when a step doesn't show what it should:
#   demo.sh claude-code|pi PREFIX PROGRAMS
set -uo pipefail
agent=$1
prefix=$2
programs=$(realpath "$3") || exit 1
here=$(cd "$(dirname "$0")" && pwd -P)

if [ "$(id -u)" -eq 0 ]; then
    echo "demo.sh: start this as an ordinary user; sessions never run as root" >&2
    exit 3
fi
case $agent in
    claude-code) model=claude-sonnet-5-5 path=file_path ;;
    pi) model=claude-sonnet-4-5 path=path ;;
    *) exit 4 ;;
esac

scratch=$(mktemp -d /var/tmp/mosaic-demo.XXXXXX)
export HOME="$scratch/home" PATH="$prefix/bin:/usr/local/bin:/usr/bin:/bin"
unset XDG_STATE_HOME XDG_CONFIG_HOME MOSAIC_CONFIG
host='' stand_in=''

clean_up() {
    local status=$?
    trap - EXIT
    [ -z "$host" ] || { kill -TERM "$host" && wait "$host"; } 2>/dev/null
    [ -z "$stand_in" ] || kill "$stand_in" 2>/dev/null
    if [ "$status" -ne 0 ] && [ -f "$scratch/host.log" ]; then
        printf '\n--- what the host logged\n' >&2
        tail -n 40 "$scratch/host.log" >&2
    fi
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

run() {
    printf '   $ %s\n' "$*"
    "$@" 2>&1 | sed 's/^/   /'
    return "${PIPESTATUS[0]}"
}

# await FILE TEXT: until the file has the text.
await() {
    timeout 60 grep -q -m 1 -F "$2" < <(exec timeout 60 tail -n +1 -s 0.1 -F "$1" 2>/dev/null) ||
        fail "$1 never said: $2"
}

# ask WHAT SCRIPT: sends the coder a request whose answer the stand-in plays; prints the reply.
ask() {
    printf '   $ mosaic send coder "%s"\n' "$1"
    mosaic send coder "$1
mock: $2" --wait 120 >"$scratch/reply" || fail "no answer came"
    sed -e 's/\\n/\n/g' -e 's/^\["//' -e 's/"\]$//' -e 's/","/\n/g' "$scratch/reply" | grep -v '^ *$' | cut -c1-200 | sed 's/^/   /'
}

mkdir -p "$HOME/.ssh"
echo "a secret that stands in for a real one" >"$HOME/.ssh/id_demo"

heading "A stand-in for the model listens on loopback; $agent is logged in with a stand-in key"
mkfifo "$scratch/until"
exec 8<>"$scratch/until"
"$programs/node" "$here/mock-model.mjs" --key stand-in --log "$scratch/model.log" >"$scratch/url" 8>&- &
stand_in=$!
await "$scratch/url" http
ANTHROPIC_BASE_URL=$(cat "$scratch/url")
export ANTHROPIC_BASE_URL ANTHROPIC_API_KEY=stand-in
export MOSAIC_CLAUDE_BIN="$programs/claude" MOSAIC_PI_BIN="$programs/pi" MOSAIC_NODE_BIN="$programs/node"
echo "   ANTHROPIC_BASE_URL=$ANTHROPIC_BASE_URL ANTHROPIC_API_KEY=stand-in"

heading "A business whose roles run $agent; the host launches the PM, the human the coder"
run mosaic init --harness "$agent" --provider anthropic --model "$model" --thinking high >/dev/null || fail "init failed"
mosaic-host --business acme --pm >>"$scratch/host.log" 2>&1 8>&- &
host=$!
await "$scratch/host.log" "launched pm"
run mosaic launch coder || fail "the coder could not be launched"
run mosaic ps || fail "ps failed"

heading "The coder answers"
ask "What is six times seven?" '[{"text":"It is 42, says turn {turns}."}]'
grep -q 'turn 1' "$scratch/reply" || fail "that was not the answer"

heading "Its shell writes in its workspace and finds nothing else of this host"
data="$HOME/.local/state/mosaic/acme"
pm_run=$(sed -n -E 's/.*"event":"launch".*"instance":"pm".*"run":"([^"]*)".*/\1/p' "$data/launches/acme.jsonl")
command="echo written >note.txt && echo \"reached \$PWD/note.txt\"; for f in $HOME/.ssh/id_demo $data/launches/acme/$pm_run \
$data/bus-host/sessions.json $HOME/mosaic/acme/pm $HOME/.config/mosaic/system.json $here; do \
if ls \$f >/dev/null 2>&1; then echo \"reached \$f\"; else echo \"out of reach: \$f\"; fi; done"
ask "Look around." "[{\"tool\":\"bash\",\"input\":{\"command\":$(printf '%s' "$command" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$/"/')}},{\"text\":\"{results}\"}]"
[ "$(grep -o 'reached /' "$scratch/reply" | wc -l)" -eq 1 ] || fail "the shell reached more than its workspace"
[ "$(grep -o 'out of reach: /' "$scratch/reply" | wc -l)" -eq 6 ] || fail "six places should be out of reach"

heading "Its file tools stay in the workspace: the gate answers before they run"
ask "Read two files." "[{\"tool\":\"read\",\"input\":{\"$path\":\"$HOME/mosaic/acme/coder/note.txt\"}},{\"tool\":\"read\",\"input\":{\"$path\":\"/etc/hostname\"}},{\"text\":\"{results}\"}]"
grep -q 'written' "$scratch/reply" || fail "the note should be readable"
grep -q 'outside the workspace' "$scratch/reply" || fail "/etc/hostname should be denied"

heading "The conversation goes on"
ask "Which turn is this?" '[{"text":"It is turn {turns}."}]'
grep -q 'turn 4' "$scratch/reply" || fail "the earlier turns should be known"

heading "What the model saw of it: $(wc -l <"$scratch/model.log") requests, the last one's tools and system prompt"
tail -n 1 "$scratch/model.log" | sed -E 's/.*"tools":(\[[^]]*\]).*/   \1/'
tail -n 1 "$scratch/model.log" | grep -o 'You are the role `coder`[^\\]*' | head -n 1 | sed 's/^/   /'

heading "A clean stop"
kill -TERM "$host"
wait "$host"
status=$?
host=
[ "$status" -eq 0 ] || fail "the host ended with status $status"
tail -n 2 "$data/launches/acme.jsonl" | sed 's/^/   /'
