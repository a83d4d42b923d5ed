#!/bin/bash
# Run by root, with MOSAIC_TREE (a built tree) and MOSAIC_E2E_PREFIX: the probe table again, in sessions of
# a host that root starts and that becomes the user by itself.
set -euo pipefail
tree=${MOSAIC_TREE:?}
[ "$(id -u)" -eq 0 ] || { echo "probes: only root can run this" >&2; exit 1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cd /
# The tests' own process keeps root's saved id, which the leak checker of its build can't trace.
ASAN_OPTIONS=detect_leaks=0 MOSAIC_E2E_ROOT_HOST=1 MOSAIC_MUST_WORK=1 "$tree/build/debug/bin/e2e_test" \
    --test-case='every row of the probe table holds in a real turn,a turn can'\''t reach its runner*' |
    tee "$log"
grep -q 'test cases: *2 | *2 passed' "$log" || { echo "probes: not all of the probe table passed" >&2; exit 1; }
