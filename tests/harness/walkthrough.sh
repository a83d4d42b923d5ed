#!/bin/bash
# Plays both walk-throughs of docs/harnesses.md in front of a stand-in for the model:
#   walkthrough.sh SOURCE_TREE PREFIX PROGRAMS
set -euo pipefail
source=$1
prefix=${MOSAIC_E2E_PREFIX:-$2}
programs=$(realpath "${MOSAIC_HARNESSES:-$3}")

if [ "$(id -u)" -eq 0 ]; then
    user=$(getent passwd mosaic nobody | head -n 1 | cut -d: -f1)
    exec setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups "$0" "$source" "$prefix" "$programs"
fi

work=$(mktemp -d /var/tmp/mosaic-walk.XXXXXX)
mkfifo "$work/until"
exec 8<>"$work/until"
"$programs/node" "$source/tests/harness/mock-model.mjs" --key stand-in --answer "I am the model's stand-in." \
    >"$work/url" &
model=$!
trap 'kill "$model"; rm -rf "$work"' EXIT
for _ in $(seq 100); do
    [ -s "$work/url" ] && break
    kill -0 "$model"
    read -r -t 0.1 -u 8 || true
done
ANTHROPIC_BASE_URL=$(cat "$work/url")
export ANTHROPIC_BASE_URL ANTHROPIC_API_KEY=stand-in
export MOSAIC_CLAUDE_BIN=$programs/claude MOSAIC_PI_BIN=$programs/pi MOSAIC_NODE_BIN=$programs/node
for section in 'A first business with Claude Code' 'A first business with Pi'; do
    awk -v heading="## $section" '/^## /{on = $0 == heading} on' "$source/docs/harnesses.md" >"$work/section.md"
    "$source/tests/walkthrough/play.sh" "$work/section.md" "$prefix" 6
done
