#!/usr/bin/env bash
# Tests the program with a real model server: llama-server streams, parses tool calls and counts tokens in its own way.
#
# The server and a small real model come from .ci/llama.sh, with a wait of up to SMOKE_WAIT seconds (60); without them,
# the test is skipped. Two models are used. The one written by smoke_model.py calls `ls` and says a sentence, so the result
# is known. The real one may say anything; only streaming, token counts and a clean end are checked.
#
# SMOKE_MODEL=FILE.gguf replaces the real model, SMOKE_PROGRAM=FILE replaces the release build of the program.
set -euo pipefail
cd "$(dirname "$0")/.."

program=${SMOKE_PROGRAM:-target/release/deepagents}
skip() { echo "smoke: skipped ($*)"; exit 0; }
fail() { echo "smoke: FAILED: $*" >&2; tail -n 15 "$scratch"/*.txt >&2; exit 1; }

[ -x "$program" ] || { echo "smoke: build it first: cargo build --release -p deepagents-cli" >&2; exit 1; }

bash .ci/llama.sh start
place=$(bash .ci/llama.sh wait "${SMOKE_WAIT:-60}" 2>&1) || skip "$place"
venv=$place/venv
server=$(find "$venv" -type f -name llama-server | head -n 1)
[ -n "$server" ] || skip "packages cannot be had: no llama-server among them"

scratch=$(mktemp -d)
pid=
cleanup() {
    [ -z "$pid" ] || { kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; } || true
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Runs the program on a model file: play NAME FILE CONTEXT [any|OPTION]
play() {
    local name=$1 model=$2 context=$3 how=${4:-}
    local options=()
    case $how in --*) options=("$how") ;; esac
    local port url code=0
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    url=http://127.0.0.1:$port
    LD_LIBRARY_PATH=$(dirname "$server") "$server" --model "$model" --host 127.0.0.1 --port "$port" --jinja \
        --ctx-size "$context" --parallel 1 --n-gpu-layers 0 --threads 2 >"$scratch/server.txt" 2>&1 &
    pid=$!
    healthy() { python3 -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=2)' "$url/health" 2>/dev/null; }
    for _ in $(seq 120); do
        healthy && break
        kill -0 "$pid" 2>/dev/null || fail "the server ended ($name)"
        sleep 0.5
    done
    healthy || fail "the server was not ready in time ($name)"
    rm -rf "$scratch/files"
    mkdir "$scratch/files"
    echo hello >"$scratch/files/hello.txt"
    timeout 300 "$program" run "List the files." --model llamacpp:smoke --base-url "$url/v1" --root "$scratch/files" \
        --max-turns 2 --max-answer-tokens 300 --timeout 240 "${options[@]}" --json >"$scratch/events.txt" 2>"$scratch/errors.txt" </dev/null || code=$?
    echo "smoke: $name"
    python3 .ci/smoke_check.py "$code" "$how" <"$scratch/events.txt" || fail "the run was not as it should be ($name)"
    kill "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null || true
    pid=
}

# For the written model, each character is a token, so prompts are long but cheap.
"$venv/bin/python" .ci/smoke_model.py "$scratch/model.gguf" >"$scratch/model.txt" 2>&1 || fail "the model could not be written"
play "a written model" "$scratch/model.gguf" 131072
"$venv/bin/python" .ci/smoke_model.py "$scratch/fenced.gguf" fenced >"$scratch/model.txt" 2>&1 || fail "the model could not be written"
play "one that writes its call into its text" "$scratch/fenced.gguf" 131072 --text-tool-calls

weights=${SMOKE_MODEL:-$(find "$venv" -name '*.gguf' -size +10M | head -n 1)}
if [ -n "$weights" ]; then
    play "a real model, $(basename "$weights")" "$weights" 16384 any
else
    echo "smoke: the real model is skipped (its package could not be had)"
fi
