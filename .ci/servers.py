#!/usr/bin/env python3
"""Compares our server with LangGraph's development server: servers.py SERVE_RIG VENV [SHARED]

VENV contains the packages of SHARED/server/reference/requirements.txt. Both serve the same agents with the same scripted
model, which runs in a separate process, and are measured by the same client, one after the other. Prints a table:
milliseconds from process start to the first response, idle memory, the median of sequential runs, and runs per second
with sixteen clients.
"""
import http.client, json, os, signal, socket, statistics, subprocess, sys, tempfile, threading, time

program, venv = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
shared = os.path.abspath(sys.argv[3] if len(sys.argv) > 3 else os.environ.get("SHARED", "../shared"))
BODY = json.dumps({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "say hello"}]}})


def free():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def ask(connection, method, path, body=None):
    connection.request(method, path, body, {"content-type": "application/json"} if body else {})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{method} {path}: {answer.status} {text[:300]!r}")
    return json.loads(text)


def run(connection):
    answer = ask(connection, "POST", "/runs/wait", BODY)
    if answer["messages"][-1]["content"][:5] != "Hello":
        raise SystemExit(f"a run ended with {answer}")


def memory(group):
    """Memory of a process group in megabytes, with shared pages counted proportionally."""
    total = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getpgid(int(pid)) == group:
                lines = open(f"/proc/{pid}/smaps_rollup").read().splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except (OSError, StopIteration):
            continue
    return total / 1e3


def measure(command, port, environment, folder):
    begun = time.monotonic()
    process = subprocess.Popen(command, env={**os.environ, **environment}, cwd=folder, start_new_session=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            if process.poll() is not None:
                raise SystemExit(f"{command[0]} ended with {process.returncode}")
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port)
                ask(connection, "GET", "/ok")
                break
            except OSError:
                time.sleep(0.001)
        start = (time.monotonic() - begun) * 1e3
        time.sleep(2)
        resting, alone = memory(process.pid), []
        for _ in range(5):
            begun = time.monotonic()
            run(connection)
            alone.append((time.monotonic() - begun) * 1e3)
        until, made = time.monotonic() + 5, [0] * 16

        def client(number):
            mine = http.client.HTTPConnection("127.0.0.1", port)
            while time.monotonic() < until:
                run(mine)
                made[number] += 1

        begun = time.monotonic()
        clients = [threading.Thread(target=client, args=(number,)) for number in range(16)]
        [thread.start() for thread in clients]
        [thread.join() for thread in clients]
        return start, resting, statistics.median(alone), sum(made) / (time.monotonic() - begun)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


model = free()
rig, reference = f"{shared}/server/rig.json", f"{shared}/server/reference"
mock = subprocess.Popen([sys.executable, f"{shared}/conformance/mockllm.py", "--port", str(model), "--script",
                         f"{shared}/server/model_script.json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
environment = {"RIG_MODEL_URL": f"http://127.0.0.1:{model}", "RIG_JSON": rig, "LANGSMITH_TRACING": "false",
               "LANGGRAPH_CLI_NO_ANALYTICS": "1"}
try:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("graph.py", "langgraph.json"):
            with open(f"{folder}/{name}", "w") as copy:
                copy.write(open(f"{reference}/{name}").read())
        ours, theirs = free(), free()
        path = {"PATH": f"{venv}/bin:{os.environ['PATH']}"}
        rows = [
            ("deepagents", measure([program, rig, "--port", str(ours)], ours, environment, folder)),
            ("langgraph dev", measure(
                ["langgraph", "dev", "--no-browser", "--no-reload", "--host", "127.0.0.1", "--port", str(theirs),
                 "--n-jobs-per-worker", "10", "--allow-blocking"], theirs, {**environment, **path}, folder)),
        ]
finally:
    mock.terminate()
print(f"{'':14} {'start ms':>9} {'rest MB':>8} {'run ms':>8} {'runs/s':>8}")
for name, (start, resting, alone, rate) in rows:
    print(f"{name:14} {start:9.0f} {resting:8.0f} {alone:8.1f} {rate:8.1f}")
