#!/bin/sh
# What Claude Code asks before each call of a tool. It lets a tool run whose hook fails, hangs or says
# nothing, and takes only exit status 2 for a no: so whatever isn't a readable yes ends with 2 here,
# and sooner than Claude Code's own time-out.
answer=$(timeout -k 1 15 /run/mosaic/mosaic-runner gate "$MOSAIC_BUNDLE/gate.json") || {
    echo "the gate gave no answer, so the call is blocked" >&2
    exit 2
}
case $answer in
    '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}') ;;
    '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny",'*) ;;
    *)
        echo "the gate's answer can't be read, so the call is blocked" >&2
        exit 2
        ;;
esac
printf '%s\n' "$answer"
