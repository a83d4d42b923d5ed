#!/bin/bash
# Run by root, with MOSAIC_TREE (a built tree): the kernel tests again, for the cases that only root can
# set up, such as a small tmpfs that fills up or a directory that belongs to somebody else.
set -euo pipefail
tree=${MOSAIC_TREE:?}
[ "$(id -u)" -eq 0 ] || { echo "kernel: only root can run this" >&2; exit 1; }
for room in host process; do
    (cd / && MOSAIC_MUST_WORK=1 "$tree/build/debug/tests/kernel/$room/${room}_kernel_test")
done
