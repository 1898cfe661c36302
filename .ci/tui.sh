#!/usr/bin/env bash
# Presses the keys of a person at the program's terminal and judges the screens: tui.sh PROGRAM RIG. What the rig needs comes
# from PyPI within a minute, and is kept below CI_CACHE. The scenarios that take minutes are left out, and the one that
# measures memory: it is about the program that is released.
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
# Some scenarios have limits of time, which a busy machine may miss once.
"$python" "$rig/tui_rig.py" --ours "$program --base-url {url} --model scripted --root {root}" --brief --skip long,idle --retry 1
