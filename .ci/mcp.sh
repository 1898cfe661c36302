#!/usr/bin/env bash
# Runs the program against well-behaved and misbehaving MCP servers: mcp.sh PROGRAM RIG
#
# Scenarios with the official servers run if npm and pip can fetch these within a minute; they are cached in CI_CACHE.
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
    timeout 60 sh -c "python3 -m venv --clear '$kept/venv' && '$kept/venv/bin/pip' install -q mcp-server-time" >/dev/null 2>&1 ||
    echo "mcp: skipped, the servers of PyPI could not be fetched"
[ -x "$kept/venv/bin/mcp-server-time" ] && options+=(--pybin "$kept/venv/bin")

flags="run --model anthropic:claude-sonnet-4-5 --base-url {base_url} --root {cwd} --no-save [--mcp-config {config}] [{trust}] {args} {task}"
python3 "$rig/mcp_rig.py" "${options[@]}" --ours "$program $flags"

# The official suite needs Node 22, which npm can install. `mcp_auth.py` plays the person at a login.
modules=$kept/node_modules/@modelcontextprotocol
if command -v npm >/dev/null; then
    if [ "$(node -p 'parseInt(process.versions.node)' 2>/dev/null || echo 0)" -lt 22 ]; then
        [ -x "$kept/node22/node_modules/.bin/node" ] ||
            timeout 90 npm install --prefix "$kept/node22" --no-audit --no-fund --silent node@22 >/dev/null 2>&1 || true
        [ -x "$kept/node22/node_modules/.bin/node" ] && PATH=$kept/node22/node_modules/.bin:$PATH
    fi
    [ -f "$modules/conformance/dist/index.js" ] && [ -d "$modules/inspector" ] || timeout 120 npm install --prefix "$kept" \
        --no-audit --no-fund --silent @modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/inspector@2.12.0 >/dev/null 2>&1 || true
fi
if [ -f "$modules/conformance/dist/index.js" ] && [ "$(node -p 'parseInt(process.versions.node)' 2>/dev/null || echo 0)" -ge 22 ]; then
    person="python3 $(realpath "$(dirname "$0")")/mcp_auth.py"
    task="run --model anthropic:claude-sonnet-4-5 --no-save --base-url {base_url} --mcp-config {config} {task}"
    ours="$person run {config} $program $task"
    node "$modules/conformance/dist/index.js" client --suite all --command \
        "python3 $rig/conformance_adapter.py --ours '$ours' --login '$person login {config} $program'" >"$kept/logins.log" 2>&1 || true
    passed=$(grep -c '✓ auth/' "$kept/logins.log" || true)
    echo "mcp: $passed of 33 logins of the official suite"
    [ "$passed" -ge 30 ] || { grep 'auth/' "$kept/logins.log" | grep '✗' >&2; exit 1; }
    for scenario in initialize tools_call sse-retry request-metadata http-standard-headers http-custom-headers \
        http-invalid-tool-headers json-schema-ref-no-deref json-schema-2020-12-preservation; do
        grep -qE "✓ $scenario: [0-9]+ passed, 0 failed" "$kept/logins.log" || { echo "mcp: $scenario failed"; exit 1; }
    done
    echo "mcp: 9 of 9 scenarios for clients of the official suite"

    # Our own server, tested by the official suite and the inspector.
    served=$(mktemp -d)
    "$program" mcp serve --http 127.0.0.1:0 --root "$served" --model any --base-url http://127.0.0.1:9 --files 2>"$served/log" &
    serving=$!
    trap 'kill "$serving" 2>/dev/null; rm -rf "$served"' EXIT
    for _ in $(seq 100); do grep -q 'http://' "$served/log" && break; sleep 0.1; done
    url=$(grep -o 'http://[^ ;,]*' "$served/log" | head -n 1)
    RIG_NPM=$kept sh "$rig/serve_check.sh" "$url" "$program" mcp serve --root "$served" --model any --base-url http://127.0.0.1:9 --files \
        >"$served/checks" || { cat "$served/log" "$served/checks"; exit 1; }
    echo "mcp: $(grep -c '^ok' "$served/checks") of $(wc -l <"$served/checks") checks of what is served"
else
    echo "mcp: skipped, the official suite needs Node 22 and its packages"
fi
