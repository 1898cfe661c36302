#!/usr/bin/env bash
# Tests the web page in a browser: every action of a person, and whether the committed build matches the sources.
#   page.sh [serve-rig]
# Prints what it skips if Node, npm packages or Chromium are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
export SERVE_RIG=${1:-${CARGO_TARGET_DIR:-$PWD/target}/debug/serve-rig}
cd crates/deepagents-server/web
skip() { echo "page: skipped, $*"; exit 0; }

node=$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/' || true)
[ "${node:-0}" -ge 20 ] || skip "no Node 20"
if [ ! -d node_modules/vite ]; then
    timeout 120 npm ci --silent --no-audit --no-fund >/dev/null 2>&1 || skip "npm's packages cannot be had"
fi

# Compressed files depend on the version of zlib, so only the uncompressed ones are compared.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
PAGE_OUT=$scratch/page timeout 60 npm run --silent build >/dev/null
diff -rq -x '*.gz' -x '*.br' "$scratch/page" ../page || { echo "page: the sources build something else than is committed; run npm run build in web"; exit 1; }

chromium=${CHROMIUM:-$(command -v chromium chromium-browser google-chrome 2>/dev/null | head -n 1 || true)}
if [ -z "$chromium" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    timeout 150 apt-get install -y -qq chromium >/dev/null 2>&1 || true
    chromium=$(command -v chromium || true)
fi
[ -n "$chromium" ] || skip "no Chromium"
[ -x "$SERVE_RIG" ] || skip "no $SERVE_RIG"
export CHROMIUM=$chromium
code=0
timeout 300 node --test-reporter=spec tests/run.mjs | tee "$scratch/tests.txt" || code=$?
if [ "$code" = 124 ] && ! grep -q '✖' "$scratch/tests.txt"; then
    skip "what comes after the first $(grep -c '✔' "$scratch/tests.txt") tests: this machine took more than 300 s"
fi
# A browser may be seconds late under load, so each failed test is retried once, alone, and reported.
if [ "$code" != 0 ]; then
    [ "$code" != 124 ] || echo "page: skipped, what comes after the first tests: this machine took more than 300 s"
    code=0
    while read -r name; do
        echo "page: once more: $name"
        timeout 60 node --test-reporter=spec --test-name-pattern="^$name$" tests/run.mjs </dev/null || code=$?
    done < <(sed -n '/failing tests/q; s/^✖ \(.*\) ([0-9.]*ms)$/\1/p' "$scratch/tests.txt")
    grep -q '^✖ .*ms)$' "$scratch/tests.txt" || code=1
fi
exit "$code"
