#!/bin/sh
# The PM's turn: standard input is the message's body, standard output becomes the reply.
#
# A model would decide here what to do. This PM knows one request, "survey DIRECTORY", and handles it
# the way a model does: with the typed tools of its session and with nothing else.
set -eu
request=$(cat)
case $request in
    "survey "*) ;;
    *)
        echo "I don't know how to do that. I know: survey DIRECTORY"
        exit 0
        ;;
esac

# A tool's result is JSON on standard output; a refusal's code is on standard error.
tool() {
    /run/mosaic/mosaic-runner tool "$1" "$2" 2>&1
}

hand_over() {
    seat=$1
    if launched=$(tool launch "{\"instance\":\"$seat\"}"); then
        how="launched for this"
    elif [ "$launched" = instance-running ]; then
        how="already there"
    else
        echo "$seat: could not be launched: $launched"
        return 1
    fi
    answer=$(tool message_send "{\"to\":\"$seat\",\"body\":\"$request\",\"wait\":20}") || true
    # The text of "body", with \n, \t and \" decoded: all that a survey's table holds.
    body=$(printf '%s' "$answer" | sed -n 's/.*"body":"\(\([^"\\]\|\\.\)*\)".*/\1/p')
    if [ -z "$body" ]; then
        echo "$seat ($how) gave no answer: $answer"
        return 1
    fi
    echo "From $seat, $how:"
    printf '%s' "$body" | sed -e 's/\\n/\n/g' -e 's/\\t/\t/g' -e 's/\\"/"/g'
    echo
}

# A quotation mark or a backslash in the request would break the JSON that is built above.
case $request in
    *[!a-zA-Z0-9\ ./_-]*)
        echo "A directory's name may have letters, digits and . / _ - here."
        exit 0
        ;;
esac

hand_over coder
hand_over reviewer
