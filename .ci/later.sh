# To be sourced: what takes long to get is made in the background and kept; a run that comes too early does without it.
CI_CACHE=${CI_CACHE:-${XDG_CACHE_HOME:-${HOME:-/nowhere}/.cache}/deepagents-ci}

# later_start FOLDER COMMAND...: makes FOLDER/ready come about, for two hours at most, also after the run has ended.
# Whoever makes it holds the lock beside the folder, so two do not.
later_start() {
    local folder=$1
    shift
    [ ! -e "$folder/ready" ] && mkdir -p "${folder%/*}" 2>/dev/null || return 0
    exec 8>>"$folder.lock"
    if flock -n 8; then
        setsid nice -n 19 timeout 7200 "$@" >"$folder.log" 2>&1 </dev/null &
    fi
    exec 8>&-
}

# later_wait FOLDER SECONDS: whether it is there, after so many seconds at most; prints why not.
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
