#!/usr/bin/env bash
# Runs the program against MCP servers that behave and that misbehave: mcp.sh PROGRAM RIG. The scenarios with the official
# servers run where npm and pip can fetch them within a minute; they are kept below CI_CACHE.
set -euo pipefail
program=$1 rig=$2
kept=${CI_CACHE:-$HOME/.cache/deepagents-ci}/mcp
options=()

mkdir -p "$kept"
if command -v node >/dev/null && command -v npm >/dev/null; then
    [ -d "$kept/node_modules/@modelcontextprotocol/server-everything" ] ||
        timeout 60 npm install --prefix "$kept" --no-audit --no-fund --silent @modelcontextprotocol/server-everything \
            @modelcontextprotocol/server-filesystem >/dev/null 2>&1 || echo "mcp: skipped, the servers of npm could not be fetched"
    [ -d "$kept/node_modules" ] && options+=(--npm "$kept")
else
    echo "mcp: skipped, there is no Node for the servers of npm"
fi
[ -x "$kept/venv/bin/mcp-server-time" ] ||
    timeout 60 sh -c "python3 -m venv '$kept/venv' && '$kept/venv/bin/pip' install -q mcp-server-time" >/dev/null 2>&1 ||
    echo "mcp: skipped, the servers of PyPI could not be fetched"
[ -x "$kept/venv/bin/mcp-server-time" ] && options+=(--pybin "$kept/venv/bin")

flags="run --model anthropic:claude-sonnet-4-5 --base-url {base_url} --root {cwd} --no-save [--mcp-config {config}] [{trust}] {args} {task}"
python3 "$rig/mcp_rig.py" "${options[@]}" --ours "$program $flags"
