# What the commands in tools/ that build the product share: install what is missing, find the user to work as, build.
# Sourced by bash. After `prepare`:
#   TREE      the source tree to build in, readable and writable for the user we work as
#   as_user   runs a command as that user, in TREE, with a small environment of its own
#
# The product never runs sessions as root. Started as root (a container, a CI job) everything but
# the installation of packages is done as the system user `mosaic`, in a copy of the tree below that
# user's home, so that a clone under a 0700 /root works too.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
MOSAIC_USER=mosaic
MOSAIC_HOME=/var/lib/mosaic

die() {
    printf '\n%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# heading TEXT: one line of progress.
heading() {
    printf '\n== %s\n' "$*"
}

# The packages of packages.txt that aren't installed, one a line.
missing_packages() {
    local name
    sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' "$ROOT/tools/packages.txt" | while read -r name; do
        case "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" in
            installed) ;;
            *) printf '%s\n' "$name" ;;
        esac
    done
}

install_packages() {
    local missing log
    command -v dpkg-query >/dev/null || die "this needs Debian 12 or Ubuntu 24.04 (no dpkg here). \
Install what tools/packages.txt lists in your distribution's way, and use cmake --preset release."
    missing=$(missing_packages | tr '\n' ' ')
    if [ -z "$missing" ]; then
        echo "every package is there"
        return
    fi
    echo "installing: $missing"
    local -a sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "these packages are missing and there is no sudo. As root: apt-get install $missing"
        sudo=(sudo)
    fi
    log=$(mktemp)
    # The lists of a fresh machine are empty and those of an old one are stale: try, and fetch them
    # only when that fails.
    local -a apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
    # shellcheck disable=SC2086 # the names are words on purpose
    if ! "${apt[@]}" install -y --no-install-recommends $missing >"$log" 2>&1; then
        echo "fetching the package lists"
        if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends $missing; } >"$log" 2>&1; then
            tail -n 20 "$log" >&2
            rm -f "$log"
            die "apt-get could not install: $missing"
        fi
    fi
    rm -f "$log"
    missing=$(missing_packages | tr '\n' ' ')
    [ -z "$missing" ] || die "apt-get ended well, and these are still missing: $missing"
}

# The names of the files that make up the tree, NUL after each: tracked ones and new ones that git
# doesn't ignore; without git all but build output.
tree_files() {
    if command -v git >/dev/null && git -c safe.directory='*' -C "$ROOT" rev-parse --git-dir >/dev/null 2>&1; then
        git -c safe.directory='*' -C "$ROOT" ls-files -z --cached --others --exclude-standard |
            while IFS= read -r -d '' file; do
                if [ -e "$ROOT/$file" ] || [ -L "$ROOT/$file" ]; then
                    printf '%s\0' "$file"
                fi
            done
    else
        (cd "$ROOT" && find . \( -path ./build -o -path ./.git -o -path ./.cache \) -prune -o \( -type f -o -type l \) -print0)
    fi
}

# Runs a command as the ordinary user, in TREE.
as_user() {
    if [ "$(id -u)" -ne 0 ]; then
        (cd "$TREE" && "$@")
        return
    fi
    # Nothing of root's environment: no HOME under /root, no credentials.
    (cd / && exec setpriv --reuid="$MOSAIC_USER" --regid="$MOSAIC_USER" --init-groups \
        env -i HOME="$MOSAIC_HOME" USER="$MOSAIC_USER" LOGNAME="$MOSAIC_USER" SHELL=/bin/sh \
        PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 TERM="${TERM:-dumb}" \
        CCACHE_BASEDIR="$MOSAIC_HOME" CCACHE_NOHASHDIR=1 MOSAIC_MUST_WORK="${MOSAIC_MUST_WORK:-}" \
        sh -c 'cd "$0" && exec "$@"' "$TREE" "$@")
}

make_user() {
    if ! getent passwd "$MOSAIC_USER" >/dev/null; then
        echo "making the system user $MOSAIC_USER (home $MOSAIC_HOME): sessions never run as root"
        useradd --system --user-group --home-dir "$MOSAIC_HOME" --shell /bin/sh "$MOSAIC_USER" ||
            die "useradd could not make the user $MOSAIC_USER"
    fi
    if [ "$(id -u "$MOSAIC_USER")" -eq 0 ]; then
        die "the user $MOSAIC_USER is root here"
    fi
    MOSAIC_HOME=$(getent passwd "$MOSAIC_USER" | cut -d: -f6)
    [ -d "$MOSAIC_HOME" ] || install -d -m 0755 -o "$MOSAIC_USER" -g "$MOSAIC_USER" "$MOSAIC_HOME"
}

# What tells this clone from others below a shared directory.
tree_name() {
    printf '%s-%s' "$(basename "$ROOT")" "$(printf '%s' "$ROOT" | cksum | cut -d' ' -f1)"
}

# Sets TREE to the directory and brings it to the state of ROOT, written by the user himself: root
# only reads the clone. A file whose content is unchanged keeps its time, so that the build does only
# what it must.
copy_tree() {
    TREE=$1
    echo "copying the tree to $TREE"
    (
        TREE=/
        as_user mkdir -p "$1"
    )
    tree_files | tar -C "$ROOT" --null --no-recursion -T - -c -f - |
        as_user sh -c '
            set -eu
            new=.incoming
            rm -rf "$new"
            mkdir "$new"
            tar -x -f - -C "$new" --no-same-owner
            (cd "$new" && find . -type f -o -type l) | LC_ALL=C sort >.tree-new
            # What the last copy brought and this one does not.
            if [ -f .tree-files ]; then
                LC_ALL=C comm -23 .tree-files .tree-new | while IFS= read -r f; do rm -f "$f"; done
            fi
            while IFS= read -r f; do
                if [ -L "$new/$f" ] || ! cmp -s "$new/$f" "$f" || { [ -x "$new/$f" ] && [ ! -x "$f" ]; }; then
                    mkdir -p "$(dirname "$f")"
                    rm -f "$f"
                    mv "$new/$f" "$f"
                    [ -L "$f" ] || touch "$f"
                fi
            done <.tree-new
            mv .tree-new .tree-files
            rm -rf "$new"
        ' || die "could not copy $ROOT to $TREE"
}

# Installs packages, sets TREE and takes its lock for as long as this script lives.
prepare() {
    umask 022
    install_packages
    if [ "$(id -u)" -eq 0 ]; then
        make_user
        install -d -m 0755 -o "$MOSAIC_USER" -g "$MOSAIC_USER" "$MOSAIC_HOME/trees"
        exec 9>"/run/mosaic-tools-$(printf '%s' "$ROOT" | cksum | cut -d' ' -f1).lock" ||
            die "cannot make a lock file in /run"
    else
        TREE=$ROOT
        mkdir -p "$ROOT/build"
        exec 9>"$ROOT/build/.tools-lock" || die "cannot write in $ROOT/build"
    fi
    if ! flock -n 9; then
        echo "waiting for another tools/test or tools/demo of this tree to end"
        flock 9
    fi
    if [ "$(id -u)" -eq 0 ]; then
        echo "working as the user $MOSAIC_USER"
        copy_tree "$MOSAIC_HOME/trees/$(tree_name)"
    fi
}

# build DIRECTORY PRESET [cmake option...]: configures and builds, quietly; shows the end of the
# output when it fails.
build() {
    local directory=$1 preset=$2
    shift 2
    local log=build/$(basename "$directory").log
    as_user sh -c '
        log=$1; directory=$2; preset=$3
        shift 3
        mkdir -p build
        if ! cmake --preset "$preset" -B "$directory" "$@" >"$log" 2>&1; then
            tail -n 40 "$log" >&2
            exit 1
        fi
        cmake --build "$directory" 2>&1 | tee -a "$log" | tools/progress
    ' build "$log" "$directory" "$preset" "$@" 9>&-
}
