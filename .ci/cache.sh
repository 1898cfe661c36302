# To be sourced: selects the target directory, so that dependencies are not rebuilt in each run.
#
# CI_CACHE is the cache directory, by default ~/.cache/deepagents-ci. It has one target directory per lock file, compiler
# and profile; the latest two are kept. A new one takes over the latest of the others, because most dependencies stay the
# same when a few change. They hold dependencies only: the artefacts of this workspace are removed at the
# start and end of a run, because the files of a checkout may be older than what another checkout left. If the
# directory is in use or cannot be written, the run builds in target/ of the checkout and is only slower.

CI_CACHE=${CI_CACHE:-${XDG_CACHE_HOME:-${HOME:-/nowhere}/.cache}/deepagents-ci}
cache_place=

# Lists compiled dependencies: path, size, modification time.
cache_list() {
    (cd "$cache_place/target" && find . \( -path '*/deps/*' -o -path '*/build/*/out/*' \) -type f \
        \( -name '*.rlib' -o -name '*.rmeta' -o -name '*.so' -o -name '*.a' \) ! -name 'libdeepagents*' \
        -printf '%p %s %T@\n' | LC_ALL=C sort)
}

# Moves the latest directory that is not in use to `cache_place`; cargo rebuilds what differs.
cache_take_over() {
    local lock
    find "$CI_CACHE" -maxdepth 1 -name '*.lock' ! -path "$cache_place.lock" -printf '%T@ %p\n' | sort -rn | cut -d ' ' -f 2- |
        while read -r lock; do
            [ -e "${lock%.lock}/target" ] || continue
            if (flock -n 8 && mv "${lock%.lock}" "$cache_place") 8>>"$lock" 9>&-; then break; fi
        done
}

cache_open() {
    if ! mkdir -p "$CI_CACHE" 2>/dev/null || [ ! -w "$CI_CACHE" ]; then
        echo "cache: none, $CI_CACHE cannot be written"
        return
    fi
    local key
    key=$({ rustc -vV; cat Cargo.lock; sed -n '/^\[profile/,$p' Cargo.toml | grep -v '^#'; env | LC_ALL=C sort | grep -E '^(CARGO_(PROFILE|ENCODED)|RUSTFLAGS)' || true; } |
        sha256sum | cut -c 1-16)
    # The lock is next to the directory, so that it survives when the directory is removed.
    exec 9>>"$CI_CACHE/$key.lock"
    if ! flock -n 9; then
        exec 9>&-
        echo "cache: in use by another run; building in target/"
        return
    fi
    touch "$CI_CACHE/$key.lock"
    cache_place=$CI_CACHE/$key
    [ -e "$cache_place" ] || cache_take_over
    if [ -e "$cache_place/target" ] &&
        { [ ! -s "$cache_place/list" ] || cache_list | LC_ALL=C comm -13 - "$cache_place/list" | grep -q .; }; then
        echo "cache: what is in $cache_place is not what was left there; made again"
        rm -rf "$cache_place/target"
    fi
    mkdir -p "$cache_place/target"
    export CARGO_TARGET_DIR=$cache_place/target
    cargo clean -q --workspace --locked
    echo "cache: $cache_place ($(du -sh "$CARGO_TARGET_DIR" | cut -f 1))"
}

# Keeps only dependencies, and at most two target directories of at most 4 GB each.
cache_close() {
    [ -n "$cache_place" ] || return 0
    echo "cache: left for the next run in $cache_place"
    cargo clean -q --workspace --locked || rm -rf "$CARGO_TARGET_DIR"
    rm -rf "$CARGO_TARGET_DIR/doc" "$CARGO_TARGET_DIR/tmp"
    if [ -d "$CARGO_TARGET_DIR" ] && [ "$(du -sm "$CARGO_TARGET_DIR" | cut -f 1)" -gt 4096 ]; then
        rm -rf "$CARGO_TARGET_DIR"
    fi
    if [ -d "$CARGO_TARGET_DIR" ]; then
        cache_list >"$cache_place/list.new" && mv "$cache_place/list.new" "$cache_place/list"
    fi
    local lock
    find "$CI_CACHE" -maxdepth 1 -name '*.lock' -printf '%T@ %p\n' | sort -rn | tail -n +3 | cut -d ' ' -f 2- |
        while read -r lock; do
            # Directories in use are kept.
            (flock -n 8 && rm -rf "${lock%.lock}") 8>>"$lock" || true
        done
    exec 9>&-
}
