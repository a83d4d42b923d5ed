# Brings the agent programs that harness tests and demos run. Sourced by bash after lib.sh.

# Installs npm where there is none, then the programs, as the ordinary user. Sets HARNESSES.
install_harnesses() {
    local log found
    if ! command -v npm >/dev/null; then
        echo "installing: npm"
        local -a sudo=()
        [ "$(id -u)" -eq 0 ] || sudo=(sudo)
        log=$(mktemp)
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
            install -y --no-install-recommends npm >"$log" 2>&1 || {
            tail -n 20 "$log" >&2
            rm -f "$log"
            return 1
        }
        rm -f "$log"
    fi
    log=$(mktemp)
    as_user tools/npm-harnesses 9>&- | tee "$log"
    local status=${PIPESTATUS[0]}
    found=$(sed -n 's/^harnesses: //p' "$log")
    rm -f "$log"
    [ "$status" -eq 0 ] && [ -n "$found" ] || return 1
    HARNESSES=$found
}
