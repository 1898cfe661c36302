#!/usr/bin/env python3
"""Prints the results of a benchmark, one JSON object a line, as a table."""
import json
import sys

results = [json.loads(line) for line in sys.stdin if line.strip()]


def case(result):
    return " ".join([result["case"], *map(str, result["args"])])


def steps(result):
    """Model calls of a case; an `idle` agent makes none."""
    numbers = [int(arg) for arg in result["args"] if str(arg).isdigit()]
    return {"cold": 1, "loop": numbers[0] + 1 if numbers else 0,
            "many": numbers[0] * (numbers[1] + 1) if len(numbers) > 1 else 0}.get(result["case"], 0)


ours = {case(result): result for result in results if result["impl"] != "python"}
rows = [("case", "impl", "seconds", "cpu", "rss_mb", "ms/step", "ratio")]
for result in sorted(results, key=lambda result: (result["case"], steps(result), case(result))):
    base, count = ours.get(case(result)), steps(result)
    compared = base is not None and base is not result and base["seconds"] > 0
    rows.append((
        case(result), result["impl"], f"{result['seconds']:.3f}", f"{result['cpu']:.3f}" if "cpu" in result else "",
        f"{result['rss_mb']:.1f}", f"{result['seconds'] * 1000 / count:.3f}" if count else "",
        f"{result['seconds'] / base['seconds']:.1f}x" if compared else "",
    ))
widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
for row in rows:
    left = f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}"
    print("  ".join([left, *(f"{cell:>{width}}" for cell, width in zip(row[2:], widths[2:]))]).rstrip())
for result in results:
    if "kb_per_agent" in result:
        print(f"{case(result)}: {result['kb_per_agent']:.2f} kB an agent")
