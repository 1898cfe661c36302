#!/usr/bin/env bash
# Measures the harness against a model server that answers at once: bench.sh [--reference]
#
# --reference also measures the Python reference on the cases it can do, in the same run. Absolute numbers on a shared
# machine mean little; the last column, how many times our time the reference takes, is the one to read. After the table
# come the bars that we set ourselves; exit 1 when one is missed.
set -euo pipefail
cd "$(dirname "$0")/.."
SHARED=${SHARED:-../shared}
reference=no
[ "${1:-}" != --reference ] || reference=yes
ours=("cold" "loop 400" "loop 1000" "loop 400 sqlite" "many 1000 10 100" "fan 100 100" "idle 10000" "files")
theirs=("cold" "loop 100" "loop 400" "many 50 10 100")
# What is compared is run by both.
[ $reference = no ] || ours+=("loop 100" "many 50 10 100")

[ -d "$SHARED/bench/mockd" ] || { echo "bench: skipped, there is no $SHARED/bench/mockd"; exit 0; }
if ! command -v rg >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    # Without it, what is compared with it is skipped.
    { apt-get install -qq ripgrep || { apt-get update -qq && apt-get install -qq ripgrep; }; } >/dev/null 2>&1 ||
        echo "bench: without ripgrep, it cannot be installed" >&2
fi
cargo build -q --release --locked -p deepagents-testing --bin bench
cargo build -q --release --locked -p deepagents-cli
# Built from a copy: the shared folder may be read-only, and cargo writes a lock file beside the manifest.
mkdir -p target/mockd/source
cp -r --no-preserve=mode "$SHARED/bench/mockd/." target/mockd/source
cargo build -q --release --manifest-path target/mockd/source/Cargo.toml --target-dir target/mockd

scratch=$(mktemp -d)
pid=
cleanup() {
    [ -z "$pid" ] || { kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; } || true
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
target/mockd/release/mockd 0 >"$scratch/address" &
pid=$!
for _ in $(seq 100); do
    [ ! -s "$scratch/address" ] || break
    sleep 0.1
done
url=$(sed -n 's/^listening //p' "$scratch/address")
[ -n "$url" ] || { echo "bench: the model server did not start" >&2; exit 1; }

measure() { # PROGRAM... CASE, where the case is words
    local case=${*: -1}
    # shellcheck disable=SC2086
    # A case that missed a bar fails too, but says so in its line; the table tells.
    "${@:1:$#-1}" "$url" $case >"$scratch/result" || [ -s "$scratch/result" ] ||
        { echo "bench: $1 failed on $case" >&2; exit 1; }
    cat "$scratch/result" >>"$scratch/results"
}
ours+=("journal 1000 2048 $scratch/journal.db")
for case in "${ours[@]}"; do measure target/release/bench "$case"; done
python3 .ci/bench_start.py target/release/deepagents --version >>"$scratch/results"

if [ $reference = yes ]; then
    venv=target/reference
    if [ ! -e "$venv/complete" ]; then
        rm -rf "$venv"
        if python3 -m venv "$venv" && "$venv/bin/pip" install -q deepagents langchain-anthropic langgraph-checkpoint-sqlite; then
            touch "$venv/complete"
        fi
    fi
    if [ -e "$venv/complete" ]; then
        for case in "${theirs[@]}" "loop 400 sqlite $scratch/reference.db"; do
            measure "$venv/bin/python" "$SHARED/bench/py_bench.py" "$case"
        done
        for kind in delta classic; do
            "$venv/bin/python" .ci/bench_journal.py 1000 2048 "$scratch/$kind.db" $kind >>"$scratch/results"
            rm -f "$scratch/$kind.db"*
        done
    else
        echo "bench: without the reference, its packages cannot be had" >&2
    fi
fi
python3 .ci/bench_table.py <"$scratch/results"
