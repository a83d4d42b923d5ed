#!/bin/bash
# Plays the README's walk-through word for word:   play.sh README PREFIX [COMMANDS-AT-LEAST]
#
# The README marks its blocks:  <!-- walkthrough: terminal N -->  stands before a ```console block whose
# "$ " lines are typed there and whose other lines must be printed, "..." standing for anything.
# Terminal 2 is the one where each command ends before the next is typed: all that it prints must be
# there, and nothing else. In the others a command goes on until  <!-- walkthrough: interrupt N -->
# (Ctrl-C); its lines must come in their order, and others may stand between them.
set -uo pipefail
readme=$(realpath "$1") || exit 1
prefix=${MOSAIC_E2E_PREFIX:-$2}

if [ "$(id -u)" -eq 0 ]; then
    user=$(getent passwd mosaic nobody | head -n 1 | cut -d: -f1)
    exec setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups "$0" "$readme" "$prefix" "${3:-10}"
fi

scratch=$(mktemp -d /var/tmp/mosaic-walk.XXXXXX)
export HOME="$scratch/home/jordan" USER=jordan LOGNAME=jordan LANG=C.UTF-8
export PATH="$prefix/bin:/usr/local/bin:/usr/bin:/bin"
unset XDG_STATE_HOME XDG_CONFIG_HOME MOSAIC_CONFIG
mkdir -p "$HOME"
cd "$HOME" || exit 1
# Job control: a background command has its own process group and answers to SIGINT, as in a terminal.
set -m
declare -A job=()
typed=0

clean_up() {
    local status=$?
    local n pid
    trap - EXIT
    for n in "${!job[@]}"; do
        kill -TERM "${job[$n]}" 2>/dev/null
        wait "${job[$n]}" 2>/dev/null
    done
    for pid in $(pgrep -u "$(id -u)" -f "^[^ ]*(bwrap|mosaic-runner) .*$scratch/"); do
        kill -KILL "$pid" 2>/dev/null
    done
    cd /
    chmod -R u+rwX "$scratch" 2>/dev/null
    rm -rf "$scratch"
    exit "$status"
}
trap clean_up EXIT

fail() {
    printf 'the walk-through fails: %s\n' "$*" >&2
    local n
    for n in 1 3; do
        [ -f "$scratch/terminal$n" ] && { printf -- '--- terminal %s\n' "$n"; cat "$scratch/terminal$n"; } >&2
    done
    exit 1
}

# matches EXPECTED ACTUAL: with "..." for anything and runs of spaces equal, since columns are as wide as
# what stands in them.
matches() {
    local expected actual pattern
    expected=$(printf '%s' "${1//\/home\/jordan/$HOME}" | tr -s ' ')
    actual=$(printf '%s' "$2" | tr -s ' ')
    # Quoted parts of a pattern are literal, so only the * between them match.
    pattern=$expected
    local rest=$actual part first=1
    while [[ $pattern == *...* ]]; do
        part=${pattern%%...*}
        pattern=${pattern#*...}
        if [ "$first" -eq 1 ]; then
            [[ $rest == "$part"* ]] || return 1
            rest=${rest#"$part"}
        else
            [[ $rest == *"$part"* ]] || return 1
            rest=${rest#*"$part"}
        fi
        first=0
    done
    if [ "$first" -eq 1 ]; then
        [[ $rest == "$pattern" ]]
    else
        [[ $rest == *"$pattern" ]]
    fi
}

# Reads lines of a terminal from descriptor 4 until one matches.
await_line() {
    local line deadline=$((SECONDS + 30))
    while [ "$SECONDS" -lt "$deadline" ] && IFS= read -r -t 30 line <&4; do
        matches "$1" "$line" && return 0
    done
    return 1
}

# Everything that a running terminal must have printed by the end of its block.
declare -A awaited=()

await_terminal() {
    local n=$1 line
    exec 4< <(exec timeout 40 tail -n +1 -s 0.1 -f "$scratch/terminal$n" 2>/dev/null)
    local tail_pid=$!
    while IFS= read -r line; do
        [ -z "$line" ] && continue
        await_line "$line" || fail "terminal $n never printed: $line"
    done <<<"${awaited[$n]}"
    exec 4<&-
    kill "$tail_pid" 2>/dev/null
    awaited[$n]=
}

run_here() {
    local command=$1 expected=$2 out line actual
    printf '$ %s\n' "$command"
    out=$(timeout 60 bash -c "$command" 2>&1)
    printf '%s\n' "$out"
    [ "$(printf '%s\n' "$out" | wc -l)" -eq "$(printf '%s\n' "$expected" | wc -l)" ] ||
        fail "\"$command\" should print $(printf '%s\n' "$expected" | wc -l) lines:"$'\n'"$expected"
    while IFS= read -r line <&5 && IFS= read -r actual <&6; do
        matches "$line" "$actual" || fail "\"$command\": expected: $line"
    done 5<<<"$expected" 6<<<"$out"
    typed=$((typed + 1))
}

run_there() {
    local n=$1 command=$2
    printf '[terminal %s] $ %s\n' "$n" "$command"
    : >"$scratch/terminal$n"
    # exec: the job is the command itself, as it is for Ctrl-C in a terminal.
    bash -c "exec $command" >"$scratch/terminal$n" 2>&1 &
    job[$n]=$!
    awaited[$n]=$3
    typed=$((typed + 1))
}

perform() {
    local n=$1 command=$2 expected=$3
    [ -n "$command" ] || return 0
    if [ "$n" -eq 2 ]; then
        run_here "$command" "$expected"
    else
        run_there "$n" "$command" "$expected"
        # Terminal 1 must be ready before anything is typed elsewhere; a follower is awaited at its end.
        [ "$n" -ne 1 ] || await_terminal "$n"
    fi
}

interrupt() {
    local n=$1
    await_terminal "$n"
    printf '[terminal %s] ^C\n' "$n"
    kill -INT "${job[$n]}"
    wait "${job[$n]}"
    local status=$?
    unset "job[$n]"
    if [ "$n" -eq 1 ] && [ "$status" -ne 0 ]; then
        fail "the host ended with $status"
    fi
}

terminal=
inside=
command=
expected=
while IFS= read -r line <&7; do
    if [ -z "$inside" ]; then
        case $line in
            '<!-- walkthrough: terminal '*) terminal=${line#*terminal } terminal=${terminal%% *} ;;
            '<!-- walkthrough: interrupt '*) n=${line#*interrupt } && interrupt "${n%% *}" ;;
            '```console') [ -z "$terminal" ] || inside=1 ;;
        esac
        continue
    fi
    case $line in
        '```')
            perform "$terminal" "$command" "$expected"
            terminal='' inside='' command='' expected=''
            ;;
        '$ '*)
            perform "$terminal" "$command" "$expected"
            command=${line#\$ } expected=''
            ;;
        *) expected=${expected:+$expected$'\n'}$line ;;
    esac
done 7<"$readme"

[ "${#job[@]}" -eq 0 ] || fail "the README leaves a command running"
[ "$typed" -ge "${3:-10}" ] || fail "only $typed commands were found in $readme"
left=$(pgrep -u "$(id -u)" -f "$scratch/" | grep -cv "^$$\$")
[ "$left" -eq 0 ] || fail "$left processes are left"
printf '\n%d commands, each as the README says\n' "$typed"
