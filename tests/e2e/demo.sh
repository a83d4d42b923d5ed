#!/bin/bash
# Plays examples/acme on the installed product:   demo.sh SOURCE_TREE PREFIX
# Started as root (a developer's container) it becomes the user of tools/test first.
set -u
prefix=${MOSAIC_E2E_PREFIX:-$2}
command=("$1/examples/acme/play.sh" "$prefix" "$1/src")
if [ "$(id -u)" -eq 0 ]; then
    user=$(getent passwd mosaic nobody | head -n 1 | cut -d: -f1)
    exec setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups "${command[@]}"
fi
exec "${command[@]}"
