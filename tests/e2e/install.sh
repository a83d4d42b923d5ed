#!/bin/sh
# Lays out what the end-to-end tests start:   install.sh BUILD_DIRECTORY PUPPET_RUNNER WEAK_RUNNER
#   <build>/e2e/prefix           the installed product ($MOSAIC_E2E_PREFIX is used instead when set)
#   <build>/e2e/prefix-puppet    the same, with the tests' stand-in as mosaic-runner
#   <build>/e2e/prefix-weak      the same, with a mosaic-runner that lacks protections on request
set -eu
build=$1
out=$build/e2e
mkdir -p "$out"
rm -rf "$out/prefix.new" "$out/prefix-puppet.new" "$out/prefix-weak.new"
prefix=${MOSAIC_E2E_PREFIX:-}
if [ -z "$prefix" ]; then
    cmake --install "$build" --prefix "$out/prefix.new" >"$out/install.log" 2>&1 || {
        cat "$out/install.log" >&2
        exit 1
    }
    prefix=$out/prefix.new
fi
# copy NAME RUNNER: the product with another runner.
copy() {
    cp -R "$prefix" "$out/$1.new"
    runner=$(find "$out/$1.new" -type f -name mosaic-runner)
    if [ -z "$runner" ]; then
        echo "install.sh: there is no mosaic-runner in $prefix" >&2
        exit 1
    fi
    cp "$2" "$runner"
    chmod -R go-w "$out/$1.new"
    rm -rf "${out:?}/$1"
    mv "$out/$1.new" "$out/$1"
}
copy prefix-puppet "$2"
copy prefix-weak "$3"
if [ -d "$out/prefix.new" ]; then
    rm -rf "$out/prefix"
    mv "$out/prefix.new" "$out/prefix"
fi
