#!/usr/bin/env bash
# Plays an editor that uses the program, and validates each of its messages against the official schema: acp.sh PROGRAM RIG
#
# The schema and its validator come from npm and PyPI, within a minute, and are cached in CI_CACHE.
set -euo pipefail
program=$1 rig=$2
kept=${CI_CACHE:-$HOME/.cache/deepagents-ci}/acp
schema=$kept/node_modules/@agentclientprotocol/sdk/schema/v1/schema.json

mkdir -p "$kept"
if [ ! -f "$schema" ] && command -v npm >/dev/null; then
    timeout 60 npm install --prefix "$kept" --no-audit --no-fund --silent @agentclientprotocol/sdk@2.4.0 >/dev/null 2>&1 || true
fi
if [ ! -f "$schema" ]; then
    echo "acp: skipped, the schema of the protocol could not be fetched"
    exit 0
fi
python=python3
if ! python3 -c 'import jsonschema' 2>/dev/null; then
    python=$kept/venv/bin/python
    "$python" -c 'import jsonschema' 2>/dev/null ||
        timeout 60 sh -c "python3 -m venv --clear '$kept/venv' && '$kept/venv/bin/pip' install -q jsonschema" >/dev/null 2>&1 || true
    if ! "$python" -c 'import jsonschema' 2>/dev/null; then
        echo "acp: skipped, what reads the schema could not be fetched"
        exit 0
    fi
fi
rig() {
    "$python" "$rig/acp_rig.py" --schema "$schema" \
        --ours "$program acp --model anthropic:claude-sonnet-4-5 --base-url {base_url}"
}
# Some checks have time limits, which a busy machine may exceed once.
rig || rig

# A turn through the editor's side of each official SDK. An incomplete virtual environment is recreated.
sdk=$kept/sdk/bin/python
"$sdk" -c 'import acp' 2>/dev/null ||
    timeout 90 sh -c "python3 -m venv --clear '$kept/sdk' && '$kept/sdk/bin/pip' install -q agent-client-protocol==0.12.1" >/dev/null 2>&1 || true
work=$(mktemp -d)
mkdir "$work/project" "$work/home"
cat >"$work/script.json" <<'EOF'
{"name": "interop", "model_script": [{"turns": [{"text": "Hello, editor.", "usage": {"input": 9, "output": 3}}], "repeat": true}]}
EOF
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
python3 "$rig/../conformance/mockllm.py" --port "$port" --script "$work/script.json" >/dev/null 2>&1 &
trap 'kill $! 2>/dev/null; rm -rf "$work"' EXIT
program=$(realpath "$program")
agent=("$program" acp --model m --base-url "http://127.0.0.1:$port/v1")
export HOME=$work/home
for _ in $(seq 50); do python3 -c "import socket; socket.create_connection(('127.0.0.1', $port))" 2>/dev/null && break; sleep 0.1; done
if "$sdk" -c 'import acp' 2>/dev/null; then
    timeout 60 "$sdk" "$rig/interop_py.py" "${agent[*]}" "$work/project" || { echo "acp: the Python SDK does not interoperate"; exit 1; }
    echo "acp: a turn through the Python SDK"
else
    echo "acp: skipped, the Python SDK could not be fetched"
fi
if [ "$(node -p 'parseInt(process.versions.node)' 2>/dev/null || echo 0)" -ge 18 ]; then
    cp "$rig/interop_ts.mjs" "$work/"
    (cd "$kept" && timeout 60 node "$work/interop_ts.mjs" "$work/project" "${agent[@]}") || { echo "acp: the TypeScript SDK does not interoperate"; exit 1; }
    echo "acp: a turn through the TypeScript SDK"
else
    echo "acp: skipped, no Node for the TypeScript SDK"
fi
