#!/usr/bin/env bash
# Provides the model server of the benchmarks, built from the shared directory.
#
# `mockd.sh start` builds it in the background if it is missing, and returns immediately. `mockd.sh wait SECONDS` prints the
# path of the program, or why it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/later.sh
sources=${SHARED:-../shared}/bench/mockd
if [ ! -d "$sources" ]; then
    [ "${1:-}" = start ] || { echo "there is no $sources"; exit 1; }
    exit
fi
place=$CI_CACHE/mockd/$({ rustc -V; find "$sources" -type f -print0 | sort -z | xargs -0 cat; } | sha256sum | cut -c 1-12)

install() {
    find "$CI_CACHE/mockd" -mindepth 1 -maxdepth 1 -type d -exec rm -rf {} +
    mkdir -p "$place/source"
    # Built from a copy: the shared directory may be read-only, and cargo writes a lock file next to the manifest.
    cp -r --no-preserve=mode "$sources/." "$place/source"
    cargo build -q --release --manifest-path "$place/source/Cargo.toml" --target-dir "$place/target"
    cp "$place/target/release/mockd" "$place/mockd"
    rm -rf "$place/target"
    touch "$place/ready"
}

case ${1:-} in
start) later_start "$place" bash .ci/mockd.sh install ;;
install) install ;;
wait) later_wait "$place" "${2:?seconds}" && echo "$place/mockd" ;;
*)
    echo "usage: mockd.sh start | wait SECONDS" >&2
    exit 2
    ;;
esac
