#!/bin/sh
# One turn: runs the role's own command in the workspace, with the message's body on standard input
# and all of the turn's variables. What it prints is the reply; its exit code is the turn's.
cd "$MOSAIC_WORKSPACE" || exit 1
exec /bin/sh -c "$MOSAIC_VAR_SCRIPT_COMMAND"
