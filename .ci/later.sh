# To be sourced: slow builds run in the background and are cached. A run that starts before they are done goes without.
CI_CACHE=${CI_CACHE:-${XDG_CACHE_HOME:-${HOME:-/nowhere}/.cache}/deepagents-ci}

# later_start FOLDER COMMAND...: runs a command that creates FOLDER/ready, for two hours at most, even after this run has
# ended. It holds the lock next to the folder, so that only one runs.
later_start() {
    local folder=$1
    shift
    [ ! -e "$folder/ready" ] && mkdir -p "${folder%/*}" 2>/dev/null || return 0
    exec 8>>"$folder.lock"
    if flock -n 8; then
        # The scheduler shares the processors between sessions before it looks at the priority of processes, so the
        # session has to be made nice, too.
        setsid timeout 7200 nice -n 19 bash -c 'echo 19 2>/dev/null >/proc/self/autogroup || true; exec "$@"' - "$@" \
            >"$folder.log" 2>&1 </dev/null &
    fi
    exec 8>&-
}

# later_wait FOLDER SECONDS: waits for FOLDER/ready, at most this long. Fails and prints why if it is missing.
later_wait() {
    local folder=$1
    for _ in $(seq "$2"); do
        { [ ! -e "$folder/ready" ] && ! flock -n "$folder.lock" true 2>/dev/null; } || break
        sleep 1
    done
    [ ! -e "$folder/ready" ] || return 0
    if ! flock -n "$folder.lock" true 2>/dev/null; then
        echo "still being made; the next run will find it"
    else
        echo "cannot be made: $(grep -i '^error' "$folder.log" 2>/dev/null | tail -n 1 | cut -c 1-200 | grep . || echo "see $folder.log")"
    fi
    return 1
}
