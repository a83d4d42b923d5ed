#!/bin/sh
# Lays out what the end-to-end tests start:   install.sh BUILD_DIRECTORY PUPPET_RUNNER
#   <build>/e2e/prefix           the installed product ($MOSAIC_E2E_PREFIX is used instead when set)
#   <build>/e2e/prefix-puppet    the same, with the tests' stand-in as mosaic-runner
set -eu
build=$1
puppet=$2
out=$build/e2e
mkdir -p "$out"
rm -rf "$out/prefix.new" "$out/prefix-puppet.new"
prefix=${MOSAIC_E2E_PREFIX:-}
if [ -z "$prefix" ]; then
    cmake --install "$build" --prefix "$out/prefix.new" >"$out/install.log" 2>&1 || {
        cat "$out/install.log" >&2
        exit 1
    }
    prefix=$out/prefix.new
fi
cp -R "$prefix" "$out/prefix-puppet.new"
runner=$(find "$out/prefix-puppet.new" -type f -name mosaic-runner)
if [ -z "$runner" ]; then
    echo "install.sh: there is no mosaic-runner in $prefix" >&2
    exit 1
fi
cp "$puppet" "$runner"
chmod -R go-w "$out/prefix-puppet.new"
rm -rf "$out/prefix-puppet"
mv "$out/prefix-puppet.new" "$out/prefix-puppet"
if [ -d "$out/prefix.new" ]; then
    rm -rf "$out/prefix"
    mv "$out/prefix.new" "$out/prefix"
fi
