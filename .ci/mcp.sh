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

# The logins of the official suite, where Node is new enough for it. `mcp_auth.py` is the person.
suite=$kept/node_modules/@modelcontextprotocol/conformance/dist/index.js
if command -v node >/dev/null && [ "$(node -p 'parseInt(process.versions.node)')" -ge 22 ]; then
    [ -f "$suite" ] || timeout 60 npm install --prefix "$kept" --no-audit --no-fund --silent \
        @modelcontextprotocol/conformance@0.2.0-alpha.12 >/dev/null 2>&1 || true
fi
if [ -f "$suite" ] && [ "$(node -p 'parseInt(process.versions.node)' 2>/dev/null || echo 0)" -ge 22 ]; then
    person="python3 $(realpath "$(dirname "$0")")/mcp_auth.py"
    task="run --model anthropic:claude-sonnet-4-5 --no-save --base-url {base_url} --mcp-config {config} {task}"
    ours="$person run {config} $program $task"
    node "$suite" client --suite all --command \
        "python3 $rig/conformance_adapter.py --ours '$ours' --login '$person login {config} $program'" >"$kept/logins.log" 2>&1 || true
    passed=$(grep -c '✓ auth/' "$kept/logins.log" || true)
    echo "mcp: $passed of 33 logins of the official suite"
    [ "$passed" -ge 30 ] || { grep 'auth/' "$kept/logins.log" | grep '✗' >&2; exit 1; }
else
    echo "mcp: skipped, the logins of the official suite need Node 22"
fi
