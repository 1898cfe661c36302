#!/usr/bin/env bash
# Runs the official clients against the server, and compares their results with those of the reference server:
# server.sh SERVE_RIG RIG MODEL_SERVER
#
# The clients come from PyPI and npm, within a minute (PyPI) and 90 s (npm), and are cached in CI_CACHE.
set -euo pipefail
serve=$1 rig=$2 model=$3
kept=${CI_CACHE:-$HOME/.cache/deepagents-ci}/server
python=$kept/venv/bin/python modules=$kept/js
scratch=$(mktemp -d)
children=()
trap 'kill "${children[@]}" 2>/dev/null || true; rm -rf "$scratch"' EXIT

# Fetches missing clients.
mkdir -p "$kept" "$modules"
"$python" -c 'import langgraph_sdk, langgraph, httpx, websockets' 2>/dev/null ||
    timeout 60 sh -c "python3 -m venv --clear '$kept/venv' &&
        '$kept/venv/bin/pip' install -q langgraph-sdk==0.4.14 langgraph==1.2.22 httpx websockets" >/dev/null 2>&1 || true
if [ ! -d "$modules/node_modules/@langchain/react" ] && command -v npm >/dev/null; then
    cp "$rig/js/package.json" "$modules/"
    timeout 90 npm install --prefix "$modules" --no-audit --no-fund --legacy-peer-deps --silent >/dev/null 2>&1 ||
        rm -rf "$modules/node_modules"
fi

# Starts a program. Sets `url` to the URL that it prints after a word.
start() {
    local word=$1 log=$scratch/$2.log
    shift 2
    "$@" >"$log" 2>&1 &
    children+=($!)
    for _ in $(seq 300); do
        url=$(sed -n "s/.*$word.*\(http:[^ ]*\).*/\1/p" "$log" | head -n 1)
        [ -z "$url" ] || return 0
        sleep 0.1
    done
    cat "$log" >&2
    return 1
}
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
python3 "$model" --port "$port" --script "$rig/model_script.json" >"$scratch/model.log" 2>&1 &
children+=($!)
export RIG_MODEL_URL=http://127.0.0.1:$port
start listening server "$serve" "$rig/rig.json"
server=$url

# Runs a suite and compares the results. Failed checks are retried once, alone: a busy machine is slow, and a fast server
# may finish a run before a polling client has seen it start.
judge() {
    local name=$1 failed only=()
    shift
    timeout 300 "$@" --out "$scratch/$name.json" >"$scratch/$name.txt" 2>&1 || true
    compare "$name" >"$scratch/$name.compared" && { said "$name"; return 0; }
    failed=$(sed -n 's/^DIFF \([a-z0-9_]*\):.*/\1/p' "$scratch/$name.compared")
    for check in $failed; do only+=(--only "$check"); done
    timeout 300 "$@" --out "$scratch/$name.json" "${only[@]}" >>"$scratch/$name.txt" 2>&1 || true
    compare "$name" "${only[@]}" >>"$scratch/$name.compared" || { tail -n 60 "$scratch/$name.txt" "$scratch/$name.compared"; return 1; }
    said "$name, where the first time" $failed "failed:"
}
compare() {
    local name=$1
    shift
    python3 "$rig/compare.py" "$rig/expected/$name.json" "$scratch/$name.json" "$@" 2>&1
}
said() { echo "server: $* $(grep -E 'passed|better' "$scratch/${1%%,*}.compared" | paste -sd ' ')"; }
if "$python" -c 'import langgraph_sdk' 2>/dev/null; then
    judge sdk_py "$python" "$rig/sdk_py.py" "$server"
else
    echo "server: skipped, the client of PyPI could not be fetched"
fi
if command -v node >/dev/null && [ -d "$modules/node_modules/@langchain/react" ]; then
    judge sdk_js node "$rig/js/sdk_js.mjs" "$server" --modules "$modules"
else
    echo "server: skipped, the client of npm could not be fetched"
fi
