#!/usr/bin/env bash
# Plays an editor that uses the program, and holds each of its messages against the official schema: acp.sh PROGRAM RIG. The
# schema and what reads it come from npm and PyPI within a minute, and are kept below CI_CACHE.
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
        timeout 60 sh -c "python3 -m venv '$kept/venv' && '$kept/venv/bin/pip' install -q jsonschema" >/dev/null 2>&1 || true
    if ! "$python" -c 'import jsonschema' 2>/dev/null; then
        echo "acp: skipped, what reads the schema could not be fetched"
        exit 0
    fi
fi
rig() {
    "$python" "$rig/acp_rig.py" --schema "$schema" \
        --ours "$program acp --model anthropic:claude-sonnet-4-5 --base-url {base_url}"
}
# Some of its checks have limits of time, which a busy machine may miss once.
rig || rig
