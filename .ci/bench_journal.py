#!/usr/bin/env python3
"""Measures the cost of a thread in the reference on SQLite: bench_journal.py N B PATH delta|classic; prints one JSON line.

The case is the same as in `bench journal`: N steps of B bytes of text on a new database, each saved before the next.
`delta` stores messages as the reference's agents do: the additions of each step, and a snapshot every 50 steps.
`classic` stores the whole list with every step.
"""
import json
import os
import random
import resource
import sqlite3
import string
import sys
import time
from statistics import mean, median
from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

steps, size, path, kind = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
if os.path.exists(path):
    sys.exit(f"bench: {path} has been used before; name another")
if kind == "delta":
    from deepagents._messages_reducer import _messages_delta_reducer
    messages = Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=50)]
else:
    messages = Annotated[list[AnyMessage], add_messages]
State = TypedDict("State", {"messages": messages})


class Timed(SqliteSaver):
    """Records the time to save a step: its writes, and the checkpoint after them."""

    spent, times = 0.0, []

    def put(self, *args, **kwargs):
        begun = time.perf_counter()
        result = super().put(*args, **kwargs)
        self.times.append(self.spent + time.perf_counter() - begun)
        self.spent = 0.0
        return result

    def put_writes(self, *args, **kwargs):
        begun = time.perf_counter()
        result = super().put_writes(*args, **kwargs)
        self.spent += time.perf_counter() - begun
        return result


def say(state):
    text = "".join(random.choices(string.ascii_letters + string.digits, k=size))
    return {"messages": [AIMessage(content=text, id=str(len(state["messages"])))]}


graph = StateGraph(State)
graph.add_node("say", say)
graph.add_edge(START, "say")
graph.add_conditional_edges("say", lambda state: END if len(state["messages"]) >= steps else "say", ["say", END])
config = {"configurable": {"thread_id": "t"}, "recursion_limit": steps + 10}


def compiled(saver):
    return graph.compile(checkpointer=saver)


def bytes_on_disk():
    return sum(os.path.getsize(path + end) for end in ("", "-wal") if os.path.exists(path + end))


saver = Timed(sqlite3.connect(path, check_same_thread=False))
begun, cpu = time.perf_counter(), time.process_time()
compiled(saver).invoke({"messages": []}, config, durability="sync")
seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
written = bytes_on_disk()
saver.conn.close()
reader = SqliteSaver(sqlite3.connect(path, check_same_thread=False))
begun = time.perf_counter()
found = compiled(reader).get_state(config).values["messages"]
load = time.perf_counter() - begun
assert len(found) == steps, f"{len(found)} messages came back"
fifth = max(1, len(saver.times) // 5)
first, last = mean(saver.times[:fifth]), mean(saver.times[-fifth:])
print(json.dumps({
    "impl": f"python {kind}", "case": "journal", "args": [str(steps), str(size)], "seconds": seconds, "cpu": cpu,
    "mb": written / 1e6, "append_p50_ms": median(saver.times) * 1000, "first_fifth_ms": first * 1000,
    "last_fifth_ms": last * 1000, "last_to_first": last / first, "load_ms": load * 1000,
    "rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
}))
