#!/usr/bin/env bash
# Runs cargo-deny: licences, bans and sources by deny.toml, and advisories if their database can be fetched.
#
# If cargo-deny is not in PATH, it is built in the background: `deny.sh start` starts the build and returns immediately.
# `deny.sh run` checks, or prints why it cannot.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/later.sh
version=0.20.2
place=$CI_CACHE/deny/$version

program() {
    command -v cargo-deny 2>/dev/null && return
    later_wait "$place" 1 >/dev/null && echo "$place/bin/cargo-deny"
}

case ${1:-} in
start) command -v cargo-deny >/dev/null 2>&1 || later_start "$place" bash .ci/deny.sh install ;;
install)
    # A separate target directory and a single job, so as not to slow down the run's own builds.
    CARGO_TARGET_DIR=$place/target cargo install --locked --jobs 1 --root "$place" "cargo-deny@$version"
    rm -rf "$place/target"
    touch "$place/ready"
    ;;
run)
    deny=$(program) || { echo "deny: skipped, cargo-deny is not there: $(later_wait "$place" 1 || true)"; exit 0; }
    "$deny" --locked check --hide-inclusion-graph licenses bans sources
    # The database is a remote git repository; without it, advisories cannot be checked.
    fetched=$CI_CACHE/deny/advisories.log
    if timeout 60 "$deny" fetch db >"$fetched" 2>&1; then
        "$deny" --locked check --disable-fetch --hide-inclusion-graph advisories
    else
        echo "deny: advisories skipped, their database cannot be had: $(tail -n 1 "$fetched" | cut -c 1-150)"
    fi
    ;;
*)
    echo "usage: deny.sh start | run" >&2
    exit 2
    ;;
esac
