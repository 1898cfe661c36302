#!/usr/bin/env bash
# cargo-deny: licences, bans and sources by deny.toml; advisories where their database can be had. The program is taken from
# the path, or built in the background where it is not there yet: deny.sh start begins that and returns at once; deny.sh run
# checks, or says why it cannot.
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
    # Not the directory of the run's own build, and one job: this must not be in its way.
    CARGO_TARGET_DIR=$place/target cargo install --locked --jobs 1 --root "$place" "cargo-deny@$version"
    rm -rf "$place/target"
    touch "$place/ready"
    ;;
run)
    deny=$(program) || { echo "deny: skipped, cargo-deny is not there: $(later_wait "$place" 1 || true)"; exit 0; }
    "$deny" --locked check --hide-inclusion-graph licenses bans sources
    # The database is a git repository elsewhere; without it there is nothing to compare with.
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
