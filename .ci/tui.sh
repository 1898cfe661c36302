#!/usr/bin/env bash
# Types at the program's terminal and checks the screens: tui.sh PROGRAM RIG
#
# The rig's packages come from PyPI, within a minute, and are cached in CI_CACHE. Scenarios that take minutes are skipped,
# and so is the memory measurement, which is meant for release builds.
set -euo pipefail
program=$1 rig=$2
kept=${CI_CACHE:-$HOME/.cache/deepagents-ci}/tui
python=$kept/bin/python

"$python" -c 'import pyte, pexpect, psutil' 2>/dev/null ||
    timeout 60 sh -c "python3 -m venv --clear '$kept' && '$kept/bin/pip' install -q pyte pexpect psutil" >/dev/null 2>&1 || true
if ! "$python" -c 'import pyte, pexpect, psutil' 2>/dev/null; then
    echo "tui: skipped, what emulates a terminal could not be fetched"
    exit 0
fi
# Some scenarios have time limits, which a busy machine may exceed once.
"$python" "$rig/tui_rig.py" --ours "$program --base-url {url} --model scripted --root {root}" --brief --skip long,idle --retry 1
