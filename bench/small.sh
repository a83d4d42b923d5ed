#!/bin/bash
# A run of each benchmark that is too small to tell anything but that it works:
#   small.sh MOSAIC_BENCH MOSAIC_BENCH_MICRO
# Exits 77 (ctest's skip) with the reason where this machine can't run it.
set -uo pipefail
bench=$1
micro=$2

if [ "$(id -u)" -eq 0 ]; then
    user=$(getent passwd mosaic nobody | head -n 1 | cut -d: -f1)
    exec setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups "$0" "$bench" "$micro"
fi
cd / || exit 1

# holds REPORT WORD...
holds() {
    local report=$1 word
    shift
    for word in "$@"; do
        if ! grep -qF -- "$word" <<<"$report"; then
            printf 'no %s in the report:\n%s\n' "$word" "$report"
            exit 1
        fi
    done
}

report=$("$bench" launch --launches 3 --in-flight 2 --live 1 --rounds 1 --json) || exit
holds "$report" '"kernel":' '"bwrap":"bubblewrap' '"product":{"n":3,' '"bwrap":{"n":3,' '"bare":{"n":3,' \
    '"claimed":{"n":3,' '"p50ToB":'
report=$("$bench" launch --launches 3 --in-flight 2 --warm --rounds 1 --json) || exit
holds "$report" '"warm":{"n":3,' '"warmGiven":{"n":3,' '"warmWall":{"n":3,'
if [ -x /usr/bin/node ] || [ -x /usr/local/bin/node ]; then
    report=$("$bench" launch --launches 3 --in-flight 2 --node --rounds 1 --json) || exit
    holds "$report" '"node":{"n":3,' '"productToNode":'
else
    echo "no node here: its launcher isn't tried"
fi
report=$("$bench" launch --launches 2) || exit
holds "$report" 'product, as the caller sees it' 'B: bwrap alone' 'persisted' 'noise: over 2 blocks'
report=$("$bench" levels --launches 2 --json) || exit
holds "$report" '"everything":{"n":2,' '"seccomp":{"n":2,' '"hardening":{"n":2,'
report=$("$bench" memory --live 2 --rounds 1 --json) || exit
holds "$report" '"availableDrop":' '"hostResident":'
report=$("$bench" fairness --sessions 4 --messages 2 --rounds 2 --json) || exit
holds "$report" '"claim":{"quiet":{"n":4,' '"message":{"quiet":{"n":8,' '"p99Ratio":' '"floodPerSecond":'
report=$("$bench" fairness --sessions 2 --messages 1) || exit
holds "$report" 'message, beside a flood' 'flooded to quiet'

report=$("$micro" --benchmark_min_time=0.01) || {
    printf '%s\n' "$report"
    exit 1
}
holds "$report" run_machine_step frame_encode frame_decode bwrap_argv sessions_encode/1000 sessions_replace/1000/ \
    broker_message broker_claim

scratch=$(mktemp -d /var/tmp/mosaic-bench-small.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
"$bench" launch --launches 1 --svg "$scratch/plots" >/dev/null || exit
holds "$(cat "$scratch/plots/launch.svg")" '<svg ' 'B: bwrap alone' '</svg>'
report=$("$bench" live --at 0,2 --launches 2 --idle 0 --svg "$scratch/plots" --json) || exit
holds "$report" '{"live":0,"product":{"n":2,' '{"live":2,"product":{"n":2,' '"hostWakeups":' '"processesLeft":0'
holds "$(cat "$scratch/plots/live.svg")" '<svg ' 'live sessions' '</svg>'
rm -r "$scratch/plots"

# An interrupted run ends its host and takes its scratch directory away.
coproc "$bench" launch --launches 1000 --rounds 1000 --scratch "$scratch" 2>&1
pid=$COPROC_PID
read -r first <&"${COPROC[0]}"
kill -INT "$pid"
rest=$(cat <&"${COPROC[0]}")
wait "$pid"
status=$?
holds "$first" 'block 1 of'
holds "$rest" 'interrupted'
if [ "$status" -ne 1 ] || [ -n "$(ls -A "$scratch")" ]; then
    echo "after an interruption: status $status, left in $scratch: $(ls -A "$scratch")"
    exit 1
fi
