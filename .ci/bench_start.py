#!/usr/bin/env python3
"""Measures the run time of a program, from start to exit: bench_start.py PROGRAM [ARGS]; prints one JSON line."""
import json
import os
import resource
import statistics
import subprocess
import sys
import time

RUNS = 31
times = []
for _ in range(RUNS):
    started = time.perf_counter()
    subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
    times.append(time.perf_counter() - started)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({
    "impl": "rust", "case": "start", "args": [os.path.basename(sys.argv[1]), *sys.argv[2:]],
    "seconds": statistics.median(times), "cpu": (used.ru_utime + used.ru_stime) / RUNS, "rss_mb": used.ru_maxrss / 1024,
}))
