#!/usr/bin/env bash
# Links a function of the program's start as release builds do, in the folder given. CI makes no release build.
set -euo pipefail
script=$PWD/crates/deepagents-cli/startup.ld
echo 'int walMerge(void) { return 0; } int main(void) { return walMerge(); }' >"$1/start.c"
cc -O0 -ffunction-sections "$1/start.c" -o "$1/start" "-T$script"
"$1/start"
readelf -SW "$1/start" | grep -q '\.text\.startup_order' || { echo "the linker did not order the functions"; exit 1; }
echo "$(grep -c '\.text\._' "$script") names of functions"
