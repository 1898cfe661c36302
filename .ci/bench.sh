#!/usr/bin/env bash
# Measures the harness against a model server that responds immediately: bench.sh [--quick | --reference]
#
# --reference also measures the Python reference, in the same run and on the cases it supports. Absolute numbers on a
# shared machine mean little; the last column, the reference's time as a multiple of ours, is the one to read. The table
# is followed by the limits that we set ourselves. Exits with 1 if one is exceeded.
#
# --quick is what CI runs: smaller cases, on the programs in BENCH_PROGRAMS, which need not be optimised. Limits of time
# and memory are multiplied by BENCH_SLACK (25). It detects large slowdowns, and costs that grow with the length of a
# thread; it compares with nothing. Lines that begin with `bench: NOT` report what could not be measured.
set -euo pipefail
cd "$(dirname "$0")/.."
export SHARED=${SHARED:-../shared}
scratch=$(mktemp -d)
pid=
cleanup() {
    [ -z "$pid" ] || { kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; } || true
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

quick=no reference=no
case ${1:-} in
--quick) quick=yes ;;
--reference) reference=yes ;;
esac

if [ $quick = yes ]; then
    programs=${BENCH_PROGRAMS:?the folder of the programs}
    export BENCH_SLACK=${BENCH_SLACK:-25}
    ours=("cold" "loop 200" "loop 200 sqlite" "many 100 5 20" "fan 50 100")
    alone=("idle 2000" "watchers 1000" "files --files 2000 --megabytes 32 --dir $scratch/files")
    journal="journal 200 2048"
else
    programs=target/release
    ours=("cold" "loop 400" "loop 1000" "loop 400 sqlite" "many 1000 10 100" "fan 100 100")
    alone=("idle 10000" "watchers 1000" "files")
    journal="journal 1000 2048"
    theirs=("cold" "loop 100" "loop 400" "many 50 10 100")
    # Both implementations run the cases to compare.
    [ $reference = no ] || ours+=("loop 100" "many 50 10 100")
    if ! command -v rg >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        { timeout 120 apt-get install -qq ripgrep || { timeout 120 apt-get update -qq && timeout 120 apt-get install -qq ripgrep; }; } >/dev/null 2>&1 || true
    fi
    cargo build -q --release --locked -p deepagents-testing --bin bench
    cargo build -q --release --locked -p deepagents-cli
fi
command -v rg >/dev/null || echo "bench: NOT compared with ripgrep, there is none"

url=
bash .ci/mockd.sh start
if mockd=$(bash .ci/mockd.sh wait "${BENCH_WAIT:-$([ $quick = yes ] && echo 60 || echo 600)}"); then
    "$mockd" 0 >"$scratch/address" &
    pid=$!
    for _ in $(seq 100); do
        [ ! -s "$scratch/address" ] || break
        sleep 0.1
    done
    url=$(sed -n 's/^listening //p' "$scratch/address")
    [ -n "$url" ] || { echo "bench: the model server did not start" >&2; exit 1; }
else
    echo "bench: NOT measured: $(printf '%s, ' "${ours[@]}")which need a model server: $mockd"
    ours=()
fi

measure() { # PROGRAM... CASE, where CASE is split into words
    local case=${*: -1}
    # shellcheck disable=SC2086
    # A case that exceeds a limit fails too, but prints its result, which the table shows.
    "${@:1:$#-1}" "${url:--}" $case >"$scratch/result" || [ -s "$scratch/result" ] ||
        { echo "bench: $1 failed on $case" >&2; exit 1; }
    cat "$scratch/result" >>"$scratch/results"
}
for case in "${ours[@]}" "${alone[@]}" "$journal $scratch/journal.db"; do measure "$programs/bench" "$case"; done
python3 .ci/bench_start.py "$programs/deepagents" --version >>"$scratch/results"

if [ $reference = yes ] && [ -n "$url" ]; then
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
        echo "bench: NOT compared with the reference, its packages cannot be had"
    fi
elif [ $reference = yes ]; then
    echo "bench: NOT compared with the reference, there is no model server"
fi
python3 .ci/bench_table.py <"$scratch/results"
