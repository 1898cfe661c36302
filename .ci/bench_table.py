#!/usr/bin/env python3
"""Prints benchmark results, one JSON object per line, as a table, then the limits; exits with 1 if one is exceeded."""
import json
import os
import sys

# Factor for limits of time and memory: 1, or more if the programs are not optimised.
SLACK = float(os.environ.get("BENCH_SLACK", "1"))

# Limits by case and figure, for optimised programs. Cases that compare with something else bring their own limits.
BARS = {
    "loop 1000": {"cpu": 0.7, "ms_per_last_step": 1.0},
    "many 1000 10 100": {"seconds": 2.0, "rss_mb": 150},
    "loop 400 sqlite": {"ms_per_step": 1.5},
    "idle 10000": {"kb_per_agent": 20},
    "loop 200": {"cpu": 0.2, "ms_per_last_step": 1.0},
    "many 100 5 20": {"seconds": 0.4},
    "loop 200 sqlite": {"ms_per_step": 1.5},
    "idle 2000": {"kb_per_agent": 20},
    "start deepagents --version": {"seconds": 0.010},
}

results = [json.loads(line) for line in sys.stdin if line.strip()]


def case(result):
    """The name of the case, without the paths of its files."""
    return " ".join([result["case"], *(arg for arg in map(str, result["args"]) if not arg.startswith("/"))])


def steps(result):
    """The model calls of a case; an `idle` agent makes none."""
    numbers = [int(arg) for arg in result["args"] if str(arg).isdigit()]
    return {"cold": 1, "loop": numbers[0] + 1 if numbers else 0, "fan": numbers[0] + 2 if numbers else 0,
            "journal": numbers[0] if numbers else 0,
            "many": numbers[0] * (numbers[1] + 1) if len(numbers) > 1 else 0}.get(result["case"], 0)


def bars(result):
    """Name, figure, limit and verdict (true, false or "skipped") of each limit."""
    for name, limit in BARS.get(case(result), {}).items():
        yield name, result[name], limit * SLACK, result[name] <= limit * SLACK
    for bar in result.get("bars", []):
        yield bar["name"], bar["figure"], bar["at_most"], bar["pass"]


def aligned(rows, left):
    """Prints rows of text as lines, with the first `left` columns aligned to the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [f"{cell:<{width}}" if column < left else f"{cell:>{width}}"
                 for column, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


ours = {case(result): result for result in results if not result["impl"].startswith("python")}
rows = [("case", "impl", "seconds", "cpu", "rss_mb", "ms/step", "ratio")]
for result in sorted(results, key=lambda result: (result["case"], steps(result), case(result))):
    base, count = ours.get(case(result)), steps(result)
    compared = base is not None and base is not result and base["seconds"] > 0
    rows.append((
        case(result), result["impl"], f"{result['seconds']:.3f}", f"{result['cpu']:.3f}" if "cpu" in result else "",
        f"{result['rss_mb']:.1f}" if "rss_mb" in result else "",
        f"{result['seconds'] * 1000 / count:.3f}" if count else "",
        f"{result['seconds'] / base['seconds']:.1f}x" if compared else "",
    ))
aligned(rows, 2)

logs = [result for result in results if result["case"] == "journal"]
if logs:
    names = ("mb", "append_p50_ms", "first_fifth_ms", "last_fifth_ms", "load_ms")
    print()
    aligned([(case(logs[0]), *names), *((log["impl"], *(f"{log[name]:.3f}" for name in names)) for log in logs)], 1)

if SLACK != 1:
    print(f"\nBars of time and memory are {SLACK:g} times wider than those for optimised programs.")
rows, missed = [("bar", "figure", "at most", "")], 0
for result in ours.values():
    for name, figure, limit, verdict in bars(result):
        missed += verdict is False
        said = {True: "pass", False: "FAIL"}.get(verdict, str(verdict))
        rows.append((f"{case(result)}: {name}", "" if figure is None else f"{figure:.3f}", f"{limit:g}", said))
if len(rows) > 1:
    print()
    aligned(rows, 1)
if missed:
    sys.exit(f"bench: {missed} of {len(rows) - 1} bars missed")
