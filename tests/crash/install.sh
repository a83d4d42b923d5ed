#!/bin/sh
# Lays out what the crash tests kill:   install.sh BUILD_DIRECTORY
#   <build>/e2e/prefix-crash    the installed product with the host and the broker of <build>/crash/bin
#                               ($MOSAIC_CRASH_BIN is used instead when set)
set -eu
build=$1
out=$build/e2e
prefix=${MOSAIC_E2E_PREFIX:-$out/prefix}
programs=${MOSAIC_CRASH_BIN:-$build/crash/bin}
rm -rf "$out/prefix-crash.new"
cp -R "$prefix" "$out/prefix-crash.new"
for program in mosaic-host mosaic-broker; do
    installed=$(find "$out/prefix-crash.new" -type f -name "$program")
    if [ -z "$installed" ]; then
        echo "install.sh: there is no $program in $prefix" >&2
        exit 1
    fi
    cp "$programs/$program" "$installed"
done
chmod -R go-w "$out/prefix-crash.new"
rm -rf "$out/prefix-crash"
mv "$out/prefix-crash.new" "$out/prefix-crash"
