#!/bin/sh
# A coder's turn: standard input is the message's body, standard output becomes the reply.
#   survey DIRECTORY   files and lines of each directory below it in the workspace
#   probe PATH...      whether this session can read each path
set -eu
read -r verb arguments || true

survey() {
    if [ ! -d "$1" ]; then
        echo "there is no directory $1 in my workspace"
        return
    fi
    printf '%-12s %6s %7s\n' room files lines
    for room in "$1"/*/; do
        files=$(find "$room" -type f | wc -l)
        lines=$(find "$room" -type f -exec cat {} + | wc -l)
        printf '%-12s %6d %7d\n' "$(basename "$room")" "$files" "$lines"
    done
    files=$(find "$1" -type f | wc -l)
    lines=$(find "$1" -type f -exec cat {} + | wc -l)
    printf '%-12s %6d %7d\n' total "$files" "$lines"
}

probe() {
    for path in "$@"; do
        if cat "$path" >/dev/null 2>&1 || ls "$path"/ >/dev/null 2>&1; then
            echo "yes $path"
        else
            echo "no $path"
        fi
    done
}

case ${verb:-} in
    survey) survey "$arguments" ;;
    # shellcheck disable=SC2086 # one word a path
    probe) probe $arguments ;;
    *) echo "I don't know how to do that. I know: survey DIRECTORY, probe PATH..." ;;
esac
