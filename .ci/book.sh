#!/usr/bin/env bash
# Checks the book in docs/: includes, links, chapters and examples. Also builds it into docs/book, if mdBook is installed
# (`cargo install mdbook --locked`).
set -euo pipefail
cd "$(dirname "$0")/.."

python3 .ci/book_check.py
if ! command -v mdbook >/dev/null; then
    echo "book: not built, there is no mdbook"
    exit
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
mdbook build docs 2>&1 | tee "$log"
! grep -q ERROR "$log"
