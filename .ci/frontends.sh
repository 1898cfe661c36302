#!/usr/bin/env bash
# Drives two front-ends for LangGraph's server in Chromium, against our server: send, stream, approve.
#   frontends.sh prepare                    builds missing front-ends in FRONTENDS
#   frontends.sh [serve-rig] [PICTURES]     drives them, and saves a picture of each step
# Prints what it skips if Node, npm packages, Chromium or the shared directory are missing. CI prepares in the background.
set -euo pipefail
cd "$(dirname "$0")/.."
only=drive
if [ "${1:-}" = prepare ]; then only=prepare && shift; fi
SERVE_RIG=${1:-${CARGO_TARGET_DIR:-$PWD/target}/debug/serve-rig}
pictures=$(realpath -m "${2:-target/frontends}")
rig=$(realpath -m "${SHARED:-../shared}")
FRONTENDS=${FRONTENDS:-${XDG_CACHE_HOME:-${HOME:-/nowhere}/.cache}/deepagents-ci/frontends}
skip() { echo "frontends: skipped, $*"; exit 0; }

[ -d "$rig/server/ui" ] || skip "no shared folder"
command -v node >/dev/null || skip "no Node"
mkdir -p "$FRONTENDS" "$pictures"
# Waits for a preparation in the background.
exec 8>"$FRONTENDS/lock"
flock -w 120 8 || skip "they are still being built"

quiet() { timeout 240 "$@" >>"$FRONTENDS/log" 2>&1; }
driver() {
    mkdir -p "$FRONTENDS/driver" && cd "$FRONTENDS/driver"
    [ -d node_modules/puppeteer-core ] || quiet npm install --no-audit --no-fund puppeteer-core
}
agent_chat() {
    cd "$FRONTENDS"
    [ ! -e chat/apps/web/dist/index.html ] || return 0
    rm -rf chat
    quiet npx --yes create-agent-chat-app@0.1.6 -Y --framework vite --package-manager npm --install-deps false --project-name chat
    cd chat/apps/web
    quiet npm install --no-audit --no-fund --ignore-scripts --legacy-peer-deps
    quiet npx vite build
}
assistant_ui() {
    [ ! -e "$FRONTENDS/assistant-ui/dist/main.js" ] || return 0
    rm -rf "$FRONTENDS/assistant-ui"
    cp -r "$rig/server/ui/assistant-ui" "$FRONTENDS/assistant-ui"
    cd "$FRONTENDS/assistant-ui"
    # The example's pinned store is incompatible with a newer core.
    quiet npm install --no-audit --no-fund --legacy-peer-deps @assistant-ui/core@0.3.18
    quiet npm run build
}
for part in driver agent_chat assistant_ui; do
    ("$part") || skip "$part cannot be had; see $FRONTENDS/log"
done

flock -u 8
[ "$only" = drive ] || exit 0
[ -x "$SERVE_RIG" ] || skip "no $SERVE_RIG"
chromium=${CHROMIUM:-$(command -v chromium chromium-browser google-chrome 2>/dev/null | head -n 1 || true)}
[ -n "$chromium" ] || skip "no Chromium"

children=()
trap 'kill "${children[@]}" 2>/dev/null || true' EXIT
# Starts a program, and waits until its output contains a word.
start() {
    local word=$1 log
    shift
    log=$(mktemp)
    "$@" >"$log" 2>&1 &
    children+=($!)
    for _ in $(seq 300); do
        if grep -q "$word" "$log"; then
            found=$(grep -o "$word.*" "$log" | head -n 1)
            return 0
        fi
        sleep 0.1
    done
    cat "$log"
    return 1
}
free() { node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })'; }

model=$(free)
python3 "$rig/conformance/mockllm.py" --port "$model" --script "$rig/server/model_script.json" >/dev/null 2>&1 &
children+=($!)
export RIG_MODEL_URL=http://127.0.0.1:$model
start "listening " "$SERVE_RIG" "$rig/server/rig.json" --port 0
server=${found#listening }

code=0
drive() {
    echo "== $1"
    # A browser may be seconds late on a busy machine, so a failure is retried once and reported.
    for again in "" "once more"; do
        [ -z "$again" ] || echo "frontends: $again: $1"
        node "$rig/server/ui/drive.mjs" "$1" "$2" "$server" "$pictures/$1" --modules "$FRONTENDS/driver" --chromium "$chromium" && return
    done
    code=1
}
port=$(free)
for page in agent-chat=chat/apps/web/dist assistant-ui=assistant-ui/dist; do
    port=$(free)
    start "Serving" python3 -u -m http.server "$port" --bind 127.0.0.1 --directory "$FRONTENDS/${page#*=}"
    drive "${page%%=*}" "http://127.0.0.1:$port"
done
exit "$code"
