#!/bin/sh
# One turn of Claude Code: the request goes in on standard input, the answer comes out of the result
# line. Later turns of a run, or of a thread, continue its conversation.
set -u
# A turn that is told to end waits for Claude Code, which ends by the same signal, so that its
# transcript is whole.
trap : TERM

give_up() {
    printf '%s\n' "$*" >&2
    exit 1
}

kept=$CLAUDE_CONFIG_DIR
work=$(mktemp -d) || give_up "no directory for this turn's files"
errors=$work/stderr
status=$work/status

case ${MOSAIC_VAR_CLAUDE_CODE_RETRIES:=4} in
    '' | *[!0-9]* | ???*) give_up "claude-code.retries: expected a number of at most 99" ;;
esac
# Without a limit a dead key is tried again for minutes.
export CLAUDE_CODE_MAX_RETRIES="$MOSAIC_VAR_CLAUDE_CODE_RETRIES"

# A settings file that isn't there is the one thing that Claude Code would not notice as a lost gate.
[ -s "$MOSAIC_BUNDLE/settings.json" ] || give_up "$MOSAIC_BUNDLE/settings.json is missing"

# Of what earlier turns left only the conversations stay: nothing that a session wrote (settings,
# hooks, agents, plugins) configures its next turn.
if [ -L "$kept" ]; then
    rm -f "$kept"
fi
mkdir -p "$kept" || give_up "$kept can't be made"
find "$kept" -mindepth 1 -maxdepth 1 ! -name projects -exec rm -rf {} +

# turn FLAG: --session-id begins the conversation, --resume continues it.
turn() {
    {
        "$MOSAIC_PROGRAM" -p --output-format json --model "$MOSAIC_MODEL" --effort "$MOSAIC_THINKING" \
            "$1" "$MOSAIC_CONVERSATION" \
            --system-prompt-file "$MOSAIC_BUNDLE/prompt.md" --system-prompt-snapshot off \
            --tools "$MOSAIC_TOOL_NAMES" --permission-mode dontAsk --disable-slash-commands \
            --setting-sources "" --settings "$MOSAIC_BUNDLE/settings.json" \
            --strict-mcp-config --mcp-config "$MOSAIC_BUNDLE/mcp.json" \
            <"$MOSAIC_REQUEST_FILE" 2>"$errors"
        echo $? >"$status"
    } | /run/mosaic/mosaic-runner extract \
        --where /type=result --text /result --failed /is_error=true
}

transcripts() {
    find "$kept/projects" -mindepth 2 -maxdepth 2 -name "$MOSAIC_CONVERSATION.jsonl" "$@" 2>/dev/null
}

if [ -n "$(transcripts -type f -size +0)" ]; then
    turn --resume
    answer=$?
    # A turn that was cut off early can leave a file that holds no conversation.
    if [ "$answer" -eq 2 ] && grep -q '^No conversation found' "$errors"; then
        transcripts -exec rm -f {} +
        turn --session-id
        answer=$?
    fi
else
    transcripts -exec rm -f {} +
    turn --session-id
    answer=$?
fi

exited=$(cat "$status" 2>/dev/null || echo unknown)
tail -c 4096 "$errors" >&2
rm -rf "$work"
if [ "$answer" -ne 0 ] || [ "$exited" != 0 ]; then
    give_up "Claude Code exited with status $exited"
fi
