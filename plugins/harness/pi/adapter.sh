#!/bin/sh
# One turn of Pi: the request goes in on standard input, the answer is the last message of the
# assistant in its JSON lines. Later turns of a run, or of a thread, continue its conversation.
set -u
# A turn that is told to end waits for Pi, which ends by the same signal.
trap : TERM

give_up() {
    printf '%s\n' "$*" >&2
    exit 1
}

agent=$PI_CODING_AGENT_DIR
work=$(mktemp -d) || give_up "no directory for this turn's files"

case ${MOSAIC_VAR_PI_RETRIES:=3} in
    '' | *[!0-9]* | ???*) give_up "pi.retries: expected a number of at most 99" ;;
esac

# Pi's own settings are made anew for each turn: nothing that a session wrote there (settings,
# extensions, models, credentials) configures its next turn.
rm -rf "$agent"
mkdir -p "$agent" || give_up "$agent can't be made"
# Pi tries again by itself; the client below it must not multiply that.
printf '{"retry":{"enabled":true,"maxRetries":%d,"baseDelayMs":1000,"provider":{"maxRetries":0,"maxRetryDelayMs":30000}},"quietStartup":true}\n' \
    "$MOSAIC_VAR_PI_RETRIES" >"$agent/settings.json" || give_up "$agent/settings.json can't be written"

# Pi doesn't know ANTHROPIC_BASE_URL and would send a proxy's key to the provider itself.
if [ "$MOSAIC_PROVIDER" = anthropic ] && [ -n "${ANTHROPIC_BASE_URL:-}" ]; then
    case $ANTHROPIC_BASE_URL in
        *[!A-Za-z0-9:/._~%?=\&@-]*) give_up "ANTHROPIC_BASE_URL holds a character that no URL has" ;;
    esac
    printf '{"providers":{"anthropic":{"baseUrl":"%s"}}}\n' "$ANTHROPIC_BASE_URL" >"$agent/models.json" ||
        give_up "$agent/models.json can't be written"
fi

mkdir -p "$MOSAIC_SESSION_DIR" || give_up "$MOSAIC_SESSION_DIR can't be made"

set -- -p --mode json --offline \
    --provider "$MOSAIC_PROVIDER" --model "$MOSAIC_MODEL" --thinking "$MOSAIC_THINKING" \
    --system-prompt "$MOSAIC_BUNDLE/prompt.md" \
    --session-dir "$MOSAIC_SESSION_DIR" --continue \
    --no-extensions -e "$MOSAIC_MODULE/extension.mjs" \
    --no-skills --no-prompt-templates --no-themes --no-context-files --no-approve
if [ -n "$MOSAIC_TOOL_NAMES" ]; then
    set -- "$@" --tools "$MOSAIC_TOOL_NAMES"
else
    set -- "$@" --no-tools
fi

{
    "$MOSAIC_NODE" "$MOSAIC_PROGRAM" "$@" <"$MOSAIC_REQUEST_FILE" 2>"$work/stderr"
    echo $? >"$work/status"
} | /run/mosaic/mosaic-runner extract \
    --where /type=message_end --where /message/role=assistant --text '/message/content/*/text' \
    --failed /message/stopReason=error --failed /message/stopReason=aborted --reason /message/errorMessage
answer=$?

exited=$(cat "$work/status" 2>/dev/null || echo unknown)
tail -c 4096 "$work/stderr" >&2
rm -rf "$work"
if [ "$answer" -ne 0 ] || [ "$exited" != 0 ]; then
    give_up "Pi exited with status $exited"
fi
