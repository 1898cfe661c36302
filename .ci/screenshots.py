#!/usr/bin/env python3
"""Creates pictures and a recording of the screens from real runs: the program on a pseudo-terminal, with a scripted model.

    pip install pyte
    .ci/screenshots.py target/release/deepagents [docs/src/images]

Writes an SVG per picture, and `screens.cast` (asciinema, version 2), a recording of about a minute. Everything except the
model is real: files, commands, sandbox, threads.
"""
import codecs, copy, fcntl, html, http.server, json, os, pathlib, pty, select, signal, struct, subprocess, sys, tempfile, termios, threading, time

import pyte

COLUMNS, ROWS = 92, 28
CELL, LINE, FONT = 8.43, 18, 14
BACK, FORE = "#1b1e27", "#d7dae0"
PALETTE = {
    "black": "#2b303b", "red": "#e06c75", "green": "#98c379", "brown": "#e5c07b", "blue": "#61afef", "magenta": "#c678dd",
    "cyan": "#56b6c2", "white": "#abb2bf", "brightblack": "#7f848e", "brightred": "#ff7b86", "brightgreen": "#b5e08d",
    "brightbrown": "#ffd68a", "brightblue": "#7cc5ff", "brightmagenta": "#e08df5", "brightcyan": "#6fd6e3", "brightwhite": "#ffffff",
}

PARSER = '''"""Durations such as `1h30m`."""

UNITS = {"h": 3600, "m": 60, "s": 1}


def seconds(text):
    total, number = 0, ""
    for c in text:
        if c.isdigit():
            number += c
        else:
            total += int(number) * UNITS[c]
            number = ""
    return total
'''
TEST = '''from duration import seconds


def test_units():
    assert seconds("1h30m") == 5400
    assert seconds("45s") == 45


def test_days():
    assert seconds("2d") == 172800


if __name__ == "__main__":
    for name, test in sorted(globals().copy().items()):
        if name.startswith("test_"):
            try:
                test()
                print(name, "ok")
            except Exception as error:
                print(name, "FAILED:", repr(error))
                raise SystemExit(1)
'''
ANSWER = """The test failed because `UNITS` had no entry for **days**. I added it; both tests pass now.

| test | before | now |
|---|---|---|
| `test_units` | ok | ok |
| `test_days` | `KeyError: 'd'` | ok |

```python
UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
```

What I left alone: a text that ends with a number without a unit is still passed over in silence."""


def call(name, **args):
    return name, args


def todos(*marks):
    texts = ["Run the tests", "Find the cause", "Mend it and run the tests again"]
    return call("write_todos", todos=[{"content": text, "status": mark} for text, mark in zip(texts, marks)])


# The model's responses by the first words of the conversation: text, calls, or both, one entry per request.
SCRIPTS = {
    "why does": [
        ("I will run the tests first.", [todos("in_progress", "pending", "pending"), call("execute", command="python3 test_duration.py")]),
        ("", [call("read_file", file_path="/duration.py"), todos("completed", "in_progress", "pending")]),
        ("A unit is missing.", [call("edit_file", file_path="/duration.py", old_string='UNITS = {"h": 3600, "m": 60, "s": 1}', new_string='UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}')]),
        ("", [todos("completed", "completed", "in_progress"), call("execute", command="python3 test_duration.py")]),
        ("", [todos("completed", "completed", "completed")]),
        (ANSWER, []),
    ],
    "name the": [
        ("", [call("ask_user", question="What should the function be called?", choices=["seconds", "parse_duration", "to_seconds"])]),
        ("It stays `seconds` then.", []),
    ],
    "review it": [
        ("Two reviewers look at it.", [call("task", description="Look for inputs that break seconds()", subagent_type="general-purpose"),
                                       call("task", description="Judge the names and the documentation", subagent_type="general-purpose")]),
        ("Both agree: an unknown unit should be a `ValueError` that names it.", []),
    ],
    "Look for": [("", [call("read_file", file_path="/duration.py")]), ("", [call("execute", command="python3 -c 'import duration; duration.seconds(\"5x\")'")]), ("An unknown unit is a `KeyError`.", [])],
    "Judge the": [("", [call("read_file", file_path="/duration.py")]), ("", [call("grep", pattern="seconds", path="/")]), ("The names are fine.", [])],
}


class Model(http.server.BaseHTTPRequestHandler):
    """Plays the scripts over Chat Completions, at the speed of a fast model."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = [m for m in body["messages"] if m["role"] != "system"]
        words = lambda m: m["content"] if isinstance(m["content"], str) else " ".join(p.get("text", "") for p in m["content"] or [])
        starts = [i for i, m in enumerate(messages) if m["role"] == "user" and any(words(m).lower().startswith(k.lower()) for k in SCRIPTS)]
        at = starts[-1]
        script = next(v for k, v in SCRIPTS.items() if words(messages[at]).lower().startswith(k.lower()))
        turn = sum(m["role"] == "assistant" for m in messages[at:])
        text, calls = script[min(turn, len(script) - 1)]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        delta = lambda d, **more: self.event({"choices": [{"index": 0, "delta": d, **more}]})
        time.sleep(0.9)
        for i in range(0, len(text), 6):
            delta({"content": text[i:i + 6]})
            time.sleep(0.035)
        for i, (name, args) in enumerate(calls):
            delta({"tool_calls": [{"index": i, "id": f"call_{at}_{turn}_{i}", "function": {"name": name, "arguments": json.dumps(args)}}]})
        delta({}, finish_reason="tool_calls" if calls else "stop")
        size = len(json.dumps(body)) // 4
        self.event({"choices": [], "usage": {"prompt_tokens": size, "completion_tokens": 20 + len(text) // 4, "total_tokens": size + 20 + len(text) // 4}})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, value):
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
        self.wfile.flush()


class Screen(pyte.Screen):
    """A screen that supports the alternate screen."""
    saved = None

    def set_mode(self, *modes, **kw):
        if kw.get("private") and 1049 in modes and not self.saved:
            self.saved = copy.deepcopy(self.buffer), copy.copy(self.cursor)
        super().set_mode(*[m for m in modes if m != 1049], **kw)

    def reset_mode(self, *modes, **kw):
        if kw.get("private") and 1049 in modes and self.saved:
            (self.buffer, self.cursor), self.saved = self.saved, None
        super().reset_mode(*[m for m in modes if m != 1049], **kw)


class Terminal:
    """The program and its user, optionally recorded."""

    def __init__(self, argv, root, home, record=None):
        self.screen = Screen(COLUMNS, ROWS)
        self.stream, self.decoder = pyte.Stream(self.screen), codecs.getincrementaldecoder("utf-8")("replace")
        self.record, self.began, self.lock = record, time.monotonic(), threading.Lock()
        pid, self.fd = pty.fork()
        if pid == 0:
            os.chdir(root)
            path = os.environ["PATH"]
            os.execvpe(argv[0], argv, {"HOME": home, "PATH": path, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"})
        self.pid = pid
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while True:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return
            text = self.decoder.decode(data)
            with self.lock:
                self.stream.feed(text)
                if self.record is not None:
                    self.record.append([round(time.monotonic() - self.began, 3), "o", text])

    def text(self):
        with self.lock:
            return "\n".join(self.screen.display)

    def see(self, words, patience=20):
        end = time.monotonic() + patience
        while words not in self.text():
            if time.monotonic() > end:
                raise SystemExit(f"`{words}` never came:\n{self.text()}")
            time.sleep(0.02)

    def send(self, data, pause=0.0):
        os.write(self.fd, data.encode())
        time.sleep(pause)

    def type(self, text):
        for c in text:
            self.send(c, 0.075)
        time.sleep(0.5)

    def end(self):
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)


def colour(name, default):
    if name == "default":
        return default
    return PALETTE.get(name) or (f"#{name}" if len(name) == 6 else default)


def svg(screen, title):
    width, top, side = COLUMNS * CELL + 32, 44, 16
    used = max(y for y in range(ROWS) if screen.display[y].strip()) + 1
    rows = max(used, 10)
    height = top + rows * LINE + 14
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" role="img" aria-label="{html.escape(title)}">',
           "<style>text{font:%dpx 'JetBrains Mono','SFMono-Regular',Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}</style>" % FONT,
           f'<rect width="100%" height="100%" rx="9" fill="{BACK}"/><rect width="100%" height="30" rx="9" fill="#262a36"/><rect y="20" width="100%" height="10" fill="#262a36"/>']
    out += [f'<circle cx="{18 + 19 * i}" cy="15" r="5.5" fill="{c}"/>' for i, c in enumerate(("#ff5f57", "#febc2e", "#28c840"))]
    out.append(f'<text x="{width / 2:.0f}" y="20" fill="#9aa0ad" text-anchor="middle" style="font-size:12px">{html.escape(title)}</text>')
    for y in range(rows):
        row, x = screen.buffer[y], 0
        while x < COLUMNS:
            cell, begin, text = row[x], x, ""
            style = lambda c: (c.fg, c.bg, c.bold, c.italics, c.underscore, c.reverse, c.strikethrough)
            while x < COLUMNS and style(row[x]) == style(cell):
                # The second cell of a wide character is empty.
                text += row[x].data
                x += 1
                if len(text) and ord(text[-1]) > 0x2E7F:
                    break
            fore, back = colour(cell.fg, FORE), colour(cell.bg, BACK)
            if cell.reverse:
                fore, back = back, fore
            if back != BACK:
                out.append(f'<rect x="{side + begin * CELL:.1f}" y="{top + y * LINE - 1:.1f}" width="{(x - begin) * CELL + .3:.1f}" height="{LINE}" fill="{back}"/>')
            if not text.strip():
                continue
            lead = len(text) - len(text.lstrip())
            text, begin = text.strip(), begin + lead
            looks = (("font-weight:700", cell.bold), ("font-style:italic", cell.italics), ("text-decoration:underline", cell.underscore), ("text-decoration:line-through", cell.strikethrough))
            look = ";".join(style for style, there in looks if there)
            look = f' style="{look}"' if look else ""
            length = f' textLength="{len(text) * CELL:.1f}" lengthAdjust="spacingAndGlyphs"' if ord(max(text)) < 0x2E80 else ""
            out.append(f'<text x="{side + begin * CELL:.1f}" y="{top + y * LINE + 13}" fill="{fore}"{look}{length}>{html.escape(text)}</text>')
    if not screen.cursor.hidden:
        out.append(f'<rect x="{side + screen.cursor.x * CELL:.1f}" y="{top + screen.cursor.y * LINE}" width="{CELL}" height="{LINE - 2}" fill="{FORE}" opacity=".6"/>')
    return "\n".join([*out, "</svg>\n"])


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    images = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "docs/src/images")
    images.mkdir(parents=True, exist_ok=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as place:
        home = pathlib.Path(place, "home")
        root = home / "duration"
        root.mkdir(parents=True)
        (root / "duration.py").write_text(PARSER)
        (root / "test_duration.py").write_text(TEST)
        for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "Begin"]):
            subprocess.run(["git", *command], cwd=root, check=True)
        record = []
        argv = [program, "--base-url", f"http://127.0.0.1:{server.server_port}/v1", "--model", "scripted"]
        terminal = Terminal(argv, str(root), str(home), record)

        def picture(name, title, pause=0.5):
            time.sleep(pause)
            with terminal.lock:
                (images / f"{name}.svg").write_text(svg(terminal.screen, title))
            print(images / f"{name}.svg")

        terminal.see("/help")
        time.sleep(1)
        terminal.type("Why does @dur")
        terminal.see("❯")
        picture("files", "@ finds files")
        terminal.send("\t", 0.4)
        terminal.type(" fail its test? Mend it.")
        terminal.send("\r")
        terminal.see("Run this command?")
        picture("command", "a command waits for a yes", 2.5)
        terminal.send("y", 0.2)
        terminal.see("Change /duration.py?")
        picture("diff", "a change waits for a yes", 3)
        terminal.send("y", 0.5)
        terminal.see("Run this command?")
        time.sleep(2)
        terminal.send("y")
        terminal.see("What I left alone")
        picture("answer", "the answer", 3)
        terminal.type("Name the function.")
        terminal.send("\r")
        terminal.see("What should the function")
        time.sleep(1)
        terminal.send("2", 0.8)
        picture("question", "a question of the agent")
        terminal.send("\x1b[A", 0.8)
        terminal.send("\r")
        terminal.see("stays")
        time.sleep(1)
        # Sandboxed commands need no approval in this mode.
        terminal.send("\x1b[Z", 0.8)
        terminal.type("Review it.")
        terminal.send("\r")
        terminal.see("Judge the names")
        terminal.see("└")
        picture("sub_agents", "two sub-agents at work", 0.4)
        terminal.see("Both agree")
        time.sleep(1.2)
        terminal.type("/context")
        terminal.send("\r")
        terminal.see("tokens in use")
        picture("context", "what fills the window", 1.5)
        terminal.type("/rewind")
        terminal.send("\r", 1.0)
        terminal.send("\x1b[B", 0.4)
        terminal.send("\x1b[B", 0.8)
        terminal.send("\r", 1.0)
        picture("rewind", "going back, with the files")
        terminal.send("\x1b", 0.5)
        terminal.type("/quit")
        terminal.send("\r", 1.5)
        try:
            terminal.end()
        except (ProcessLookupError, ChildProcessError):
            pass
        head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "Deep Agents in Rust: the screens", "env": {"TERM": "xterm-256color"}}
        hidden = str(pathlib.Path(place))
        lines = [json.dumps(head)] + [json.dumps(event, ensure_ascii=False) for event in record]
        (images / "screens.cast").write_text("\n".join(lines).replace(hidden, "~") + "\n")
        print(images / "screens.cast", f"{record[-1][0]:.0f} s")


if __name__ == "__main__":
    main()
