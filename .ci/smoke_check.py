#!/usr/bin/env python3
"""Checks the events of a run, one JSON object per line: smoke_check.py EXIT_CODE [any|--text-tool-calls] <EVENTS"""
import json
import sys

code, any_model = int(sys.argv[1]), sys.argv[2:] == ["any"]
in_text = sys.argv[2:] == ["--text-tool-calls"]
events = [json.loads(line) for line in sys.stdin if line.strip()]
count = {}
for event in events:
    count[event["type"]] = count.get(event["type"], 0) + 1
last = events[-1] if events else {}
usage = last.get("usage") or {}

wrong = []
if last.get("type") != "run_finished":
    wrong.append(f"the last event is {last.get('type')}, not run_finished")
if not (usage.get("input", 0) > 0 and usage.get("output", 0) > 0):
    wrong.append(f"tokens were not counted: {usage}")
if not (count.get("text_delta") or count.get("tool_call_delta") or count.get("reasoning_delta")):
    wrong.append("nothing was streamed")
if [event["seq"] for event in events] != list(range(len(events))):
    wrong.append("the numbers of the events have gaps")
if any_model:
    # An arbitrary model may use up its turns or say nothing; the program then exits with 1.
    if code not in (0, 1):
        wrong.append(f"exit code {code}")
else:
    if code != 0:
        wrong.append(f"exit code {code}")
    if last.get("stop") != "done":
        wrong.append(f"stop is {last.get('stop')}, not done")
    listed = [event for event in events if event["type"] == "tool_finished"]
    if len(listed) != 1 or listed[0].get("error") or "hello.txt" not in listed[0].get("text", ""):
        wrong.append(f"`ls` did not list hello.txt: {listed}")
    said = "".join(event["text"] for event in events if event["type"] == "text_delta")
    call = '```json\n{"name": "ls", "arguments": {"path": "/"}}\n```'
    if in_text and not said.startswith(call):
        wrong.append(f"the call was not written into the text, so nothing was shown: {said!r}")
    said = said.removeprefix(call) if in_text else said
    if said != "I have looked at the files, and there is no more to do." or count.get("text_delta", 0) < 2:
        wrong.append(f"the answer was not streamed as the model said it: {said!r}")

for line in wrong:
    print(f"smoke: {line}", file=sys.stderr)
if wrong:
    sys.exit(1)
print(f"smoke: ok ({len(events)} events, {usage['input']} tokens in, {usage['output']} out)")
