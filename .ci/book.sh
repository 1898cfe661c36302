#!/usr/bin/env bash
# Builds the book in docs/ and refuses broken includes and links. Installs mdBook into target/tools where there is none.
set -euo pipefail
cd "$(dirname "$0")/.."

python3 - <<'EOF'
import pathlib, re, sys

src = pathlib.Path("docs/src")
problems = []
for page in sorted(src.glob("*.md")):
    text = page.read_text()
    for target in re.findall(r"\{\{#include ([^}]+)\}\}", text):
        path, _, anchor = target.partition(":")
        file = src / path
        if not file.is_file():
            problems.append(f"{page}: includes {path}, which does not exist")
        elif anchor and f"ANCHOR: {anchor}\n" not in file.read_text():
            problems.append(f"{page}: {path} has no anchor {anchor}")
    for link in re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", text):
        if not (src / link).is_file():
            problems.append(f"{page}: links to {link}, which does not exist")
summary = (src / "SUMMARY.md").read_text()
for page in src.glob("*.md"):
    if page.name != "SUMMARY.md" and f"({page.name})" not in summary:
        problems.append(f"{page}: not in SUMMARY.md")
told = "".join(page.read_text() for page in src.glob("*.md"))
for example in sorted(pathlib.Path("crates/deepagents/examples").glob("*.rs")):
    if f"examples/{example.name}" not in told:
        problems.append(f"{example}: in no chapter")
sys.exit("\n".join(problems) or 0)
EOF

mdbook=$(command -v mdbook || echo target/tools/bin/mdbook)
if [ ! -x "$mdbook" ]; then
    RUSTFLAGS="" cargo install mdbook --locked --root target/tools
fi
"$mdbook" build docs 2>&1 | tee target/book.txt
if grep -q ERROR target/book.txt; then
    exit 1
fi
