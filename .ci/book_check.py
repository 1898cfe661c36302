#!/usr/bin/env python3
"""Checks the book without building it: includes, links and their fragments, chapters, examples. Prints problems and exits with 1.

Also checks the links of the other documents (README and its neighbours).
"""
import pathlib
import re
import sys

src = pathlib.Path("docs/src")
pages = sorted(src.glob("*.md"))
others = sorted([*pathlib.Path(".").glob("*.md"), *pathlib.Path("docs").glob("*.md")])
problems = []


def prose(text):
    """The text without code, which contains no links or headings."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def fragments(page):
    """The link fragments of headings. The rules of mdBook and GitHub agree for plain words."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


for page in pages + others:
    text = page.read_text()
    if len(re.findall(r"^```", text, flags=re.M)) % 2:
        problems.append(f"{page}: a block of code has no end")
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, fragment = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            problems.append(f"{page}: links to {path}, which does not exist")
        elif fragment and fragment not in fragments(target):
            problems.append(f"{page}: {path or page.name} has no heading for #{fragment}")
for page in pages:
    for include in re.findall(r"\{\{#include ([^}]+)\}\}", page.read_text()):
        path, _, anchor = include.partition(":")
        file = src / path
        if not file.is_file():
            problems.append(f"{page}: includes {path}, which does not exist")
        elif anchor and not re.search(rf"ANCHOR: {re.escape(anchor)}\n.*ANCHOR_END: {re.escape(anchor)}\n", file.read_text(), re.S):
            problems.append(f"{page}: {path} has no anchor {anchor} with an end")
chapters = re.findall(r"\]\(([^)#]+)\)", (src / "SUMMARY.md").read_text())
for page in pages:
    if page.name != "SUMMARY.md" and chapters.count(page.name) != 1:
        problems.append(f"{page}: {chapters.count(page.name)} times in SUMMARY.md")
book = "".join(page.read_text() for page in pages)
for example in sorted(pathlib.Path("crates/deepagents/examples").glob("*.rs")):
    if f"examples/{example.name}" not in book:
        problems.append(f"{example}: in no chapter")
if problems:
    sys.exit("\n".join(problems))
print(f"book: {len(pages)} pages, {len(chapters)} chapters: includes and links are as they should be")
